"""One rule for pixels: a model with a preprocessor takes 0 to 255, and says so of all else."""

import keras
import numpy as np
import pytest

import gdn_keras
from gdn_keras.detection import Detector
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import Classifier, channel_model, gaussian_derivative_network
from tests.detection.networks import tiny_network

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 24, 24, 1)).astype("uint8")
LABELS = np.arange(4) % 2
NOT_PIXELS = {
    "scaled to 1": PIXELS / np.float32(255),
    "standardised": (PIXELS - PIXELS.mean()) / np.float32(PIXELS.std()),
    "from -1 to 1": PIXELS / np.float32(127.5) - 1,
    "16 bits": PIXELS.astype("uint16") * 257,
    "a mask": PIXELS > 128,
    "negative": -PIXELS.astype("int32"),
    "not a number": np.where(PIXELS > 250, np.nan, PIXELS).astype("float32"),
}


@pytest.fixture(scope="module")
def classifier():
    network = gaussian_derivative_network((24, 24, 1), (4,), num_classes=2, scales=(1, 2))
    model = Classifier(network, ["a", "b"], ArctanContrast(stretch=False))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.mark.parametrize("name", NOT_PIXELS)
def test_arrays_that_cannot_be_pixels_are_refused(classifier, name):
    images = NOT_PIXELS[name]
    detector = Detector(tiny_network(2), 2, preprocessor=ArctanContrast(stretch=False))
    detector.compile("sgd")
    boxes = {"boxes": np.tile([[[2.0, 2, 20, 20]]], (4, 1, 1)), "labels": LABELS[:, None]}
    calls = (
        lambda: classifier.fit(images, LABELS, verbose=0),
        lambda: classifier.evaluate(images, LABELS, verbose=0),
        lambda: classifier.predict(images, verbose=0),
        lambda: channel_model(classifier).predict(images, verbose=0),
        lambda: detector.fit(images, boxes, verbose=0),
        lambda: detector.evaluate(images, boxes, verbose=0),
        lambda: detector.predict(images, verbose=0),
    )
    for call in calls:
        with pytest.raises(ValueError, match="Images must be"):
            call()


@pytest.mark.parametrize("value", [0, 1, 7])
def test_dark_pixels_are_pixels(classifier, value):
    """What an image is does not depend on its values."""
    dark = np.full((1, 24, 24, 1), value, "uint8")
    expected = classifier.network.predict(ArctanContrast(stretch=False)(dark), verbose=0)
    np.testing.assert_allclose(classifier.predict(dark, verbose=0), expected, atol=1e-5)
    beside = classifier.predict(np.concatenate([dark, PIXELS]), verbose=0)
    np.testing.assert_allclose(beside[:1], expected, atol=1e-5)


def test_a_network_without_one_takes_what_its_user_prepared():
    network = gaussian_derivative_network((24, 24, 1), (4,), num_classes=2, scales=(1, 2))
    for images in (PIXELS, PIXELS / np.float32(255), PIXELS / np.float32(127.5) - 1):
        assert np.isfinite(network.predict(images, verbose=0)).all()


def test_data_sets_hand_over_what_their_model_takes():
    data = gdn_keras.datasets.load_dataset("mnist_large_scale", count=10, test_count=200)
    images, labels = data.test(2.0)
    assert images.dtype == np.uint8 and images.max() == 255
    model = gdn_keras.from_preset("default_size2")
    assert np.mean(model.predict(images, verbose=0).argmax(axis=1) == labels) > 0.97


@pytest.mark.parametrize(
    "override", [{"scale_ratio": 1.6}, {"widths": (4,)}, {"pooling": "average"}, {"cone": 3.5}]
)
def test_weights_are_not_put_into_another_network(override):
    with pytest.raises(ValueError, match=next(iter(override))):
        gdn_keras.from_preset("default_size2", **override)
