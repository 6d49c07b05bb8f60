"""Classifiers: preprocessor and class names, in files, clones and other sizes."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import ArctanContrast
from gdn_keras.models import (
    Classifier,
    channel_model,
    gaussian_derivative_network,
    retarget,
    with_channels,
)

NAMES = ("cat", "dog")


@pytest.fixture(scope="module")
def network():
    return gaussian_derivative_network((24, 26, 3), (4,), num_classes=2, scales=(1, 2))


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 24, 26, 3)).astype("uint8")


def scores(model, images):
    return model.predict(images, verbose=0)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float16", "float32"])
def test_pixels_of_any_type(network, pixels, dtype):
    classifier = Classifier(network, NAMES, keras.layers.Rescaling(1 / 127.5, offset=-1))
    expected = scores(network, pixels / np.float32(127.5) - 1)
    np.testing.assert_allclose(scores(classifier, pixels.astype(dtype)), expected, atol=1e-4)


@pytest.mark.parametrize("preprocessor", [ArctanContrast(), keras.layers.Rescaling(1 / 255)])
def test_parts_survive_saving_cloning_and_retargeting(network, pixels, tmp_path, preprocessor):
    model = Classifier(network, NAMES, preprocessor)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    moved = retarget(loaded, (24, 26, 3), (1, 2))
    cloned = keras.models.clone_model(loaded)
    cloned.set_weights(loaded.get_weights())
    for copy in (loaded, moved, cloned):
        assert isinstance(copy, Classifier) and copy.class_names == NAMES
        assert type(copy.preprocessor) is type(preprocessor) and copy.preprocessor is not None
        np.testing.assert_allclose(scores(copy, pixels), scores(model, pixels), atol=1e-5)


def test_channels_are_those_of_prepared_images(network, pixels):
    model = Classifier(network, NAMES, keras.layers.Rescaling(1 / 255))
    stack = scores(channel_model(network), pixels / np.float32(255))
    np.testing.assert_allclose(scores(channel_model(model), pixels), stack, atol=1e-5)
    pooled, beside = scores(with_channels(model), pixels)
    np.testing.assert_allclose(beside, stack, atol=1e-5)
    np.testing.assert_allclose(pooled, stack.max(axis=1), atol=1e-5)


def test_neither_is_needed(network, pixels):
    model = Classifier(network)
    assert model.class_names == ("0", "1") and model.preprocessor is None
    images = pixels / np.float32(255) - 0.5
    np.testing.assert_array_equal(scores(model, images), scores(network, images))


def test_training_is_that_of_the_network(network, pixels):
    model = Classifier(retarget(network), NAMES, keras.layers.Rescaling(1 / 255))
    alone = retarget(network)
    labels = np.arange(5) % 2
    for trained, images in ((model, pixels), (alone, pixels / np.float32(255))):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        trained.compile(keras.optimizers.SGD(0.1), loss)
        trained.fit(images, labels, batch_size=5, epochs=2, verbose=0)
    for one, other in zip(model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("names", [(), ("a", "a"), (1, 2), ("a", "b", "c")])
def test_names_that_do_not_fit(network, names):
    with pytest.raises(ValueError, match="`class_names`"):
        Classifier(network, names)


def test_parts_that_are_none(network):
    with pytest.raises(ValueError, match="`preprocessor`"):
        Classifier(network, NAMES, np.sqrt)
    with pytest.raises(ValueError, match="`network`"):
        Classifier(keras.Sequential([keras.layers.Flatten()]))


def test_presets_by_kind():
    import gdn_keras

    assert gdn_keras.Classifier.from_preset("default_size2").class_names == tuple("0123456789")
    strict = gdn_keras.Detector.from_preset("digit_detector", confidence_threshold=0.9)
    assert strict.confidence_threshold == 0.9
    with pytest.raises(ValueError, match="preset"):
        gdn_keras.Classifier.from_preset("digit_detector")
    with pytest.raises(ValueError, match="preset"):
        gdn_keras.Detector.from_preset("default")
