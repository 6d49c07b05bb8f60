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
from gdn_keras.serving.untrusted import CLASS_NAMES, DETECT, load_endpoint
from gdn_keras.training.run_folder import DAMAGE, check_modest

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
        channels: Of the images that it takes: 1 for grey, 3 for colour.
        frame: Height and width of the images that a classifier takes; `None` for a detector.
        predict: Function from uint8 images `[n, height, width, channels]` to arrays: those of
            `Detector.predict` and the "names" of what was found, or "logits" and "probabilities"
            `[n, classes]` and "names" `[classes]`. A classifier from a SavedModel gives
            "relative_size" `[n]` too.
    """

    kind: str
    channels: int
    frame: tuple[int, int] | None
    predict: Callable[[np.ndarray], Arrays]

    @property
    def read(self) -> Callable[[Any], np.ndarray]:
        """Function from an image file, by name or opened, to pixels as the model takes them.

        It can be pickled.
        """
        if self.frame is None:
            return functools.partial(read_scene, channels=self.channels)
        return functools.partial(read_placed, channels=self.channels, frame=self.frame)

    def records(self, images: np.ndarray) -> list[list[dict[str, Any]]]:
        """For each image its detections or its likeliest classes, best first."""
        found = self.predict(images)
        return as_records(found) if self.kind == DETECTIONS else best_classes(found)


def load_predictor(path: str | os.PathLike) -> Predictor:
    """A detector or classifier from a .keras file, or from the folder of a SavedModel.

    Nothing in the file is run but a network: a .keras file with code, and a SavedModel that is made
    of anything but arithmetic, are refused. A classifier must hold its preprocessor (see
    `Classifier`). The probabilities of one in a .keras file are the sigmoid of each logit, as
    those that `export_saved_model` writes by default.

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
    check_modest(path)
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

    return Predictor(DETECTIONS, detector.network.input_shape[-1], None, predict)


def _load_saved_model(path: Path) -> Predictor:
    endpoint = load_endpoint(path)
    _, *frame, channels = endpoint.shape
    if endpoint.name == DETECT:

        def detect(images: np.ndarray) -> Arrays:
            found = endpoint.run(images)
            return {**found, "names": _decoded(found["names"])}

        return Predictor(DETECTIONS, channels, None, detect)

    def classify(images: np.ndarray) -> Arrays:
        found = endpoint.run(images)
        numbers = np.arange(found["logits"].shape[-1]).astype("S")
        return {**found, "names": _decoded(found.get(CLASS_NAMES, numbers))}

    return _classifier(frame, channels, classify)


def _decoded(names: np.ndarray) -> np.ndarray:
    return np.char.decode(names.astype("S"), "utf-8", "replace")


def _classifier(
    shape: list[int | None], channels: int, predict: Callable[[np.ndarray], Arrays]
) -> Predictor:
    height, width = (known or usual for known, usual in zip(shape, FRAME, strict=True))
    return Predictor(CLASSES, channels, (height, width), predict)


def as_records(found: Mapping[str, np.ndarray]) -> list[list[dict[str, Any]]]:
    """For each image its detections as JSON has them, best first."""
    return [
        [
            {
                "label": one_line(found["names"][i, k]),
                "confidence": round(float(found["confidence"][i, k]), 4),
                "box": [round(float(v), 2) for v in found["boxes"][i, k]],
                "size": round(float(found["size"][i, k]), 4),
            }
            for k in range(int(count))
        ]
        for i, count in enumerate(found["num_detections"])
    ]


def best_classes(found: Arrays) -> list[list[dict[str, Any]]]:
    """For each image its likeliest classes as JSON has them."""
    # By logits: several probabilities may be rounded to one.
    best = np.argsort(-found["logits"], axis=1, kind="stable")[:, :BEST]
    return [
        [
            {
                "label": one_line(found["names"][k]),
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
