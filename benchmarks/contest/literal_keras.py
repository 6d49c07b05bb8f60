"""The network as the paper writes it down, in Keras layers and nothing else.

In every scale channel and layer: two depthwise convolutions with the discrete Gaussian, five
central differences, a 1×1 convolution that combines them, on all pixels of the image.
"""

import keras
import numpy as np
from keras import ops

from contest.weights import EPSILON, layer_weights
from gdn_keras.scale_space import gaussian_kernel, jet_stencils, scale_normalization


class LiteralNetwork(keras.Model):
    """Scale channels with shared weights, written out; the maximum over them of the logits.

    Args:
        widths: Feature channels of the layers, the classes as the last.
        scales: sigma_0 of the scale channels, in pixels.
        truncation: Bound on the mass cut off each smoothing kernel.
        scale_ratio: Ratio between the sigmas of successive layers.
    """

    def __init__(self, widths, scales, truncation=1e-4, scale_ratio=1.25):
        super().__init__()
        self.sigmas = [[sigma * scale_ratio**k for sigma in scales] for k in range(len(widths))]
        self.truncation = truncation
        self.mixers = [keras.layers.Conv2D(n, 1, use_bias=False) for n in widths]
        self.normalizations = [
            keras.layers.BatchNormalization(momentum=0.9, epsilon=EPSILON) for _ in widths
        ]

    def call(self, inputs, training=False):
        channels = [inputs] * len(self.sigmas[0])
        for k, mix in enumerate(self.mixers):
            if k > 0:
                channels = [ops.relu(x) for x in channels]
            channels = [
                mix(jet(smooth(x, sigma, self.truncation), sigma))
                for x, sigma in zip(channels, self.sigmas[k], strict=True)
            ]
            channels = self._normalize(channels, self.normalizations[k], training)
        return ops.max(ops.stack([central_mean(x) for x in channels]), axis=0)

    def _normalize(self, channels, normalization, training):
        """One set of statistics for all channels, which therefore are one batch in training."""
        if not training:
            return [normalization(x, training=False) for x in channels]
        stacked = normalization(ops.concatenate(channels), training=True)
        return ops.split(stacked, len(channels))

    def copy_weights(self, network) -> None:
        """Take the weights of the shared network of a `gdn_keras` model."""
        layers = zip(self.mixers, self.normalizations, layer_weights(network), strict=True)
        for mix, normalization, (kernel, statistics) in layers:
            terms, c_in, c_out = kernel.shape
            # A depthwise convolution keeps the derivatives of one feature channel together.
            mix.set_weights([kernel.transpose(1, 0, 2).reshape(1, 1, terms * c_in, c_out)])
            normalization.set_weights(statistics)


def smooth(x, sigma: float, truncation: float):
    """Separable smoothing of each feature channel, the image mirrored at its edges."""
    taps = gaussian_kernel(sigma, truncation)
    radius, features = len(taps) // 2, x.shape[-1]
    for axis, shape in ((1, (-1, 1, 1, 1)), (2, (1, -1, 1, 1))):
        padding = [(radius, radius) if a == axis else (0, 0) for a in range(4)]
        kernel = np.tile(taps.reshape(shape), (1, 1, features, 1))
        x = ops.pad(x, padding, mode="symmetric")
        x = ops.depthwise_conv(x, kernel.astype("float32"), padding="valid")
    return x


def jet(x, sigma: float):
    """The five scale-normalised derivatives of each feature channel."""
    stencils = scale_normalization(sigma)[:, None, None] * jet_stencils()
    kernel = np.tile(stencils.transpose(1, 2, 0)[:, :, None], (1, 1, x.shape[-1], 1))
    x = ops.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], mode="symmetric")
    return ops.depthwise_conv(x, kernel.astype("float32"), padding="valid")


def central_mean(x):
    """The mean of the central 2×2 pixels (of the central pixel where a side is odd)."""
    height, width = x.shape[1:3]
    rows = slice((height - 1) // 2, height // 2 + 1)
    columns = slice((width - 1) // 2, width // 2 + 1)
    return ops.mean(x[:, rows, columns], axis=(1, 2))
