import keras
import numpy as np
import pytest

from gdn_keras.datasets.preprocessing import ArctanContrast, PixelScaling
from gdn_keras.models import (
    ClassScores,
    RawPixels,
    as_classifier,
    channel_model,
    class_names_of,
    gaussian_derivative_network,
    preprocessing_of,
    retarget,
)

NAMES = ("cat", "dog")


@pytest.fixture(scope="module")
def network():
    return gaussian_derivative_network((24, 26, 3), (4,), classes=2, scales=(1, 2))


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 24, 26, 3)).astype("uint8")


@pytest.fixture(scope="module")
def classifier(network):
    return as_classifier(network, PixelScaling(-1, 1), NAMES)


def scores(model, images):
    return model.predict(images, verbose=0)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32"])
def test_raw_pixels_of_any_type(network, classifier, pixels, dtype):
    expected = scores(network, pixels / np.float32(127.5) - 1)
    np.testing.assert_allclose(scores(classifier, pixels.astype(dtype)), expected, atol=1e-5)


def test_prepared_images_are_taken_as_before(network, classifier, pixels):
    images = pixels / np.float32(127.5) - 1
    np.testing.assert_array_equal(scores(classifier, images), scores(network, images))


@pytest.mark.parametrize("preprocessing", [ArctanContrast(), PixelScaling()])
def test_no_images_give_no_scores(network, preprocessing):
    empty = np.zeros((0, *network.input_shape[1:]), "float32")
    model = as_classifier(network, preprocessing, NAMES)
    assert tuple(model(empty, training=False).shape) == (0, len(NAMES))


def test_each_image_is_judged_alone():
    layer = RawPixels(PixelScaling(0, 1))
    mixed = np.stack(
        [np.full((2, 2, 1), 51.0), np.full((2, 2, 1), 0.3), np.full((2, 2, 1), np.nan)]
    )
    mixed[0, 0, 0] = 255
    found = np.asarray(layer(mixed))
    np.testing.assert_allclose(found[0, :, :, 0], [[1, 0.2], [0.2, 0.2]], rtol=1e-6)
    np.testing.assert_allclose(found[1], 0.3, rtol=1e-6)
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize("preprocessing", [ArctanContrast(), keras.layers.Rescaling(1 / 255)])
def test_both_survive_saving_cloning_and_retargeting(network, pixels, tmp_path, preprocessing):
    model = as_classifier(network, preprocessing, NAMES)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    moved = retarget(loaded, (24, 26, 3), (1, 2))
    cloned = keras.models.clone_model(loaded)
    cloned.set_weights(loaded.get_weights())
    for copy in (loaded, moved, cloned):
        assert class_names_of(copy) == NAMES
        assert type(preprocessing_of(copy)) is type(preprocessing)
        np.testing.assert_allclose(scores(copy, pixels), scores(model, pixels), atol=1e-5)
    assert channel_model(moved).predict(pixels, verbose=0).shape == (5, 2, 2)


def test_neither_is_needed(network, pixels):
    model = as_classifier(network)
    assert class_names_of(model) is None and preprocessing_of(model) is None
    np.testing.assert_array_equal(scores(model, pixels), scores(network, pixels))


@pytest.mark.parametrize("names", [(), ("a", "a"), (1, 2), ("a", "b", "c")])
def test_names_that_do_not_fit(network, names):
    with pytest.raises(ValueError, match="`class_names` must be"):
        as_classifier(network, class_names=names)


def test_preprocessing_must_be_a_layer():
    with pytest.raises(ValueError, match="`preprocessing` must be a Keras layer"):
        RawPixels(np.sqrt)


def test_class_scores_pass_scores_on():
    np.testing.assert_array_equal(ClassScores(NAMES)(np.array([[1.0, 2.0]])), [[1.0, 2.0]])
