"""Networks and images that the tests of layers share."""

import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleBatchNormalization,
)

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs of unknown size, gradient tapes"
)
READOUTS = {
    "center": CentralPixel,
    "anywhere": keras.layers.GlobalMaxPooling2D,
    "average": keras.layers.GlobalAveragePooling2D,
    "map": None,
}


def numpy(x):
    return ops.convert_to_numpy(x)


def images(shape, seed=0):
    return np.random.default_rng(seed).normal(size=(3, *shape)).astype("float32")


def make_network(center=True, boundary="symmetric", order=2, truncation=1e-3, dtype=None):
    layers = []
    for k, width in enumerate((4, 5, 3)):
        options = {"order": order, "boundary": boundary, "truncation": truncation}
        layers.append(GaussianDerivative(width, 1.25**k, dtype=dtype, **options))
        if k < 2:
            layers += [ScaleBatchNormalization(dtype=dtype), keras.layers.ReLU(dtype=dtype)]
    return keras.Sequential([*layers, CentralPixel(dtype=dtype)] if center else layers)


def randomise_positive(layer, seed=0):
    """Random weights, and moving statistics that are not the initial ones."""
    rng = np.random.default_rng(seed)
    layer.set_weights([np.abs(rng.normal(size=w.shape)) + 0.1 for w in layer.get_weights()])
    for jet in layer.network.layers:
        if isinstance(jet, GaussianDerivative):
            jet.set_weights([rng.normal(size=w.shape) for w in jet.get_weights()])


def residual_network(read=None, sigmas=(1.0, 1.0, 1.25), dtype=None, activation="relu", **options):
    """A layer, then a layer with a skip around it, two branches of unlike sigma, and a read-out."""
    x = keras.Input((None, None, 2))
    jet = {"dtype": dtype, **options}
    a = GaussianDerivative(4, sigmas[0], activation=activation, **jet)(x)
    b = GaussianDerivative(4, sigmas[1], **jet)(a)
    y = keras.layers.Add(dtype=dtype)([a, ScaleBatchNormalization(dtype=dtype)(b)])
    z = GaussianDerivative(3, sigmas[2], activation=activation, **jet)(y)
    y = keras.layers.Concatenate(dtype=dtype)([z, y])
    y = keras.layers.Dense(3, dtype=dtype)(y)
    return keras.Model(x, y if read is None else read(dtype=dtype)(y))


def randomise(layer, seed=0):
    rng = np.random.default_rng(seed)
    values = []
    for weight in layer.weights:
        value = rng.normal(size=weight.shape)
        values.append(np.abs(value) + 0.5 if "moving_variance" in weight.path else value)
    layer.set_weights(values)
