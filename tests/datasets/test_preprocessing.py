import keras
import numpy as np
import pytest

from gdn_keras.datasets import ArctanContrast, PixelScaling, rescale_images, training_pipeline

LAYERS = [ArctanContrast(), PixelScaling(), PixelScaling(0, 1)]


def test_contrast_is_that_of_the_recipe(digits):
    """On pixels that are not moved, `rescale_images` is the contrast alone."""
    pixels = digits.x_test[:20] // 2
    expected = rescale_images(pixels, 1, (28, 28), smoothing=0)
    result = np.asarray(ArctanContrast()(pixels[..., None]))
    np.testing.assert_allclose(result[..., 0], expected, rtol=0, atol=1e-6)


def test_black_images_are_background():
    result = np.asarray(ArctanContrast()(np.zeros((2, 3, 3, 1), "uint8")))
    np.testing.assert_allclose(result, 2 / np.pi * np.arctan(-2.56), rtol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_images_stay_none(layer):
    assert tuple(layer(np.zeros((0, 3, 4, 1), "uint8")).shape) == (0, 3, 4, 1)


def test_scaling():
    pixels = np.array([0, 51, 255], "uint8").reshape(1, 1, 1, 3)
    np.testing.assert_allclose(np.ravel(PixelScaling()(pixels)), [-1, -0.6, 1], atol=1e-6)
    np.testing.assert_allclose(np.ravel(PixelScaling(0, 1)(pixels)), [0, 0.2, 1], atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_left_as_they_are(layer, dtype):
    images = np.linspace(-0.5, 0.5, 24).reshape(2, 3, 4, 1).astype(dtype)
    result = layer(images)
    assert keras.backend.standardize_dtype(result.dtype) == "float32"
    np.testing.assert_array_equal(result, images.astype("float32"))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_in_a_model_and_its_file(layer, dtype, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 3)).astype(dtype)
    inputs = keras.Input((None, None, 3), dtype=dtype)
    model = keras.Model(inputs, type(layer).from_config(layer.get_config())(inputs))
    assert model.output.dtype == "float32" and model.output_shape == (None, None, None, 3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(pixels, verbose=0), layer(pixels), atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_in_a_pipeline(layer):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), "uint8")
    x, _ = next(iter(training_pipeline(pixels, np.arange(4), batch_size=4, transform=layer)))
    np.testing.assert_allclose(np.sort(np.ravel(x)), np.sort(np.ravel(layer(pixels))), atol=1e-6)


def test_mixed_precision():
    layer = PixelScaling(dtype="mixed_float16")
    result = layer(np.full((1, 2, 2, 1), 255, "uint8"))
    assert result.dtype == "float16" and np.all(np.asarray(result) == 1)


@pytest.mark.parametrize("layer", LAYERS)
def test_registered_name(layer):
    name = keras.saving.get_registered_name(type(layer))
    assert name == f"gdn_keras>{type(layer).__name__}"


def test_scaling_upside_down():
    with pytest.raises(ValueError, match=r"`low` must be less.* low=1, high=0"):
        PixelScaling(1, 0)
