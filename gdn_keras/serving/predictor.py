"""Detectors and classifiers from files, and their answers as JSON has them."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from gdn_keras.datasets.frames import light_on_dark, place_in_frame, place_object
from gdn_keras.datasets.image_files import read_picture
from gdn_keras.detection.detector import Detector
from gdn_keras.keras_files import DAMAGE, check_modest
from gdn_keras.models import Classifier
from gdn_keras.serving.untrusted import CLASS_NAMES, DETECT, load_endpoint

DETECTIONS, CLASSES = "detections", "classes"
FRAME = (112, 112)  # for classifiers of images of any size
BEST = 5  # classes that are told
MAX_BATCH = 16
# Pictures among which those of one size are looked for, so that batches of a few sizes fill up.
WAITING = 4 * MAX_BATCH

Arrays = dict[str, np.ndarray]
Record = dict[str, Any]


class Picture(NamedTuple):
    """A file, its pixels as a network takes them, and by how much they were shrunk for that."""

    file: str
    pixels: np.ndarray
    shrink: float = 1.0


@dataclass(frozen=True)
class Predictor:
    """A detector or a classifier from a file; `load_predictor` makes it.

    Attributes:
        channels: Of the images that it takes: 1 for grey, 3 for color.
        frame: Height and width of the images that a classifier takes; `None` for a detector.
        predict: Function from uint8 images `[n, height, width, channels]` to arrays: those of
            `Detector.predict` and the "names" of what was found, or "logits" and "probabilities"
            `[n, classes]` and "names" `[classes]`. A classifier from a SavedModel gives
            "relative_size" `[n]` too.
    """

    channels: int
    frame: tuple[int, int] | None
    predict: Callable[[np.ndarray], Arrays]

    @property
    def kind(self) -> str:
        """What it tells of a picture: "detections" or "classes"."""
        return DETECTIONS if self.frame is None else CLASSES

    def answers(
        self, files: Sequence[str | os.PathLike], one_object: bool = False
    ) -> Iterator[Record]:
        """A record for each file, in their order; see `records` and `read_input`."""
        for start in range(0, len(files), WAITING):
            read = [self._read(file, one_object) for file in files[start : start + WAITING]]
            found = iter(self.records([x for x in read if isinstance(x, Picture)]))
            yield from (next(found) if isinstance(x, Picture) else x for x in read)

    def read(self, file: str | os.PathLike, one_object: bool = False) -> Picture:
        """A picture as the model takes it."""
        return Picture(os.fspath(file), *read_input(file, self.channels, self.frame, one_object))

    def records(self, pictures: Sequence[Picture]) -> list[Record]:
        """What is in pictures of any sizes, a record for each.

        A record holds the "file" and its "detections" or likeliest "classes", best first, with the
        "size" of the object where a classifier tells it; or an "error".
        """
        records: dict[int, Record] = {}
        order = sorted(range(len(pictures)), key=lambda k: pictures[k].pixels.shape)
        for _, alike in itertools.groupby(order, key=lambda k: pictures[k].pixels.shape):
            while batch := list(itertools.islice(alike, MAX_BATCH)):
                found = self._records([pictures[k] for k in batch])
                records.update(zip(batch, found, strict=True))
        return [records[k] for k in range(len(pictures))]

    def _read(self, file: str | os.PathLike, one_object: bool) -> Picture | Record:
        try:
            return self.read(file, one_object)
        except Exception as error:  # files of others: whatever it is, the rest goes on
            return failure(file, error)

    def _records(self, pictures: list[Picture]) -> list[Record]:
        """Records of pictures of one size; where they fail together, of each alone."""
        try:
            found = self.predict(np.stack([picture.pixels for picture in pictures]))
            answers = _detections(found) if self.frame is None else _best_classes(found)
        except Exception as error:
            if len(pictures) == 1:
                return [failure(pictures[0].file, error)]
            return [record for picture in pictures for record in self._records([picture])]
        sizes = found.get("relative_size")
        return [
            {"file": picture.file, self.kind: answer}
            | ({} if sizes is None else {"size": round(float(sizes[k] * picture.shrink), 4)})
            for k, (picture, answer) in enumerate(zip(pictures, answers, strict=True))
        ]


def read_input(
    file: str | os.PathLike | Any,
    channels: int,
    frame: tuple[int, int] | None = None,
    one_object: bool = False,
) -> tuple[np.ndarray, float]:
    """A picture as a network takes it, and by how much it was shrunk.

    Args:
        file: As in `read_picture`.
        channels: 1 for grey, 3 for color.
        frame: Height and width of a classifier's images, see `place_in_frame`. `None` for a
            detector, which takes pictures as they are, grey ones light on dark.
        one_object: Whether the picture shows one object on an even background, see `place_object`.
    """
    pixels = read_picture(file, 1 if one_object else channels)
    if frame is None:
        return (light_on_dark(pixels)[0] if channels == 1 else pixels), 1.0
    if not one_object:
        return place_in_frame(pixels, frame)
    pixels, shrink = place_object(pixels, frame)
    return np.repeat(pixels, channels, axis=2), shrink


def load_predictor(path: str | os.PathLike) -> Predictor:
    """A detector or classifier from a .keras file, or from the folder of a SavedModel.

    Nothing in the file is run but a network: a .keras file with code, and a SavedModel that is made
    of anything but arithmetic, are refused. A classifier must hold its preprocessor; in a .keras
    file, its probabilities are the sigmoid of each logit.

    Example:

    >>> predictor = load_predictor("saved_models/default_size2/saved_model")
    >>> list(predictor.answers(["digit.png"]))  # doctest: +SKIP
    [{'file': 'digit.png', 'classes': [{'label': '7', 'confidence': 0.99}, ...], 'size': 1.41}]

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
        detector = model.with_thresholds(bounding_box_format="xyxy")
        names = np.array([*detector.class_names, ""])

        def detect(images: np.ndarray) -> Arrays:
            found = detector.predict(images, batch_size=len(images), verbose=0)
            return {**found, "names": names[found["labels"]]}

        return Predictor(detector.network.input_shape[-1], None, detect)
    if not isinstance(model, Classifier) or len(model.output_shape) != 2 or not model.takes_pixels:
        raise ValueError("it is no detector, and no `Classifier` with a preprocessor of pixels")

    def classify(images: np.ndarray) -> Arrays:
        logits = model.predict(images, batch_size=len(images), verbose=0)
        probabilities = keras.ops.convert_to_numpy(keras.ops.sigmoid(logits))
        names = np.array(model.class_names)
        return {"logits": logits, "probabilities": probabilities, "names": names}

    return _classifier(model.input_shape, classify)


