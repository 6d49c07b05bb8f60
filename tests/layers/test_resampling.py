import numpy as np
import pytest
from keras import ops

from gdn_keras.layers._resampling import (
    expanded_convolution,
    sample_at_once,
    sample_transposed,
)
from gdn_keras.scale_space import Grid, sampling_matrix
from gdn_keras.scale_space.grids import sampling_band


@pytest.mark.parametrize("size", [3, 5])
def test_expanded_convolution_is_that_of_the_expanded_image(size):
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(17, 4)), rng.normal(size=(12, 6))
    x = rng.normal(size=(2, 4, 6, 3)).astype("float32")
    kernel = rng.normal(size=(size, size, 3, 5)).astype("float32")
    image = np.einsum("pr,brtc,qt->bpqc", rows, x, columns)
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(1, 2))
    expected = np.einsum("bpqcij,ijcd->bpqd", windows, kernel)
    found = ops.convert_to_numpy(expanded_convolution(x, kernel, rows, columns))
    assert found.shape == (2, 18 - size, 13 - size, 5)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("sample", [sample_transposed, sample_at_once])
def test_sampling_swaps_rows_and_columns(sample):
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(3, 5)), rng.normal(size=(4, 7))
    x = rng.normal(size=(2, 5, 7, 3)).astype("float32")
    expected = np.einsum("ph,bhwc,qw->bqpc", rows, x, columns)
    found = ops.convert_to_numpy(sample(x, rows, columns))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tile", [8, 32])
@pytest.mark.parametrize("size", [5, 40, 97])
@pytest.mark.parametrize("ratio", [0.71, 1.25, 1.5])
def test_bands_give_the_products_of_their_matrices(tile, size, ratio):
    source, target = Grid(size), Grid(int(size / ratio) + 2, ratio)
    matrix = sampling_matrix(source, target, 1.25)
    band = sampling_band(source, target, 1.25, tile=tile)
    x = np.random.default_rng(0).normal(size=(2, size, size, 3)).astype("float32")
    expected = np.einsum("ph,bhwc,qw->bqpc", matrix, x, matrix)
    found = ops.convert_to_numpy(sample_transposed(x, band, band))
    np.testing.assert_allclose(found, expected, atol=1e-5)
