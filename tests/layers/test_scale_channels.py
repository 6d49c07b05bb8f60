"""Chains of layers in scale channels."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    GaussianSmoothing,
    ScaleBatchNormalization,
    ScaleChannels,
)
from tests.harness import run_layer_test
from tests.layers.networks import (
    images,
    make_network,
    numpy,
    randomise_positive,
)

SCALES = (0.8, 1.2, 2.0, 3.5)


@pytest.mark.parametrize(
    "sampling, center, pooling",
    [
        ("matched", True, "max"),
        ("matched", False, None),
        ("dense", True, None),
        ("dense", False, "max"),
    ],
)
def test_harness(tmp_path, sampling, center, pooling):
    shape = (2, 17, 20, 2)
    space = () if center else (17, 20)
    channels = () if pooling else (4,)
    run_layer_test(
        tmp_path,
        lambda dtype=None: ScaleChannels(
            make_network(center, dtype=dtype), SCALES, pooling, sampling, dtype=dtype
        ),
        shape,
        (2, *channels, *space, 3),
        (10, 4),
        atol=1e-4,
        train_eagerly=not pooling,
    )


@pytest.mark.parametrize("sampling", ["matched", "dense"])
@pytest.mark.parametrize("center", [True, False])
def test_axes_are_told_apart(sampling, center):
    """Swapping rows and columns of the image swaps the roles of x and y in the weights."""
    swap = [1, 0, 4, 3, 2]
    layer = ScaleChannels(make_network(center), SCALES, None, sampling)
    swapped = ScaleChannels(make_network(center), SCALES, None, sampling)
    x = images((24, 31, 1))
    layer.build(x.shape)
    swapped.build((None, 31, 24, 1))
    randomise_positive(layer)
    swapped.set_weights([w[swap] if w.ndim == 3 else w for w in layer.get_weights()])
    y, y_swapped = numpy(layer(x)), numpy(swapped(np.swapaxes(x, 1, 2)))
    if not center:
        y_swapped = np.swapaxes(y_swapped, 2, 3)
    np.testing.assert_allclose(y_swapped, y, atol=1e-4 * np.abs(y).max())
    assert (
        np.abs(numpy(layer(np.swapaxes(x[:, :24, :24], 1, 2))) - numpy(layer(x[:, :24, :24]))).max()
        > 0.01 * np.abs(y).max()
    )


def blobs(side, sigma):
    """A few smooth blobs, 1.5 to 3 sigma wide."""
    rng = np.random.default_rng(1)
    n = (np.arange(side) - (side - 1) / 2) / sigma
    image = 0.0
    for _ in range(12):
        (x, y), width = rng.uniform(-5, 5, 2), rng.uniform(1.5, 3)
        image += rng.normal() * np.exp(-((n[:, None] - y) ** 2 + (n - x) ** 2) / 2 / width**2)
    return image[None, :, :, None]


def test_matched_approaches_finely_sampled_dense_with_the_square_of_its_step():
    """Both are the same network on other grids; central differences err by the step squared."""

    def network():
        options = {"truncation": 1e-7, "use_bias": False, "dtype": "float64"}
        jets = [
            GaussianDerivative(
                width,
                1.25**k,
                activation="tanh",
                kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=k),
                **options,
            )
            for k, width in enumerate((6, 6, 4))
        ]
        return keras.Sequential([*jets, CentralPixel(dtype="float64")])

    x = blobs(121, 4.0)
    dense = numpy(ScaleChannels(network(), (4.0,), None, "dense", dtype="float64")(x))
    errors = []
    for density in (1, 2):
        # The cone of dense sampling is exact, so that of matched must not cut anything off.
        layer = ScaleChannels(network(), (4.0,), None, density=density, cone=5, dtype="float64")
        errors.append(np.abs(numpy(layer(x)) - dense).max() / np.abs(dense).max())
    # A quarter; dense itself is at 4 points per sigma and more.
    assert errors[0] < 0.25 and errors[1] < 0.3 * errors[0]


def test_matched_map_and_center_agree():
    """Reading the centre of a map, and planning for the centre alone, are the same network."""
    to_map = ScaleChannels(make_network(False, truncation=1e-6), SCALES, None)
    to_center = ScaleChannels(make_network(True, truncation=1e-6), SCALES, None)
    # Smooth images: on rough ones the map's final interpolation would show.
    x = numpy(GaussianSmoothing(6.0)(images((61, 61, 1)))) * 10
    to_map.build(x.shape)
    to_center.build(x.shape)
    randomise_positive(to_map)
    to_center.set_weights(to_map.get_weights())
    at_center = numpy(to_map(x))[:, :, 30, 30]
    np.testing.assert_allclose(numpy(to_center(x)), at_center, atol=0.05 * np.ptp(at_center))


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_folded_normalisation_is_exact(sampling):
    """Inference folds the normalisation into the kernels; training-mode layers do not."""
    layer = ScaleChannels(make_network(dtype="float64"), SCALES, None, sampling, dtype="float64")
    x = images((31, 31, 1)).astype("float64")
    layer.build(x.shape)
    randomise_positive(layer)
    folded = numpy(layer(x, training=False))
    for sublayer in layer.network.layers:  # frozen: training uses the moving statistics too
        if isinstance(sublayer, ScaleBatchNormalization):
            sublayer.trainable = False
    unfolded = numpy(layer(x, training=True))
    np.testing.assert_allclose(folded, unfolded, atol=1e-10 * np.abs(folded).max())


@pytest.mark.parametrize("sampling", ["matched", "dense"])
@pytest.mark.parametrize("training", [False, True])
def test_no_images_give_no_scores(sampling, training):
    layer = ScaleChannels(make_network(), SCALES, None, sampling)
    layer(images((24, 31, 1)))
    assert tuple(layer.channels(images((24, 31, 1))[:0], training).shape) == (0, 4, 3)
    assert all(np.isfinite(weight).all() for weight in layer.get_weights())


def test_channels_stack_and_pooling():
    layer = ScaleChannels(make_network(), SCALES, "max")
    x = images((31, 31, 1))
    stack = numpy(layer.channels(x)) if layer.built else numpy((layer(x), layer.channels(x))[1])
    assert stack.shape == (3, 4, 3)
    np.testing.assert_allclose(numpy(layer(x)), stack.max(axis=1), atol=1e-6)


def test_one_update_of_the_moving_statistics_a_step():
    layer = ScaleChannels(make_network(), SCALES)
    x = images((31, 31, 1))
    layer(x)
    norm = layer.network.layers[1]
    layer(x, training=True)
    first = numpy(norm.moving_variance)
    layer(x, training=True)
    # m' = 0.9 m + 0.1 v from 1: after two steps of the same batch 1 - 0.9^2 of the way.
    np.testing.assert_allclose(
        (numpy(norm.moving_variance) - 1) / (first - 1), (1 - 0.81) / 0.1, rtol=1e-3
    )


def test_channels_before_the_first_call():
    stack = ScaleChannels(make_network(), SCALES).channels(np.ones((2, 20, 20, 1)))
    assert stack.shape == (2, 4, 3)


@pytest.mark.parametrize("side", [120, 224])  # by whole matrices, and by bands
def test_channels_of_a_single_layer_keep_their_own_grids(side):
    layer = GaussianDerivative(2, 1.0)
    options = {"pooling": None, "readout": "points"}
    channels = ScaleChannels(keras.Sequential([layer]), (1.0, 2.0, 4.0), **options)
    x = images((side, side, 1))[:1]
    points = numpy(channels(x))
    first = 0
    for grid in channels.point_grids((side, side)):
        alone = ScaleChannels(keras.Sequential([layer]), (grid.scale,), **options)
        count = grid.rows * grid.columns
        np.testing.assert_allclose(points[:, first : first + count], numpy(alone(x)), atol=1e-5)
        first += count
    assert first == points.shape[1]