def _load_saved_model(path: Path) -> Predictor:
    name, shape, run = load_endpoint(path)

    def predict(images: np.ndarray) -> Arrays:
        found = run(images)
        names = found.get("names", found.get(CLASS_NAMES))
        if names is None:
            names = np.arange(found["logits"].shape[-1])
        return {**found, "names": np.char.decode(names.astype("S"), "utf-8", "replace")}

    return (
        Predictor(shape[-1] or 1, None, predict) if name == DETECT else _classifier(shape, predict)
    )


def _classifier(shape: Sequence[int | None], predict: Callable[[np.ndarray], Arrays]) -> Predictor:
    _, height, width, channels = shape
    return Predictor(channels or 1, (height or FRAME[0], width or FRAME[1]), predict)


def _detections(found: Arrays) -> list[list[Record]]:
    """For each image its detections, best first."""
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


def _best_classes(found: Arrays) -> list[list[Record]]:
    """For each image its likeliest classes."""
    # By logits: several probabilities may be rounded to one.
    best = np.argsort(-found["logits"], axis=1, kind="stable")[:, :BEST]
    labels = [one_line(name) for name in found["names"]]
    return [
        [{"label": labels[k], "confidence": round(float(shares[k]), 4)} for k in row]
        for row, shares in zip(best, found["probabilities"], strict=True)
    ]


def failure(file: str | os.PathLike, error: Exception) -> Record:
    """The record of a file that cannot be used."""
    return {"file": os.fspath(file), "error": one_line(error)}


def one_line(message: object) -> str:
    """Text that does no harm to a table or a terminal."""
    text = " ".join(str(message).split()) or type(message).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
