"""The literal network, which matched sampling approximates, against NumPy in float64."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleBatchNormalization,
    ScaleChannels,
)
from tests.layers import oracle
from tests.layers.networks import images, make_network, numpy, on_tensorflow, randomise_positive

SCALES = (0.8, 1.2, 2.0, 3.5)


def literal(layer, image):
    """The layers of a cascade on one image [h, w, channels], one scale channel after the other."""
    channels = []
    for scale in layer.scales:
        x = image.astype("float64")
        for part in layer.network.layers:
            if isinstance(part, GaussianDerivative):
                kernel, bias = (numpy(w).astype("float64") for w in part.weights)
                sigma = part.sigma * scale
                rules = part.boundary, part.truncation, part.order
                x = oracle.jet_layer(x, kernel, bias, sigma, *rules)
            elif isinstance(part, ScaleBatchNormalization):
                gamma, beta, mean, variance = (numpy(w) for w in part.weights)
                x = (x - mean) / np.sqrt(variance + part.epsilon) * gamma + beta
            elif isinstance(part, CentralPixel):
                h, w = x.shape[:2]
                x = x[(h - 1) // 2 : h // 2 + 1, (w - 1) // 2 : w // 2 + 1].mean(axis=(0, 1))
            else:
                x = np.maximum(x, 0)
        channels.append(x)
    return np.stack(channels)


@pytest.mark.parametrize("boundary", ["symmetric", "edge", "constant"])
@pytest.mark.parametrize("shape", [(41, 41, 1), (40, 33, 2), (9, 12, 1)])
@pytest.mark.parametrize("center, order", [(True, 2), (True, 3), (False, 2)])
def test_dense_channels_are_the_paper_to_the_letter(boundary, shape, center, order):
    network = make_network(center, boundary, order=order, dtype="float64")
    layer = ScaleChannels(network, SCALES, None, "dense", dtype="float64")
    x = images(shape)[:2].astype("float64")
    layer.build(x.shape)
    randomise_positive(layer)
    expected = np.stack([literal(layer, image) for image in x])
    tolerance = 1e-5 if keras.backend.backend() == "torch" else 1e-10
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("scale", [2.0, 4.0])
def test_matched_channels_approach_dense_ones_as_grids_become_finer(scale):
    """Single responses differ by the sampling, which shrinks with the square of the step."""
    x = np.zeros((1, 96, 96, 1), "float32")
    y, z = np.mgrid[-48:48, -48:48] + 0.5
    x[0, ..., 0] = np.exp(-((y - 3) ** 2 + (z + 2) ** 2) / (2 * (1.5 * scale) ** 2))

    def responses(sampling, **options):
        keras.utils.set_random_seed(1)
        layers = [GaussianDerivative(3, s, truncation=1e-6) for s in (1.0, 1.25)]
        network = keras.Sequential([*layers, CentralPixel()])
        return numpy(ScaleChannels(network, (scale,), None, sampling, cone=6.0, **options)(x))

    dense = responses("dense")
    errors = [
        np.abs(responses("matched", density=density) - dense).max() / np.abs(dense).max()
        for density in (1.0, 2.0)
    ]
    assert errors[1] < 0.4 * errors[0] and errors[1] < 0.1


def test_normalization_is_joint_in_training():
    network = make_network(center=False)
    layer = ScaleChannels(network, (1.0, 2.0), None, "dense")
    x = images((24, 24, 1))
    layer(x, training=True)
    first, norm = network.layers[0], network.layers[1]
    joint = np.concatenate([numpy(first(x, scale=s)).reshape(-1, 4) for s in (1.0, 2.0)])
    np.testing.assert_allclose(numpy(norm.moving_mean), 0.1 * joint.mean(axis=0), atol=1e-4)
    expected = 0.9 + 0.1 * joint.var(axis=0)
    np.testing.assert_allclose(numpy(norm.moving_variance), expected, rtol=1e-3)


@on_tensorflow
@pytest.mark.parametrize("readout", ["map", "points"])
def test_images_of_unknown_size(readout):
    import tensorflow as tf

    layer = ScaleChannels(make_network(center=False), SCALES, None, "dense", readout=readout)
    unknown = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None, 1))])
    for shape in ((30, 21, 1), (5, 9, 1)):
        x = images(shape)
        np.testing.assert_allclose(unknown(x), numpy(layer(x)), atol=1e-4)
