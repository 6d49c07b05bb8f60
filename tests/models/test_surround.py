"""Images continued beyond their edges: the same as padded images in larger frames."""

import keras
import numpy as np
import pytest

import gdn_keras
from gdn_keras import analysis, models
from tests.exported import SCALES, random_images, small_network

SHAPE = (16, 20, 1)
IMAGES = random_images(3, SHAPE)
PADDED = np.pad(IMAGES, ((0, 0), (8, 8), (10, 10), (0, 0)), mode="edge")


@pytest.fixture(scope="module", params=["matched", "dense"])
def model(request):
    return small_network(SHAPE, surround=0.5, sampling=request.param)


@pytest.fixture(scope="module")
def expected(model):
    """What the network says, without surroundings, of images that are padded by NumPy."""
    larger = small_network((32, 40, 1), sampling=_sampling(model))
    larger.set_weights(model.get_weights())
    return larger.predict(PADDED, verbose=0)


def _sampling(model):
    return models.scale_channels_of(model).sampling


def surround_of(model):
    return models.scale_channels_of(model).surround


def test_it_is_a_padded_image_in_a_larger_frame(model, expected):
    assert model.input_shape == (None, *SHAPE)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, atol=1e-5)
    without = models.retarget(model, surround=0.0)
    assert np.abs(without.predict(IMAGES, verbose=0) - expected).max() > 1e-3


def test_every_layer_sees_it(model):
    ours, larger = (
        models.scale_channels_of(small_network(shape, sampling=_sampling(model), surround=surround))
        for shape, surround in ((SHAPE, 0.5), ((32, 40, 1), 0.0))
    )
    larger.network.set_weights(ours.network.get_weights())
    for here, there in zip(ours.layer_centers(IMAGES), larger.layer_centers(PADDED), strict=True):
        np.testing.assert_allclose(here, there, atol=1e-5)


@pytest.mark.parametrize("shape", [(16, 20, 1), (170, 12, 1)])  # a band along the longer side
def test_residual_blocks_see_it(shape):
    options = {"residual": True, "readout": "anywhere"}
    ours = small_network(shape, surround=0.5, **options)
    larger = small_network((2 * shape[0], 2 * shape[1], 1), **options)
    larger.set_weights(ours.get_weights())
    images = random_images(2, shape)
    rows, columns = shape[0] // 2, shape[1] // 2
    padded = np.pad(images, ((0, 0), (rows, rows), (columns, columns), (0, 0)), mode="edge")
    expected = larger.predict(padded, verbose=0)
    np.testing.assert_allclose(ours.predict(images, verbose=0), expected, atol=1e-4)


def test_any_place_is_found_in_the_surroundings_too(model):
    kinds = {"readout": "anywhere", "sampling": _sampling(model)}
    ours = small_network(SHAPE, surround=0.5, **kinds)
    larger = small_network((32, 40, 1), **kinds)
    larger.set_weights(ours.get_weights())
    expected = larger.predict(PADDED, verbose=0)
    np.testing.assert_allclose(ours.predict(IMAGES, verbose=0), expected, atol=1e-5)


def test_retarget_adds_it_takes_it_away_and_keeps_it(model, expected):
    without = models.retarget(model, surround=0)
    assert surround_of(without) == 0
    again = models.retarget(without, surround=0.5)
    assert surround_of(again) == surround_of(models.retarget(model, scales=SCALES[:2])) == 0.5
    np.testing.assert_allclose(again.predict(IMAGES, verbose=0), expected, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="graphs of unknown size")
def test_images_of_any_size(model, expected):
    any_size = models.retarget(model, (None, None, 1))
    np.testing.assert_allclose(any_size.predict(IMAGES, verbose=0), expected, atol=1e-5)


def test_files_and_classifiers_keep_it(model, expected, tmp_path):
    named = models.Classifier(model, list("abcdefghij"), keras.layers.Rescaling(1 / 100, -1))
    named.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(100 * (IMAGES + 1), verbose=0), expected, atol=1e-4)


def test_places_are_those_of_the_image(model):
    for readout in ("average", "points", "map"):
        other = models.retarget(model, readout=readout)
        assert surround_of(other) == 0
        with pytest.raises(ValueError, match=r"`surround` must be 0.*surround=0.5"):
            models.retarget(other, surround=0.5)
        with pytest.raises(ValueError, match=r"`surround` must be 0.*surround=0.5"):
            small_network(SHAPE, readout=readout, surround=0.5)


@pytest.mark.parametrize("surround", [-1, "half", float("nan"), 50])
def test_mistakes_are_named(surround):
    with pytest.raises(ValueError, match=r"`surround` must be.*Received: surround="):
        small_network(SHAPE, surround=surround)
    with pytest.raises(ValueError, match=r"`surround` must be.*Received: surround="):
        gdn_keras.from_preset("default_size1", surround=surround)


def test_analysis_takes_it(model):
    winners = models.channel_model(model).predict(IMAGES, verbose=0).max(axis=2).argmax(axis=1)
    np.testing.assert_array_equal(analysis.scale_selection(model, IMAGES), np.take(SCALES, winners))


def last_grids(network, images, inner=None):
    """What each channel's last grid holds, or as many points in the middle as `inner` has."""
    grids = models.scale_channels_of(network).point_grids(images.shape[1:3])
    ends = np.cumsum([grid.rows * grid.columns for grid in grids])
    parts = np.split(network.predict(images, verbose=0), ends[:-1], axis=1)
    found = []
    for part, grid, kept in zip(parts, grids, inner or grids, strict=True):
        top, left = (grid.rows - kept.rows) // 2, (grid.columns - kept.columns) // 2
        part = part.reshape(-1, grid.rows, grid.columns, part.shape[-1])
        found.append(part[:, top : top + kept.rows, left : left + kept.columns])
    return grids, found


@pytest.mark.parametrize("known", [True, False])
def test_a_border_is_a_mirror_image_of_the_same_width_in_every_channel(known):
    border, shape = 12.0, (48, 56, 1) if known else (None, None, 1)
    plain = small_network(shape, readout="points")
    bordered = small_network(shape, border=border, readout="points")
    padded = small_network((None, None, 1), readout="points")
    for other in (bordered, padded):
        other.set_weights(plain.get_weights())
    images = random_images(2, (48, 56, 1))
    without, _ = last_grids(plain, images)
    grids, seen = last_grids(bordered, images, without)
    for grid, inner, scale in zip(grids, without, SCALES, strict=True):
        assert grid.step == inner.step
        beyond = grid.step * (grid.columns - 1) / 2 - 56 / 2
        assert border * scale - grid.step <= beyond < border * scale
    margins = ((0, 0), (48, 48), (56, 56), (0, 0))
    _, expected = last_grids(padded, np.pad(images, margins, mode="symmetric"), without)
    for ours, theirs in zip(seen, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3 * np.ptp(theirs))


def test_points_on_other_scales_keep_their_border_and_other_read_outs_have_none():
    bordered = small_network(SHAPE, border=6.0, readout="points")
    for changes, border in (({"scales": SCALES[:2]}, 6.0), ({"readout": "center"}, 0.0)):
        other = models.retarget(bordered, **changes)
        assert models.scale_channels_of(other).border == border
        other.predict(IMAGES, verbose=0)


@pytest.mark.parametrize("options", [{"readout": "map"}, {"sampling": "dense"}, {"border": -1.0}])
def test_a_border_is_for_matched_points(options):
    with pytest.raises(ValueError, match="border"):
        small_network(SHAPE, **{"readout": "points", "border": 2.0, **options})
