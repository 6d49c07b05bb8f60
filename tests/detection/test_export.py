"""The exported detector gives what `predict` gives, with names, for images of any size."""

import keras
import numpy as np
import pytest

from gdn_keras.detection import Detector, export_detector
from gdn_keras.layers import ArctanContrast
from tests.detection.networks import tiny_network

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="SavedModels are TensorFlow's"
)


def test_export_detects_as_the_detector_does(tmp_path):
    import tensorflow as tf

    detector = Detector(
        tiny_network(2),
        num_classes=2,
        preprocessor=ArctanContrast(stretch=False),
        confidence_threshold=0.0,
        class_names=["cat", "dog"],
    )
    export_detector(detector, tmp_path / "model")
    loaded = tf.saved_model.load(tmp_path / "model")
    for shape in ((1, 32, 48, 1), (2, 40, 24, 1)):
        images = np.random.default_rng(0).integers(0, 256, shape, "uint8")
        expected, found = detector.predict(images, verbose=0), loaded.detect(images)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-4)
        names = np.array([b"cat", b"dog", b""])[expected["labels"]]
        np.testing.assert_array_equal(found["names"], names)
