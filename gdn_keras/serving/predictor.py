"""Detectors and classifiers from files, and their answers as JSON has them."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from gdn_keras.checks import check_integer
from gdn_keras.datasets.frames import place_in_frame, place_object
from gdn_keras.datasets.image_files import MAX_PIXELS_OF_PAGE, read_pages, resize_pixels
from gdn_keras.detection import Detector, predict_tiled
from gdn_keras.detection.input_checks import checked_images
from gdn_keras.keras_files import DAMAGE, check_modest
from gdn_keras.models import Classifier
from gdn_keras.serving.untrusted import CLASS_NAMES, DETECT, SIZE_RANGE, load_endpoint

DETECTIONS, CLASSES = "detections", "classes"
FRAME = (112, 112)  # for classifiers of images of any size
BEST = 5  # classes that are told
# In a batch. A detector takes about a kilobyte for each pixel; larger pictures are cut into tiles.
MAX_BATCH, MAX_BATCH_PIXELS = 16, 1_000_000
MAX_WHOLE_PIXELS = 2_000_000  # of a detector that cannot be given tiles
# Pictures among which those of one size are looked for, so that batches of a few sizes fill up.
WAITING = 4 * MAX_BATCH
_ORDINARY = 1_500_000  # values in a picture; one of more counts as several of them

Arrays = dict[str, np.ndarray]
Record = dict[str, Any]


class Picture(NamedTuple):
    """A page of a file as a network takes it, or what is wrong with it.

    Attributes:
        file, page: Name of the file, and the page from 1 on, in a file of several.
        pixels: uint8 `[height, width, channels]`; empty if there is an `error`.
        shrink: Length of one of these pixels in pixels of the file.
        stretched: The range that became 0 to 255, of a picture of more than 8 bits.
        error: Why it cannot be used.
    """

    file: str
    pixels: np.ndarray = np.zeros((0, 0, 0), "uint8")
    shrink: float = 1.0
    page: int | None = None
    stretched: tuple[float, float] | None = None
    error: str | None = None

    @property
    def weight(self) -> int:
        """How many ordinary pictures it stands for where pictures are held in memory."""
        return 1 + self.pixels.size // _ORDINARY

    def record(self, answer: Record) -> Record:
        """What is told of it."""
        stretched = self.stretched and list(self.stretched)
        facts = {"file": self.file, "page": self.page, "stretched": stretched}
        return {name: fact for name, fact in facts.items() if fact is not None} | answer


@dataclass(frozen=True)
class Predictor:
    """A detector or a classifier from a file; `load_predictor` makes it.

    Attributes:
        channels: Of the images that it takes: 1 for grey, 3 for color.
        frame: Height and width of the images that a classifier takes; `None` for a detector.
        predict: Function from uint8 images `[n, height, width, channels]` to arrays: those of
            `Detector.predict` and the "names" of what was found, or "logits" and "probabilities"
            `[n, classes]`, "names" `[classes]` and, from a SavedModel, "relative_size" `[n]`.
        class_names, size_range: Of a detector, where its file tells them; sizes are in pixels.
    """

    channels: int
    frame: tuple[int, int] | None
    predict: Callable[[np.ndarray], Arrays]
    class_names: tuple[str, ...] = ()
    size_range: tuple[float, float] | None = None

    @property
    def kind(self) -> str:
        """What it tells of a picture: "detections" or "classes"."""
        return DETECTIONS if self.frame is None else CLASSES

    def answers(self, files: Sequence[str | os.PathLike], **options: Any) -> Iterator[Record]:
        """A record for each page of each file, in order; see `records` and `read_pictures`."""
        waiting: list[Picture] = []
        for picture in itertools.chain(*(self.read(file, **options) for file in files)):
            waiting.append(picture)
            if sum(picture.weight for picture in waiting) >= WAITING:
                yield from self.records(waiting)
                waiting = []
        yield from self.records(waiting)

    def read(self, file: str | os.PathLike, **options: Any) -> Iterator[Picture]:
        """The pages of a file as the model takes them; see `read_pictures`."""
        return read_pictures(file, self.channels, self.frame, **options)

    def records(self, pictures: Sequence[Picture]) -> list[Record]:
        """What is in pictures of any sizes, a record for each.

        A record holds the "file", its "page" if it has several, the range that was "stretched" if
        the picture is deep, and "detections" or likeliest "classes", best first, with the "size" of
        the object where a classifier tells it; or an "error". Boxes and sizes of detections are in
        pixels of the file.
        """
        records: dict[int, Record] = {}
        order = sorted(range(len(pictures)), key=lambda k: pictures[k].pixels.shape)
        for shape, alike in itertools.groupby(order, key=lambda k: pictures[k].pixels.shape):
            most = MAX_BATCH_PIXELS // max(1, shape[0] * shape[1])
            while batch := list(itertools.islice(alike, max(1, min(MAX_BATCH, most)))):
                found = self._records([pictures[k] for k in batch])
                records.update(zip(batch, found, strict=True))
        return [records[k] for k in range(len(pictures))]

    def _records(self, pictures: list[Picture]) -> list[Record]:
        """Records of pictures of one size; where they fail together, of each alone."""
        if pictures[0].error is not None:
            return [picture.record({"error": picture.error}) for picture in pictures]
        try:
            pixels = [picture.pixels for picture in pictures]
            found = self.predict(pixels[0][None] if len(pixels) == 1 else np.stack(pixels))
            answer = _best_classes if self.frame else _detections
            return [p.record(answer(found, k, p.shrink)) for k, p in enumerate(pictures)]
        except Exception as error:
            if len(pictures) == 1:
                return [pictures[0].record({"error": one_line(error)})]
            return [record for picture in pictures for record in self._records([picture])]


def read_pictures(
    file: str | os.PathLike | Any,
    channels: int,
    frame: tuple[int, int] | None = None,
    *,
    name: str | None = None,
    one_object: bool = False,
    invert: bool = False,
    enlarge: int = 1,
) -> Iterator[Picture]:
    """The pages of a file as a network takes them; what cannot be used has an error.

    Args:
        file: As in `read_pages`.
        channels: 1 for grey, 3 for color.
        frame: Height and width of a classifier's images, see `place_in_frame`. `None` for a
            detector, which takes pictures unchanged.
        name: Of the file, if it is open.
        one_object: Whether the picture shows one object on an even background, see `place_object`.
        invert: Whether dark becomes light, for a network of light objects on a dark ground.
        enlarge: Whole number by which pictures are enlarged first, for objects of a few pixels.
    """
    name = os.fspath(file) if name is None else name
    check_integer("enlarge", enlarge)
    try:
        for page in read_pages(file, 1 if one_object else channels):
            pixels, shrink = _enlarged(page.pixels, enlarge)
            pixels = 255 - pixels if invert else pixels
            if frame is not None:
                place = place_object if one_object else place_in_frame
                pixels, further = place(pixels, frame)
                pixels, shrink = np.repeat(pixels, channels // pixels.shape[2], 2), shrink * further
            yield Picture(name, pixels, shrink, page.number, page.stretched)
    except Exception as error:  # files of others: whatever it is, the rest goes on
        yield Picture(name, error=one_line(error))


def _enlarged(pixels: np.ndarray, factor: int) -> tuple[np.ndarray, float]:
    """Pixels at `factor` times their resolution, and the length of one in pixels of before."""
    if factor == 1:
        return pixels, 1.0
    height, width = (factor * n for n in pixels.shape[:2])
    if height * width > MAX_PIXELS_OF_PAGE:
        raise ValueError(f"enlarged, it would have more than {MAX_PIXELS_OF_PAGE} pixels")
    return resize_pixels(pixels, height, width, "BICUBIC"), 1 / factor


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
        return _detector(model.with_thresholds(bounding_box_format="xyxy"))
    if not isinstance(model, Classifier) or len(model.output_shape) != 2 or not model.takes_pixels:
        raise ValueError("it is no detector, and no `Classifier` with a preprocessor of pixels")

    def classify(images: np.ndarray) -> Arrays:
        logits = model.predict(images, batch_size=len(images), verbose=0)
        probabilities = keras.ops.convert_to_numpy(keras.ops.sigmoid(logits))
        names = np.array(model.class_names)
        return {"logits": logits, "probabilities": probabilities, "names": names}

    return _classifier(model.input_shape, classify)


def _detector(detector: Detector) -> Predictor:
    names = np.array([*detector.class_names, ""])

    def detect(images: np.ndarray) -> Arrays:
        if images[0, ..., 0].size > MAX_BATCH_PIXELS:
            [image] = images
            found = predict_tiled(detector, image)
        else:
            found = detector.predict(images, batch_size=len(images), verbose=0)
        return {**found, "names": names[found["labels"]]}

    channels, known = detector.network.input_shape[-1], tuple(map(one_line, detector.class_names))
    return Predictor(channels, None, detect, known, detector.size_range)


def _load_saved_model(path: Path) -> Predictor:
    name, shape, run, facts = load_endpoint(path)

    def predict(images: np.ndarray) -> Arrays:
        if name == DETECT and images[0, ..., 0].size > MAX_WHOLE_PIXELS:
            text = f"pictures of more than {MAX_WHOLE_PIXELS / 1e6:g} megapixels"
            raise ValueError(f"{text} need the .keras file of the detector")
        if name == DETECT:
            checked_images(images, images.shape[3], takes_pixels=True)
        found = run(images)
        names = found.get("names", facts.get(CLASS_NAMES))
        if names is None:
            names = np.arange(found["logits"].shape[-1])
        return {**found, "names": _text(names)}

    if name != DETECT:
        return _classifier(shape, predict)
    known = tuple(map(one_line, _text(facts[CLASS_NAMES]) if CLASS_NAMES in facts else ()))
    low_high = facts.get(SIZE_RANGE)
    size_range = None if low_high is None else (float(low_high[0]), float(low_high[1]))
    return Predictor(shape[-1] or 1, None, predict, known, size_range)


def _text(names: np.ndarray) -> np.ndarray:
    return np.char.decode(names.astype("S"), "utf-8", "replace")


def _classifier(shape: Sequence[int | None], predict: Callable[[np.ndarray], Arrays]) -> Predictor:
    _, height, width, channels = shape
    return Predictor(channels or 1, (height or FRAME[0], width or FRAME[1]), predict)


def _detections(found: Arrays, image: int, shrink: float) -> Record:
    """The detections of an image, best first, in pixels of the file."""
    detections = [
        {
            "label": one_line(found["names"][image, k]),
            "confidence": round(float(found["confidence"][image, k]), 4),
            "box": [round(float(v) * shrink, 2) for v in found["boxes"][image, k]],
            "size": round(float(found["size"][image, k]) * shrink, 2),
        }
        for k in range(int(found["num_detections"][image]))
    ]
    return {DETECTIONS: detections}


def _best_classes(found: Arrays, image: int, shrink: float) -> Record:
    """The likeliest classes of an image, and the object's size if it is told."""
    names, shares = found["names"], found["probabilities"][image]
    # By logits: several probabilities may be rounded to one.
    classes = [
        {"label": one_line(names[k]), "confidence": round(float(shares[k]), 4)}
        for k in np.argsort(-found["logits"][image], kind="stable")[:BEST]
    ]
    if "relative_size" not in found:
        return {CLASSES: classes}
    return {CLASSES: classes, "size": round(float(found["relative_size"][image] * shrink), 4)}


def title(record: Record) -> str:
    """The file of a record, and the page if it has several, on one line."""
    return one_line(record["file"]) + (f" [{record['page']}]" if "page" in record else "")


def remark(record: Record) -> str:
    """What is to be known of a picture of more than 8 bits."""
    low, high = record["stretched"]
    return f"{title(record)}: values from {low:g} to {high:g} were stretched to 0 to 255"


def one_line(message: object) -> str:
    """Text that does no harm to a table or a terminal."""
    text = " ".join(str(message).split()) or type(message).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
