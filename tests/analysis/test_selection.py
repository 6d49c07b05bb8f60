import keras
import numpy as np
import pytest

from gdn_keras.analysis import (
    effective_training_scales,
    scale_selection,
    scale_selection_histogram,
    selection_slope,
)
from gdn_keras.analysis.sizes import shortest_interval
from gdn_keras.datasets import load_large_scale
from gdn_keras.models import channel_model, gaussian_derivative_network, scale_channels_of

SCALES = (0.75, 1.5, 3.0)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return gaussian_derivative_network((56, 56, 1), widths=(6,), scales=SCALES)


@pytest.fixture(scope="module")
def images():
    return load_large_scale("test", 1, count=40, output_shape=(56, 56), cache=False).images


def test_the_selected_scale_is_where_the_largest_score_is(model, images):
    stack = channel_model(model).predict(images.astype("float32"), verbose=0)
    expected = [SCALES[np.unravel_index(s.argmax(), s.shape)[0]] for s in stack]
    np.testing.assert_array_equal(scale_selection(model, images, batch_size=16), expected)
    histogram = scale_selection_histogram(model, images)
    assert histogram == {s: expected.count(s) / 40 for s in SCALES}


def test_effective_scales_hold_the_mass(model, images):
    histogram = scale_selection_histogram(model, images)
    low, high = effective_training_scales(model, images, mass=0.9)
    assert sum(share for s, share in histogram.items() if low <= s <= high) >= 0.9
    assert effective_training_scales(model, images, mass=1e-3)[0] == max(
        histogram, key=histogram.get
    )
    with pytest.raises(ValueError, match="mass=0"):
        effective_training_scales(model, images, mass=0)


@pytest.mark.parametrize(
    ("shares", "mass", "expected"),
    [
        ([0.01, 0.6, 0.35, 0.03, 0.01], 0.9, (2, 4)),
        ([0.01, 0.6, 0.35, 0.03, 0.01], 0.5, (2, 2)),
        ([0.02, 0.0, 0.97, 0.0, 0.01], 0.9, (4, 4)),
        ([0.2, 0.2, 0.2, 0.2, 0.2], 1.0, (1, 16)),
        ([0.0, 0.1, 0.4, 0.5, 0.0], 0.5, (8, 8)),
    ],
)
def test_shortest_interval(shares, mass, expected):
    assert shortest_interval([1, 2, 4, 8, 16], shares, mass) == expected


def test_slope_of_selected_scale_over_size():
    sizes, scales = [0.5, 1, 2, 4, 8], [1, 2, 4]
    following = [[9, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9], [0, 0, 9]]
    assert selection_slope(sizes, scales, following) == pytest.approx(1)
    half = [[0, 9, 0], [9, 0, 0], [4, 4, 0], [0, 9, 0], [9, 0, 0]]
    assert selection_slope(sizes, scales, half) == pytest.approx(0.5)
    assert selection_slope(sizes, scales, [[3, 3, 3]] * 5) == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="two sizes"):
        selection_slope([0.5, 1], scales, following[:2])


def test_a_model_without_scale_channels(images):
    inputs = keras.Input((56, 56, 1))
    with pytest.raises(ValueError, match="ScaleChannels"):
        scale_selection(keras.Model(inputs, keras.layers.Flatten()(inputs)), images)


@pytest.mark.parametrize("readout", ["anywhere", "average", "map", "points"])
def test_one_scale_for_each_image_whatever_is_read(readout, images, recwarn):
    network = gaussian_derivative_network((56, 56, 1), widths=(4,), scales=SCALES, readout=readout)
    selected = scale_selection(network, images)
    assert selected.shape == (40,) and set(selected) <= set(np.float32(SCALES)) | set(SCALES)
    stack = channel_model(network).predict(images.astype("float32"), verbose=0)
    if readout == "points":
        best = stack.max(axis=2).argmax(axis=1)
        ends = np.cumsum(
            [g.rows * g.columns for g in scale_channels_of(network).point_grids((56, 56))]
        )
        expected = np.searchsorted(ends, best, side="right")
    else:
        expected = stack.reshape(40, 3, -1).max(axis=2).argmax(axis=1)
    np.testing.assert_allclose(selected, np.asarray(SCALES)[expected], rtol=1e-6)
    channel_model(network)(images[:2].astype("float32"))
    assert not [w for w in recwarn if "structure" in str(w.message)]
