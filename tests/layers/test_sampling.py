import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.layers._sampling import sample, valid_convolution
from gdn_keras.scale_space import Grid, sampling_matrix
from gdn_keras.scale_space.grids import sampling_band


@pytest.mark.parametrize("at_once", [False, True])
def test_sampling_swaps_rows_and_columns(at_once):
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(3, 5)), rng.normal(size=(4, 7))
    x = rng.normal(size=(2, 5, 7, 3)).astype("float32")
    expected = np.einsum("ph,bhwc,qw->bqpc", rows, x, columns)
    found = ops.convert_to_numpy(sample(x, rows, columns, at_once=at_once))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    swapped = sample(np.swapaxes(x, 1, 2), rows, columns, swapped=True, at_once=at_once)
    swapped = np.swapaxes(ops.convert_to_numpy(swapped), 1, 2)
    np.testing.assert_allclose(swapped, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tile", [8, 32])
@pytest.mark.parametrize("size", [5, 40, 97])
@pytest.mark.parametrize(("ratio", "beyond"), [(0.71, 0), (0.71, 50), (1.25, 0), (1.5, 90)])
def test_bands_give_the_products_of_their_matrices(tile, size, ratio, beyond):
    source, target = Grid(size), Grid(int(size / ratio) + 2 + 2 * beyond, ratio)
    matrix = sampling_matrix(source, target, 1.25)
    band = sampling_band(source, target, 1.25, tile=tile)
    x = np.random.default_rng(0).normal(size=(2, size, size, 3)).astype("float32")
    expected = np.einsum("ph,bhwc,qw->bqpc", matrix, x, matrix)
    found = ops.convert_to_numpy(sample(x, band, band))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other backends use their own")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("graph", [False, True])
def test_gradients_of_the_convolution_are_those_of_tensorflow(size, dtype, graph):
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(2, 9, 11, 3)), dtype)
    kernel = tf.constant(rng.normal(size=(size, size, 3, 4)), dtype)

    def gradients(training):
        with tf.GradientTape() as tape:
            tape.watch((x, kernel))
            y = valid_convolution(x, kernel, training)
            assert y.shape == (2, 10 - size, 12 - size, 4)
            loss = tf.reduce_sum(tf.cast(y, "float64") ** 2)
        return tape.gradient(loss, (x, kernel))

    run = tf.function(gradients) if graph else gradients
    tolerance = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 0.02}[dtype]
    for ours, stock in zip(run(True), run(False), strict=True):
        ours, stock = (tf.cast(g, "float64").numpy() for g in (ours, stock))
        np.testing.assert_allclose(ours, stock, atol=tolerance * np.abs(stock).max())
