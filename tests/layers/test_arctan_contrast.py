"""The contrast of MNIST Large Scale, against its formula in NumPy."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import ArctanContrast


def formula(pixels):
    return 2 / np.pi * np.arctan(0.02 * (np.asarray(pixels, "float64") - 128))


@pytest.mark.parametrize("stretch", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32"])
def test_formula(stretch, dtype):
    pixels = np.random.default_rng(0).integers(0, 120, (3, 5, 6, 2)).astype(dtype)
    expected = pixels.astype("float64")
    if stretch:
        expected *= 255 / expected.max(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(ArctanContrast(stretch)(pixels), formula(expected), atol=2e-6)


def test_black_images_are_background():
    result = np.asarray(ArctanContrast()(np.zeros((2, 3, 3, 1), "uint8")))
    np.testing.assert_allclose(result, formula(0), rtol=1e-6)


def test_no_images_stay_none():
    assert tuple(ArctanContrast()(np.zeros((0, 3, 4, 1), "uint8")).shape) == (0, 3, 4, 1)


def test_it_survives_files_and_clones(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (2, 7, 8, 3)).astype("uint8")
    inputs = keras.Input((None, None, 3))
    model = keras.Model(inputs, ArctanContrast(stretch=False)(inputs))
    model.save(tmp_path / "model.keras")
    for copy in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(model),
    ):
        found = copy.predict(pixels, verbose=0)
        assert found.shape == pixels.shape and found.dtype == "float32"
        np.testing.assert_allclose(found, formula(pixels), atol=2e-6)
