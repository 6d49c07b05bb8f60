"""What the units of the first layers respond to, written out as images."""

from math import factorial

import keras
import numpy as np
from scipy.signal import fftconvolve

from gdn_keras.layers import GaussianDerivative, ScaleBatchNormalization
from gdn_keras.models import scale_channels_of
from gdn_keras.scale_space import gaussian_derivative_kernel, jet_orders


def first_layer_fields(model: keras.Model, sigma: float = 6.0) -> np.ndarray:
    """The receptive fields of the first layer: its linear combinations of Gaussian derivatives.

    Templates [units, input channels, size, size] that the image is correlated with; `sigma` is
    sigma_0 in their pixels. The fields of all scale channels look the same.
    """
    jets, _ = _layers(model)
    return _fields(jets[0], sigma * jets[0].sigma)


def second_layer_fields(model: keras.Model, sigma: float = 6.0) -> np.ndarray:
    """The receptive fields of the second layer, [units, size, size], for the first image channel.

    A unit sums over many units of the first layer, with a ReLU in between; shown is the field of
    the two linear layers through the unit that contributes most.
    """
    jets, gains = _layers(model)
    if len(jets) < 2:
        text = "`model` must have at least two GaussianDerivative layers."
        raise ValueError(f"{text} Received: model={model.name!r} with {len(jets)}")
    first = _fields(jets[0], sigma * jets[0].sigma)[:, 0] * gains[:, None, None]
    second = _fields(jets[1], sigma * jets[1].sigma)
    strength = np.linalg.norm(first, axis=(1, 2)) * np.linalg.norm(second, axis=(2, 3))
    strongest = strength.argmax(axis=1)
    # Templates of correlations compose by convolution.
    return np.stack([fftconvolve(first[c], second[unit, c]) for unit, c in enumerate(strongest)])


def _layers(model: keras.Model) -> tuple[list[GaussianDerivative], np.ndarray]:
    """The derivative layers, and the gains of the normalization after the first."""
    layers = scale_channels_of(model).shared_layers
    jets = [layer for layer in layers if isinstance(layer, GaussianDerivative)]
    norms = [layer for layer in layers if isinstance(layer, ScaleBatchNormalization)]
    gains = keras.ops.convert_to_numpy(norms[0].affine()[0]) if norms else np.ones(jets[0].filters)
    return jets, gains


def _fields(layer: GaussianDerivative, sigma: float) -> np.ndarray:
    """[units, input channels, size, size] of one layer."""
    basis = [
        gaussian_derivative_kernel(a, b, sigma) / (factorial(a) * factorial(b))
        for a, b in jet_orders(layer.order, layer.zero_order)
    ]
    return np.einsum("tcu,tyx->ucyx", keras.ops.convert_to_numpy(layer.kernel), basis)
