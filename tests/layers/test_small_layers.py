import keras
import numpy as np
import pytest
from keras import ops
from scipy.ndimage import gaussian_filter
from scipy.special import logsumexp

from gdn_keras.layers import (
    CentralPixel,
    GaussianSmoothing,
    ScaleBatchNormalization,
    ScalePooling,
)
from gdn_keras.scale_space import BOUNDARIES
from tests.harness import run_layer_test
from tests.layers.oracle import smooth


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("sigma", [0.0, 1.3])
def test_smoothing_harness(tmp_path, sigma):
    run_layer_test(
        tmp_path, lambda **kw: GaussianSmoothing(sigma, **kw), (2, 9, 12, 3), (2, 9, 12, 3), (0, 0)
    )


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (12, 13, 2), (3, 200, 1)])
@pytest.mark.parametrize("sigma", [0.5, 5.0])
def test_smoothing_equals_brute_force(boundary, shape, sigma):
    x = np.random.default_rng(0).normal(size=shape)
    layer = GaussianSmoothing(sigma, boundary, truncation=1e-5)
    expected = smooth(x, sigma, boundary, 1e-5, 0)
    np.testing.assert_allclose(numpy(layer(x[None].astype("float32")))[0], expected, atol=1e-5)


def test_smoothing_is_close_to_a_continuous_gaussian_at_large_sigma():
    x = np.random.default_rng(0).normal(size=(60, 60))
    ours = numpy(GaussianSmoothing(4.0)(x[None, ..., None].astype("float32")))[0, ..., 0]
    assert np.abs(ours - gaussian_filter(x, 4.0)).max() < 0.03 * np.abs(ours).max()


def test_central_pixel_harness(tmp_path):
    run_layer_test(tmp_path, lambda **kw: CentralPixel(**kw), (2, 8, 11, 3), (2, 3), (0, 0))


def test_central_pixel_values():
    x = np.arange(4 * 5, dtype="float32").reshape(1, 4, 5, 1)
    assert numpy(CentralPixel()(x)) == pytest.approx((x[0, 1, 2, 0] + x[0, 2, 2, 0]) / 2)
    assert numpy(CentralPixel()(x[:, :3])) == x[0, 1, 2, 0]
    even = x[:, :, :4]
    assert numpy(CentralPixel()(even)) == pytest.approx(even[0, 1:3, 1:3].mean())


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
def test_pooling_harness(tmp_path, pooling):
    run_layer_test(
        tmp_path,
        lambda **kw: ScalePooling(pooling, **kw),
        (2, 4, 6),
        (2, 6),
        (0, 0),
        unknown_size=False,
    )


def test_pooling_values():
    x = np.random.default_rng(0).normal(size=(3, 8, 10)).astype("float32")
    np.testing.assert_allclose(numpy(ScalePooling("max")(x)), x.max(1))
    np.testing.assert_allclose(numpy(ScalePooling("average")(x)), x.mean(1), atol=1e-6)
    expected = logsumexp(x, axis=1) - np.log(8)
    np.testing.assert_allclose(numpy(ScalePooling("logsumexp")(x)), expected, atol=1e-6)


def test_pooling_bad_input():
    with pytest.raises(ValueError, match=r"`pooling` must be one of.*Received: pooling='sum'"):
        ScalePooling("sum")
    with pytest.raises(ValueError, match="Received: input_shape="):
        ScalePooling().build((None, 10))


def test_normalization_harness(tmp_path):
    run_layer_test(
        tmp_path, lambda **kw: ScaleBatchNormalization(**kw), (6, 5, 5, 3), (6, 5, 5, 3), (2, 2)
    )


def test_normalization_statistics_weigh_channels_equally():
    rng = np.random.default_rng(0)
    channels = [rng.normal(i, 1 + i, size=(4, n, n, 2)) for i, n in enumerate((9, 5, 3))]
    channels = [c.astype("float32") for c in channels]
    layer = ScaleBatchNormalization()
    outputs = [numpy(y) for y in layer(channels, training=True)]

    mean = np.mean([c.mean(axis=(0, 1, 2)) for c in channels], axis=0)
    variance = np.mean([((c - mean) ** 2).mean(axis=(0, 1, 2)) for c in channels], axis=0)
    for x, y in zip(channels, outputs, strict=True):
        np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-5), atol=1e-4)
    # One update of the moving averages for all channels together.
    np.testing.assert_allclose(numpy(layer.moving_mean), 0.1 * mean, rtol=1e-4)
    np.testing.assert_allclose(numpy(layer.moving_variance), 0.9 + 0.1 * variance, rtol=1e-4)


def test_normalization_of_stacked_channels_by_their_share():
    rng = np.random.default_rng(1)
    fine, coarse = rng.normal(size=(8, 5, 5, 2)), rng.normal(3, 2, size=(4, 3, 3, 2))
    one, other = ScaleBatchNormalization(), ScaleBatchNormalization()
    # `fine` stacks two scale channels of four images along the batch axis.
    one([fine, coarse], training=True, weights=[2 / 3, 1 / 3])
    other([fine[:4], fine[4:], coarse], training=True)
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_normalization_of_one_tensor_is_stock_batch_normalization():
    x = np.random.default_rng(2).normal(2, 3, size=(6, 4, 4, 3)).astype("float32")
    ours = ScaleBatchNormalization()
    stock = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)
    for training in (True, False):
        np.testing.assert_allclose(
            numpy(ours(x, training=training)), numpy(stock(x, training=training)), atol=1e-4
        )


def test_normalization_bad_input():
    with pytest.raises(ValueError, match=r"`momentum`.*Received: momentum=1"):
        ScaleBatchNormalization(momentum=1.0)
    with pytest.raises(ValueError, match=r"`epsilon`.*Received: epsilon=0"):
        ScaleBatchNormalization(epsilon=0.0)
    with pytest.raises(ValueError, match="Received: input_shape="):
        ScaleBatchNormalization().build([(None, 3, 3, 2), (None, 3, 3, 4)])
