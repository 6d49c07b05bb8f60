"""Gradients, precisions, extreme scales, determinism, and the same numbers on another backend."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from gdn_keras import layers
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.scale_space import gaussian_kernel, kernel_moments
from tests.exported import SHAPE, random_images, small_network
from tests.reliability.faults import ROOT

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="takes gradients by tf.GradientTape"
)


def network(**options):
    """Smooth, so that finite differences make sense."""
    layers_ = [
        layers.GaussianDerivative(3, 1.0, dtype="float64"),
        layers.ScaleBatchNormalization(dtype="float64"),
        keras.layers.Activation("tanh", dtype="float64"),
        layers.GaussianDerivative(2, 1.25, dtype="float64"),
    ]
    return layers.ScaleChannels(keras.Sequential(layers_), (1.0, 1.7), dtype="float64", **options)


LAYERS = {
    "jet by matrices": lambda: layers.GaussianDerivative(2, 1.3, order=3, dtype="float64"),
    "jet by convolutions": lambda: layers.GaussianDerivative(
        2, 0.2, truncation=0.5, zero_order=True, dtype="float64"
    ),
    "jet, zero boundary": lambda: layers.GaussianDerivative(
        2, 1.3, boundary="constant", dtype="float64"
    ),
    "smoothing": lambda: layers.GaussianSmoothing(1.3, dtype="float64"),
    "normalisation": lambda: layers.ScaleBatchNormalization(dtype="float64"),
    "center": lambda: layers.CentralPixel(dtype="float64"),
    "matched, logsumexp": lambda: network(pooling="logsumexp"),
    "matched, average": lambda: network(pooling="average"),
    "dense, stack": lambda: network(pooling=None, sampling="dense"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_finite_differences(name):
    """Along random directions in the images and in every weight, in float64, while training."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    layer = LAYERS[name]()
    x = tf.Variable(rng.normal(size=(2, 9, 8, 2)), dtype="float64")
    out = tf.constant(rng.normal(size=layer(x, training=False).shape))
    weights = [weight.value for weight in layer.trainable_weights]
    for weight in weights:
        weight.assign_add(rng.normal(size=weight.shape, scale=0.1))

    def loss():
        return tf.reduce_sum(layer(x, training=True) * out)

    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, [x, *weights])
    for variable, gradient in zip([x, *weights], gradients, strict=True):
        direction = rng.normal(size=variable.shape)
        step = 1e-5 * direction
        variable.assign_add(step)
        above = loss()
        variable.assign_sub(2 * step)
        below = loss()
        variable.assign_add(step)
        expected = float(above - below) / 2e-5
        found = float(tf.reduce_sum(gradient * direction))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), variable.path


@pytest.mark.parametrize("exponent", np.arange(-6, 3.25, 0.25))
def test_kernels_at_any_scale(exponent):
    sigma = 10.0**exponent
    kernel = gaussian_kernel(sigma, truncation=1e-9)
    total, mean, variance = kernel_moments(kernel)
    assert np.isfinite(kernel).all() and (kernel >= 0).all()
    assert total == pytest.approx(1, abs=1e-12) and mean == pytest.approx(0, abs=1e-9)
    assert variance == pytest.approx(sigma**2, rel=1e-5, abs=1e-9)
    assert kernel.argmax() == len(kernel) // 2


@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 1e3])
def test_layers_at_extreme_scales(sigma):
    x = random_images(2, (12, 12, 1))
    for layer in (layers.GaussianDerivative(2, sigma), layers.GaussianSmoothing(sigma)):
        assert np.isfinite(keras.ops.convert_to_numpy(layer(x))).all()
    smoothed = keras.ops.convert_to_numpy(layers.GaussianSmoothing(sigma)(x))
    mean = x.mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(smoothed, x if sigma < 1 else mean + 0 * x, atol=1e-4)


def fit(precision="float32", epochs=2):
    keras.utils.set_random_seed(0)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        model = gaussian_derivative_network((20, 20, 1), (4, 6), 10, (1.0, 2.0))
    finally:
        keras.config.set_dtype_policy(before)
    images = random_images(60, (20, 20, 1))
    labels = keras.utils.to_categorical(np.arange(60) % 10, 10)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    history = model.fit(images, labels, batch_size=20, epochs=epochs, verbose=0, shuffle=False)
    return model, history.history["loss"], images


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_training_in_half_precision_stays_finite(precision):
    model, losses, images = fit(precision, epochs=4)
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert np.isfinite(model.predict(100 * images, verbose=0)).all()


def test_equal_seeds_give_equal_weights():
    (first, losses, _), (second, again, _) = fit(), fit()
    assert losses == again
    for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


_SCORES = """
import sys
import keras, numpy as np
import gdn_keras
assert keras.backend.backend() == "jax"
model = keras.saving.load_model(sys.argv[1])
np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), verbose=0))
"""


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"sampling": "dense"}, marks=pytest.mark.slow),
        pytest.param({"pooling": "logsumexp", "order": 3}, marks=pytest.mark.slow),
    ],
)
def test_the_same_file_gives_the_same_scores_on_jax(tmp_path, options):
    pytest.importorskip("jax")
    model, images = small_network(**options), random_images(8)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "images.npy", images)
    files = [str(tmp_path / name) for name in ("model.keras", "images.npy", "scores.npy")]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", _SCORES, *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = model.predict(images, verbose=0)
    assert expected.shape == (8, 10) and images.shape[1:] == SHAPE
    np.testing.assert_allclose(np.load(files[2]), expected, atol=1e-4)
