"""Detectors and classifiers from files, and their answers as JSON has them."""

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.detection.detector import Detector
from gdn_keras.models import Classifier
from gdn_keras.serving.pictures import read_placed, read_scene
from gdn_keras.training.run_folder import DAMAGE

DETECTIONS, CLASSES = "detections", "classes"
# Height and width for classifiers of images of any size, and how many classes are told.
FRAME = (112, 112)
BEST = 5

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Predictor:
    """A detector or a classifier from a file.

    Attributes:
        kind: "detections" or "classes": what it tells of a picture.
        read: Function from an image file, by name or opened, to uint8 pixels
            `[height, width, channels]` as the model takes them. It can be pickled.
        predict: Function from uint8 images `[n, height, width, channels]` to arrays: those of
            `Detector.predict` and the "names" of what was found, or "logits" and "probabilities"
            `[n, classes]` and "names" `[classes]`.
    """

    kind: str
    read: Callable[[Any], np.ndarray]
    predict: Callable[[np.ndarray], Arrays]

    def records(self, images: np.ndarray) -> list[list[dict[str, Any]]]:
        """For each image its detections or its likeliest classes, best first."""
        found = self.predict(images)
        return as_records(found) if self.kind == DETECTIONS else _best_classes(found)


def load_predictor(path: str | os.PathLike) -> Predictor:
    """A detector or classifier from a .keras file, or from the folder of a SavedModel.

    A .keras file runs no code of its own. A SavedModel is a program: load your own only.
    A classifier must hold its preprocessor (see `Classifier`). The probabilities of one in a
    .keras file are the sigmoid of each logit, as those that `export_saved_model` writes by default.

    Raises:
        OSError: If there is none, with one sentence.
    """
    path = Path(path)
    if not path.exists():
        raise OSError(f"{path} does not exist: give a .keras file or the folder of a SavedModel")
    try:
        return _load_saved_model(path) if path.is_dir() else _load_keras_file(path)
    except (ValueError, LookupError, TypeError, AttributeError, OSError, *DAMAGE) as error:
        raise OSError(f"{path} cannot be loaded ({one_line(error)})") from error


def _load_keras_file(path: Path) -> Predictor:
    model = keras.saving.load_model(path, compile=False, safe_mode=True)
    if isinstance(model, Detector):
        return _keras_detector(model)
    if not isinstance(model, Classifier) or len(model.output_shape) != 2:
        raise ValueError("it is neither a detector nor a classifier")
    if not model.takes_pixels:
        raise ValueError("it lacks the preprocessor of pixels, see `Classifier`")
    _, *frame, channels = model.input_shape
    names = np.array(model.class_names)

    def predict(images: np.ndarray) -> Arrays:
        logits = model.predict(images, batch_size=len(images), verbose=0)
        probabilities = keras.ops.convert_to_numpy(keras.ops.sigmoid(logits))
        return {"logits": logits, "probabilities": probabilities, "names": names}

    return _classifier(frame, channels, predict)


def _keras_detector(detector: Detector) -> Predictor:
    detector = detector.changed(bounding_box_format="xyxy")
    names = np.array([*detector.class_names, ""])

    def predict(images: np.ndarray) -> Arrays:
        found = detector.predict(images, batch_size=len(images), verbose=0)
        return {**found, "names": names[found["labels"]]}

    read = functools.partial(read_scene, channels=detector.network.input_shape[-1])
    return Predictor(DETECTIONS, read, predict)


def _load_saved_model(path: Path) -> Predictor:
    import tensorflow as tf

    loaded = tf.saved_model.load(path)
    if hasattr(loaded, "detect"):
        return _served_detector(loaded)
    if "serve_uint8" not in loaded.signatures:
        raise ValueError("it has no endpoint `detect` or `serve_uint8`, which takes pixels")
    serve = loaded.signatures["serve_uint8"]
    _, *frame, channels = serve.structured_input_signature[1]["images"].shape
    classes = serve.structured_outputs["logits"].shape[-1]
    names = np.arange(classes).astype("str")
    if "class_names" in loaded.signatures:
        names = _decoded(loaded.signatures["class_names"]()["class_names"].numpy())

    def predict(images: np.ndarray) -> Arrays:
        outputs = loaded.signatures["serve_uint8"](images=tf.constant(images))
        arrays = {key: outputs[key].numpy() for key in ("logits", "probabilities")}
        return {**arrays, "names": names}

    return _classifier(frame, channels, predict)


def _served_detector(loaded: Any) -> Predictor:
    def predict(images: np.ndarray) -> Arrays:
        found = {name: value.numpy() for name, value in loaded.detect(images).items()}
        return {**found, "names": _decoded(found["names"])}

    channels = loaded.detect.input_signature[0].shape[-1]
    return Predictor(DETECTIONS, functools.partial(read_scene, channels=channels), predict)


def _decoded(names: np.ndarray) -> np.ndarray:
    return np.char.decode(names.astype("S"), "utf-8")


def _classifier(
    shape: list[int | None], channels: int, predict: Callable[[np.ndarray], Arrays]
) -> Predictor:
    height, width = (known or usual for known, usual in zip(shape, FRAME, strict=True))
    read = functools.partial(read_placed, channels=channels, frame=(height, width))
    return Predictor(CLASSES, read, predict)


def as_records(found: Mapping[str, np.ndarray]) -> list[list[dict[str, Any]]]:
    """For each image its detections as JSON has them, best first."""
    return [
        [
            {
                "label": str(found["names"][i, k]),
                "confidence": round(float(found["confidence"][i, k]), 4),
                "box": [round(float(v), 2) for v in found["boxes"][i, k]],
                "size": round(float(found["size"][i, k]), 4),
            }
            for k in range(int(count))
        ]
        for i, count in enumerate(found["num_detections"])
    ]


def _best_classes(found: Arrays) -> list[list[dict[str, Any]]]:
    """For each image its likeliest classes as JSON has them."""
    # By logits: several probabilities may be rounded to one.
    best = np.argsort(-found["logits"], axis=1, kind="stable")[:, :BEST]
    return [
        [
            {
                "label": str(found["names"][k]),
                "confidence": round(float(probabilities[k]), 4),
            }
            for k in row
        ]
        for row, probabilities in zip(best, found["probabilities"], strict=True)
    ]


def one_line(message: object) -> str:
    """Text that does no harm to a table or a terminal."""
    text = " ".join(str(message).split()) or type(message).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
