"""Detectors as SavedModels, for TensorFlow alone."""

import os
from pathlib import Path
from typing import Any

import keras

from gdn_keras.atomic_files import replacing
from gdn_keras.detection.detector import Detector


def export_detector(detector: Detector, folder: str | os.PathLike) -> None:
    """Writes a SavedModel whose endpoint `detect` takes uint8 images and gives decoded boxes.

    Images are `[batch, height, width, channels]` of any size. The result is that of the detector's
    `predict`, and "names", the names of the classes as strings. Weights are constants of the graph,
    so that `gdn_keras.serving.load_predictor` can run it without trusting the file.

    Example:

    >>> export_detector(detector, "digits")  # doctest: +SKIP
    >>> loaded = tf.saved_model.load("digits")  # doctest: +SKIP
    >>> loaded.detect(images)["boxes"]  # doctest: +SKIP

    Args:
        detector: The detector; its network must take images of unknown height and width.
        folder: Where to write; what was there before is replaced, once all is written.

    Raises:
        ValueError: If Keras does not run on TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "A SavedModel is written by Keras on TensorFlow; set KERAS_BACKEND=tensorflow. "
            f"Received: backend {keras.backend.backend()}"
        )
    import tensorflow as tf

    names = [*detector.class_names, ""]
    values = [(weight, keras.ops.convert_to_numpy(weight)) for weight in detector.variables]

    def detect(images: Any) -> dict[str, Any]:
        with keras.StatelessScope(values):
            found = detector.detect(images)
        # Padding has the label -1, and the last name.
        rows = tf.where(found["labels"] < 0, len(names) - 1, found["labels"])
        return {**found, "names": tf.gather(tf.constant(names), rows)}

    channels = detector.network.input_shape[-1]
    signature = [tf.TensorSpec([None, None, None, channels], tf.uint8, name="images")]
    module = tf.Module()
    module.detect = tf.function(detect, input_signature=signature)
    with replacing(Path(folder)) as temporary:
        tf.saved_model.save(module, temporary, {"detect": module.detect})
