"""Dense plans against the layers on every pixel, whole and in factors."""

import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleBatchNormalization,
    ScaleChannels,
    _derivation,
)
from gdn_keras.layers._resampling import expanded_convolution
from tests.layers.networks import (
    images,
    make_network,
    numpy,
    randomise_positive,
    run_layers,
)

SCALES = (0.8, 1.2, 2.0, 3.5)


@pytest.mark.parametrize("boundary", ["symmetric", "edge", "constant"])
@pytest.mark.parametrize("shape", [(41, 41, 1), (40, 33, 2), (9, 12, 1)])
@pytest.mark.parametrize(
    "center, order, dtype, tolerance",
    [(True, 2, "float32", 1e-4), (True, 3, "float64", 1e-10), (False, 2, "float64", 1e-10)],
)
def test_dense_plan_equals_the_layers_on_every_pixel(
    boundary, shape, center, order, dtype, tolerance
):
    """The receptive cone of dense sampling is exact."""
    network = make_network(center, boundary, order=order, dtype=dtype)
    layer = ScaleChannels(network, SCALES, None, "dense", dtype=dtype)
    x = ops.convert_to_tensor(images(shape), dtype=dtype)
    layer.build(x.shape)
    randomise_positive(layer)
    planned = numpy(layer(x))
    literal = numpy(run_layers(layer.network, SCALES, x, False))
    assert np.abs(planned - literal).max() < tolerance * np.abs(literal).max()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="uses tf.GradientTape")
@pytest.mark.parametrize("center", [True, False])
def test_dense_plan_has_the_gradients_of_the_layers(center):
    import tensorflow as tf

    layer = ScaleChannels(
        make_network(center, dtype="float64"), SCALES, None, "dense", dtype="float64"
    )
    x = tf.constant(images((30, 30, 1)).astype("float64"))
    layer.build(x.shape)
    randomise_positive(layer)
    gradients = []
    for run in (layer.channels, lambda x: run_layers(layer.network, SCALES, x, False)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(run(x)))
        gradients.append(tape.gradient(loss, [x, *layer.trainable_weights]))
    for a, b in zip(*gradients, strict=True):
        assert np.abs(a - b).max() < 1e-10 * np.abs(b).max()


def wide_dense_layer(boundary="symmetric", order=2, center=True, dtype=None):
    """Wide layers at coarse scales, some of which run in the basis of their factored operators."""
    keras.utils.set_random_seed(0)
    # A bias would be all but invisible to the derivatives after it.
    options = {"boundary": boundary, "truncation": 1e-4, "order": order, "use_bias": False}
    layers = []
    for k, width in enumerate((16, 24, 20, 6)):
        layers.append(GaussianDerivative(width, 1.25**k, dtype=dtype, **options))
        if k == 0:
            layers.append(ScaleBatchNormalization(dtype=dtype))
        layers.append(keras.layers.Activation("tanh", dtype=dtype))
    layers += [CentralPixel(dtype=dtype)] if center else []
    return ScaleChannels(keras.Sequential(layers), (2.0, 4.0), None, "dense", dtype=dtype)


@pytest.fixture
def factored_runs(monkeypatch):
    """A list that grows with each layer that runs in the basis of its factored operator."""
    runs = []

    def spy(*args):
        runs.append(args[1].shape)
        return expanded_convolution(*args)

    monkeypatch.setattr(_derivation, "expanded_convolution", spy)
    return runs


@pytest.mark.parametrize("boundary", ["symmetric", "edge", "constant"])
@pytest.mark.parametrize("shape, center", [((48, 48, 1), True), ((40, 51, 2), False)])
def test_factored_operators_give_the_values_of_the_layers(boundary, shape, center, factored_runs):
    layer = wide_dense_layer(boundary, center=center)
    x = ops.convert_to_tensor(images(shape))
    layer.build(x.shape)
    planned, literal = (
        numpy(y) for y in (layer(x), run_layers(layer.network, layer.scales, x, False))
    )
    assert 0 < len(factored_runs) < 8  # of two channels with four layers each
    assert np.abs(planned - literal).max() < 1e-4 * np.abs(literal).max()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="uses tf.GradientTape")
@pytest.mark.parametrize("shape", [(48, 48, 1), (40, 51, 2)])
def test_factored_operators_give_the_gradients_of_the_layers(shape, factored_runs):
    import tensorflow as tf

    layer = wide_dense_layer()
    x = tf.constant(images(shape))
    layer.build(x.shape)
    kernels = [w for w in layer.trainable_weights if w.name == "kernel"]
    found = []
    for run in (layer.channels, lambda x: run_layers(layer.network, layer.scales, x, False)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(run(x)))
        found.append(tape.gradient(loss, [x, *kernels]))
    assert factored_runs
    for a, b in zip(*found, strict=True):
        assert np.abs(a - b).max() < 1e-4 * np.abs(b).max()


@pytest.mark.parametrize(
    "order, dtype", [(3, "float32"), (2, "float64"), (2, "mixed_float16"), (2, "mixed_bfloat16")]
)
def test_what_factored_operators_are_too_coarse_for_runs_without(order, dtype, factored_runs):
    layer = wide_dense_layer(order=order, dtype=dtype)
    y = numpy(layer(images((48, 48, 1))))
    assert np.isfinite(y.astype("float64")).all()
    assert not factored_runs
