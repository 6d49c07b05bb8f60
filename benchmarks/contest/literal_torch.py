"""The network as the paper writes it down, in PyTorch with pyscsp's kernels.

It follows `literal_keras` step by step: PyTorch is the framework that the paper's own experiments
used, and pyscsp is its author's library for the kernels.
"""

import numpy as np
import torch
from pyscsp.discscsp import make1Ddiscgaussfilter
from torch import nn
from torch.nn import functional

from contest.weights import EPSILON, layer_weights
from gdn_keras.scale_space import jet_stencils, scale_normalization


class LiteralNetwork(nn.Module):
    """As `literal_keras.LiteralNetwork`, for images [batch, 1, height, width]."""

    def __init__(self, widths, scales, truncation=1e-4, scale_ratio=1.25, input_channels=1):
        super().__init__()
        self.sigmas = [[sigma * scale_ratio**k for sigma in scales] for k in range(len(widths))]
        self.truncation = truncation
        inputs = [input_channels, *widths[:-1]]
        self.mixers = nn.ModuleList(
            nn.Conv2d(5 * c_in, c_out, 1, bias=False)
            for c_in, c_out in zip(inputs, widths, strict=True)
        )
        self.normalizations = nn.ModuleList(
            nn.BatchNorm2d(n, eps=EPSILON, momentum=0.1) for n in widths
        )

    def forward(self, x):
        channels = [x] * len(self.sigmas[0])
        for k, mix in enumerate(self.mixers):
            if k > 0:
                channels = [functional.relu(x) for x in channels]
            channels = [
                mix(jet(smooth(x, sigma, self.truncation), sigma))
                for x, sigma in zip(channels, self.sigmas[k], strict=True)
            ]
            channels = self._normalize(channels, self.normalizations[k])
        return torch.stack([central_mean(x) for x in channels]).amax(dim=0)

    def _normalize(self, channels, normalization):
        """One set of statistics for all channels, which therefore are one batch in training."""
        if not self.training:
            return [normalization(x) for x in channels]
        return normalization(torch.cat(channels)).chunk(len(channels))

    def copy_weights(self, network) -> None:
        """Take the weights of the shared network of a `gdn_keras` model."""
        layers = zip(self.mixers, self.normalizations, layer_weights(network), strict=True)
        for mix, normalization, (kernel, statistics) in layers:
            terms, c_in, c_out = kernel.shape
            _assign(mix.weight, kernel.reshape(terms * c_in, c_out).T[:, :, None, None])
            targets = ("weight", "bias", "running_mean", "running_var")
            for name, value in zip(targets, statistics, strict=True):
                _assign(getattr(normalization, name), value)


def smooth(x, sigma: float, truncation: float):
    """Separable smoothing of each feature channel, the image mirrored at its edges."""
    taps = make1Ddiscgaussfilter(sigma, truncation)
    taps = torch.tensor(taps / taps.sum(), dtype=x.dtype)
    features = x.shape[1]
    for axis, shape in ((2, (-1, 1)), (3, (1, -1))):
        kernel = taps.reshape(1, 1, *shape).expand(features, -1, -1, -1)
        x = functional.conv2d(mirror(x, axis, len(taps) // 2), kernel, groups=features)
    return x


def mirror(x, axis: int, margin: int):
    """Continue images beyond their edges, the edge pixel repeated (PyTorch has no such mode)."""
    if margin == 0:
        return x
    before = x.narrow(axis, 0, margin).flip(axis)
    after = x.narrow(axis, x.shape[axis] - margin, margin).flip(axis)
    return torch.cat([before, x, after], dim=axis)


def jet(x, sigma: float):
    """The five scale-normalised derivatives of each feature channel."""
    x = mirror(mirror(x, 2, 1), 3, 1)
    features = x.shape[1]
    derivatives = []
    # Five convolutions: one with five outputs for each feature channel takes longer in PyTorch.
    for stencil, factor in zip(jet_stencils(), scale_normalization(sigma), strict=True):
        kernel = torch.tensor(factor * stencil, dtype=x.dtype).expand(features, 1, -1, -1)
        derivatives.append(functional.conv2d(x, kernel, groups=features))
    return torch.cat(derivatives, dim=1)


def central_mean(x):
    """The mean of the central 2×2 pixels (of the central pixel where a side is odd)."""
    height, width = x.shape[2:]
    rows = slice((height - 1) // 2, height // 2 + 1)
    columns = slice((width - 1) // 2, width // 2 + 1)
    return x[:, :, rows, columns].mean(dim=(2, 3))


def _assign(parameter, value: np.ndarray) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(np.ascontiguousarray(value)))
