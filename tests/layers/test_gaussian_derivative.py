import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.layers import GaussianDerivative
from gdn_keras.scale_space import BOUNDARIES
from tests.harness import run_layer_test
from tests.layers.oracle import jet_layer


@pytest.mark.parametrize("order, zero_order, weights", [(1, False, 2), (2, False, 2), (3, True, 2)])
def test_harness(tmp_path, order, zero_order, weights):
    run_layer_test(
        tmp_path,
        lambda **kw: GaussianDerivative(4, 1.2, order, zero_order, **kw),
        (2, 11, 14, 3),
        (2, 11, 14, 4),
        (weights, 0),
    )


def _with_random_weights(layer, shape, seed=0):
    rng = np.random.default_rng(seed)
    layer.build((None, *shape))
    layer.set_weights([rng.normal(size=w.shape) for w in layer.weights])
    return rng.normal(size=(2, *shape))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "shape, sigma",
    [
        ((21, 21, 1), 1.0),
        ((20, 20, 3), 1.0),
        ((16, 25, 3), 2.5),
        ((7, 4, 1), 6.0),  # kernels wider than the image
        ((3, 30, 2), 0.3),
        ((40, 3, 2), 0.8),
    ],
)
def test_equals_the_equation(boundary, order, shape, sigma):
    layer = GaussianDerivative(5, sigma, order, boundary=boundary, truncation=1e-4)
    x = _with_random_weights(layer, shape)
    weights, bias = layer.get_weights()
    expected = np.stack([jet_layer(f, weights, bias, sigma, boundary, 1e-4, order) for f in x])
    by_matrices = ops.convert_to_numpy(layer(x.astype("float32")))
    model = keras.Sequential([keras.Input((None, None, shape[-1])), layer])
    by_convolutions = model.predict(x.astype("float32"), verbose=0)
    # Third differences times sigma^3 cancel more digits of float32.
    tolerance = 1e-5 if order <= 2 else 5e-5
    for computed in (by_matrices, by_convolutions):
        assert np.abs(computed - expected).max() < tolerance * np.abs(expected).max()


def test_scale_argument_uses_the_same_weights_at_another_sigma():
    one, two = GaussianDerivative(4, 1.0), GaussianDerivative(4, 2.0)
    x = _with_random_weights(one, (17, 17, 2)).astype("float32")
    two.build((None, 17, 17, 2))
    two.set_weights(one.get_weights())
    np.testing.assert_allclose(
        ops.convert_to_numpy(one(x, scale=2.0)), ops.convert_to_numpy(two(x)), atol=1e-5
    )


def test_polynomials_have_their_exact_derivatives_in_the_interior():
    n = np.arange(41) - 20.0
    y, x = np.meshgrid(n, n, indexing="ij")
    a, b, c, d, e, f = 3.0, -0.7, 0.4, 0.05, -0.03, 0.02
    image = a + b * x + c * y + d * x**2 + e * x * y + f * y**2
    sigma = 1.5
    layer = GaussianDerivative(5, sigma, dtype="float64")
    layer.build((None, 41, 41, 1))
    layer.set_weights([np.eye(5)[:, None, :], np.zeros(5)])
    out = ops.convert_to_numpy(layer(image[None, ..., None]))[0, 15:26, 15:26]
    x, y = x[15:26, 15:26], y[15:26, 15:26]
    expected = np.stack(
        [
            sigma * (b + 2 * d * x + e * y),
            sigma * (c + e * x + 2 * f * y),
            sigma**2 * d * np.ones_like(x),
            sigma**2 * e * np.ones_like(x),
            sigma**2 * f * np.ones_like(x),
        ],
        axis=-1,
    )
    np.testing.assert_allclose(out, expected, atol=1e-9)


@pytest.mark.parametrize("sigma, bound", [(1.0, 0.25), (2.0, 0.06), (4.0, 0.01), (8.0, 0.003)])
def test_blob_responses_converge_to_the_continuous_ones(sigma, bound):
    """A Gaussian blob of variance t, smoothed, is a Gaussian of variance t + s."""
    t = (1.5 * sigma) ** 2
    n = np.arange(181) - 90.0
    y, x = np.meshgrid(n, n, indexing="ij")
    blob = np.exp(-(x**2 + y**2) / (2 * t))
    v = t + sigma**2
    g = t / v * np.exp(-(x**2 + y**2) / (2 * v))
    expected = np.stack(
        [
            -sigma * x / v * g,
            -sigma * y / v * g,
            sigma**2 * (x**2 / v**2 - 1 / v) * g / 2,
            sigma**2 * (x * y / v**2) * g,
            sigma**2 * (y**2 / v**2 - 1 / v) * g / 2,
        ],
        axis=-1,
    )
    layer = GaussianDerivative(5, sigma, truncation=1e-6)
    layer.build((None, 181, 181, 1))
    layer.set_weights([np.eye(5)[:, None, :], np.zeros(5)])
    out = ops.convert_to_numpy(layer(blob[None, ..., None].astype("float32")))[0]
    error = np.abs(out - expected).max(axis=(0, 1)) / np.abs(expected).max(axis=(0, 1))
    assert error.max() < bound


def test_configuration_is_complete():
    layer = GaussianDerivative(
        3,
        1.5,
        order=1,
        boundary="constant",
        truncation=1e-5,
        activation="relu",
        use_bias=False,
        kernel_initializer="he_normal",
        kernel_regularizer="l2",
        activity_regularizer="l1",
        kernel_constraint="non_neg",
        name="jet",
    )
    again = GaussianDerivative.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.activation is keras.activations.relu and again.name == "jet"
    x = np.random.default_rng(0).normal(size=(1, 9, 9, 2)).astype("float32")
    assert again(x).shape == (1, 9, 9, 3)
    assert np.all(ops.convert_to_numpy(again(x)) >= 0)
    assert len(again.losses) == 2 and again.bias is None


@pytest.mark.parametrize(
    "kwargs, name",
    [
        ({"filters": 0}, "filters"),
        ({"filters": 2.5}, "filters"),
        ({"sigma": 0}, "sigma"),
        ({"sigma": -1}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"order": 4}, "order"),
        ({"order": 0}, "order"),
        ({"boundary": "periodic"}, "boundary"),
        ({"truncation": 0}, "truncation"),
    ],
)
def test_bad_arguments(kwargs, name):
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}="):
        GaussianDerivative(**{"filters": 4, "sigma": 1.0, **kwargs})


@pytest.mark.parametrize("shape", [(2, 2, 9, 1), (2, 9, 2, 1), (9, 9, 1), (2, 9, 9, None)])
def test_bad_shapes(shape):
    with pytest.raises(ValueError, match="Received: input_shape="):
        GaussianDerivative(4, 1.0).build(shape)


def test_bad_scale():
    with pytest.raises(ValueError, match=r"`scale`.*Received: scale=-1"):
        GaussianDerivative(4, 1.0)(np.zeros((1, 9, 9, 1)), scale=-1.0)


def test_images_with_another_number_of_channels():
    layer = GaussianDerivative(12, 1.0)
    layer(np.ones((1, 8, 8, 1)))
    with pytest.raises(ValueError, match=r"built for images with 1 .*Received: .*\(1, 8, 8, 3\)"):
        layer(np.ones((1, 8, 8, 3)))
