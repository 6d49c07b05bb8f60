"""Images continued beyond their edges: the same as padded images in larger frames."""

import keras
import numpy as np
import pytest

from gdn_keras import analysis, models
from tests.exported import SCALES, random_images, small_network

SHAPE = (16, 20, 1)
IMAGES = random_images(3, SHAPE)


@pytest.fixture(scope="module", params=["matched", "dense"])
def model(request):
    return small_network(SHAPE, surround=0.5, sampling=request.param)


@pytest.fixture(scope="module")
def expected(model):
    """What the network says, without surroundings, of images that are padded by NumPy."""
    larger = small_network((32, 40, 1), sampling=models.scale_channels_of(model).sampling)
    larger.set_weights(model.get_weights())
    padded = np.pad(IMAGES, ((0, 0), (8, 8), (10, 10), (0, 0)), mode="edge")
    return larger.predict(padded, verbose=0)


def surround_of(model):
    return models.scale_channels_of(model).surround


def test_it_is_a_padded_image_in_a_larger_frame(model, expected):
    assert model.input_shape == (None, *SHAPE)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, atol=1e-5)
    without = models.retarget(model, surround=0.0)
    assert np.abs(without.predict(IMAGES, verbose=0) - expected).max() > 1e-3


def test_any_place_is_found_in_the_surroundings_too(model):
    kinds = {"output": "anywhere", "sampling": models.scale_channels_of(model).sampling}
    ours = small_network(SHAPE, surround=0.5, **kinds)
    larger = small_network((32, 40, 1), **kinds)
    larger.set_weights(ours.get_weights())
    padded = np.pad(IMAGES, ((0, 0), (8, 8), (10, 10), (0, 0)), mode="edge")
    expected = larger.predict(padded, verbose=0)
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
    named = models.as_classifier(model, keras.layers.Rescaling(1 / 255), list("abcdefghij"))
    named.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(IMAGES, verbose=0), expected, atol=1e-5)


def test_places_are_those_of_the_image(model):
    for output in ("points", "map"):
        other = models.retarget(model, output=output)
        assert surround_of(other) == 0
        with pytest.raises(ValueError, match=r"`surround` must be 0.*surround=0.5"):
            models.retarget(other, surround=0.5)
        with pytest.raises(ValueError, match=r"`surround` must be 0.*surround=0.5"):
            small_network(SHAPE, output=output, surround=0.5)


@pytest.mark.parametrize("surround", [-1, "half", float("nan")])
def test_mistakes_are_named(surround):
    with pytest.raises(ValueError, match=r"`surround` must be.*Received: surround="):
        small_network(SHAPE, surround=surround)


def test_analysis_takes_it(model):
    assert analysis.covariance_error(model, 2.0, IMAGES).output.shape == (1,)
    winners = models.channel_model(model).predict(IMAGES, verbose=0).max(axis=2).argmax(axis=1)
    np.testing.assert_array_equal(analysis.scale_selection(model, IMAGES), np.take(SCALES, winners))
