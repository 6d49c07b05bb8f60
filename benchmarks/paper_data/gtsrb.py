"""German traffic signs, photographed from far and near."""

import csv
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from gdn_keras.checks import check_integer
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    LazyImages,
    check_test_split,
    hold_out,
    register_dataset,
)
from gdn_keras.datasets.image_files import read_picture, require_directory

CLASS_NAMES = (
    "speed limit 20",
    "speed limit 30",
    "speed limit 50",
    "speed limit 60",
    "speed limit 70",
    "speed limit 80",
    "end of speed limit 80",
    "speed limit 100",
    "speed limit 120",
    "no passing",
    "no passing for trucks",
    "right of way at the next crossing",
    "priority road",
    "yield",
    "stop",
    "no vehicles",
    "no trucks",
    "no entry",
    "danger",
    "curve to the left",
    "curve to the right",
    "double curve",
    "bumpy road",
    "slippery road",
    "road narrows on the right",
    "road works",
    "traffic lights",
    "pedestrians",
    "children",
    "bicycles",
    "ice or snow",
    "wild animals",
    "end of all limits",
    "turn right",
    "turn left",
    "straight ahead",
    "straight or right",
    "straight or left",
    "keep right",
    "keep left",
    "roundabout",
    "end of no passing",
    "end of no passing for trucks",
)
TRAIN_SIDES = (28, 40)
EDGES = (15, 20, 24, 28, 40, 48, 56, 66, 80, 95, 112, 160)

_COLUMNS = ("Filename", "Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2", "ClassId")
_VALIDATION_SHARE, _TEST_SHARE = 0.1, 0.25


@dataclass(frozen=True)
class Photograph:
    """A file, and the sign in it: class, track, longer side and centre (row, column) in pixels."""

    file: Path
    label: int
    track: str
    side: int
    center: tuple[float, float]


@register_dataset("gtsrb")
def gtsrb(
    directory: str | os.PathLike | None = None,
    *,
    train_sides: tuple[float, float] = TRAIN_SIDES,
    edges: Sequence[float] = EDGES,
    frame: int = 112,
    train_frame: int | None = None,
    count: int | None = None,
    test_count: int | None = None,
    test_split: str = "test",
    seed: int = 0,
) -> ImageData:
    """GTSRB (Stallkamp et al. 2012): trained on signs of some pixels, tested on all sizes.

    Each sign lies in the middle of its frame at the resolution of the photograph, whose edge is
    continued. A track is one physical sign that a car approaches, so tracks, not photographs, are
    held out: a quarter of those of each class to test with, where the official test set is not
    there, and a tenth of the others for validation.

    Args:
        directory: With `Final_Training/Images/00000/GT-00000.csv` and so on, as in the official
            archive, and optionally `Final_Test/Images` and `GT-final_test.csv`.
        train_sides: Training and validation signs have a longer side of at least the first and
            less than the second, in pixels.
        edges: Edges of the intervals of sides that are tested. `test_sizes` are their geometric
            means; those without any sign are left out.
        frame: Height and width of the test images.
        train_frame: Height and width of training and validation images; `frame` if `None`.
        count: Training photographs, spread over all; all if `None`.
        test_count: Test photographs in each interval, spread over all; all if `None`.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
        seed: Of the choice of tracks.
    """
    splits = _read_splits(directory, seed)
    tested = splits[check_test_split(test_split)]
    low, high = train_sides
    train, validation = (_between(splits[name], low, high) for name in ("train", "validation"))
    if not train or not validation:
        raise ValueError(
            f"`train_sides` must leave signs to train and to validate with. Received: {train_sides}"
        )
    sizes = {
        round(math.sqrt(a * b), 1): _between(tested, a, b) for a, b in itertools.pairwise(edges)
    }
    sizes = {size: part for size, part in sizes.items() if part}

    def test(size: float) -> LabelledImages:
        if size not in sizes:
            raise ValueError(f"`size` must be one of {tuple(sizes)}. Received: size={size}")
        images, labels = load_photographs(_spread(sizes[size], test_count), frame)
        return LabelledImages(np.asarray(images), labels)

    return ImageData(
        name="gtsrb",
        train=load_photographs(_spread(train, count), train_frame or frame),
        validation=load_photographs(validation, train_frame or frame),
        test=test,
        test_sizes=tuple(sizes),
        class_names=CLASS_NAMES,
        preprocessor=keras.layers.Rescaling(1 / 127.5, offset=-1),
        size_name="side of the sign, pixels",
        train_sizes=tuple(size for size in sizes if low <= size < high),
        extent=math.sqrt(low * high),
    )


def _between(photographs: Iterable[Photograph], low: float, high: float) -> list[Photograph]:
    return [p for p in photographs if low <= p.side < high]


def held_out_tracks(
    directory: str | os.PathLike | None, seed: int = 0
) -> dict[str, list[Photograph]]:
    """The photographs of each track that `gtsrb` tests with, from the farthest to the nearest.

    Args:
        directory, seed: As for `gtsrb`. The photographs of the official test set are no tracks.
    """
    tracks: dict[str, list[Photograph]] = {}
    for photograph in sorted(_read_splits(directory, seed)["test"], key=lambda p: p.file.name):
        tracks.setdefault(photograph.track, []).append(photograph)
    return tracks


def _read_splits(directory: str | os.PathLike | None, seed: int) -> dict[str, list[Photograph]]:
    """Photographs to train, to validate and to test with."""
    directory = require_directory(directory, "the folder Final_Training of GTSRB")
    if (directory / "GTSRB").is_dir():
        directory /= "GTSRB"
    photographs = _training_photographs(directory)
    official = _test_photographs(directory)
    rng = np.random.default_rng(seed)
    test = set() if official else _hold_out_tracks(photographs, _TEST_SHARE, rng)
    others = [p for p in photographs if p.track not in test]
    validation = _hold_out_tracks(others, _VALIDATION_SHARE, rng)
    return {
        "train": [p for p in others if p.track not in validation],
        "validation": [p for p in others if p.track in validation],
        "test": official or [p for p in photographs if p.track in test],
    }


def _hold_out_tracks(
    photographs: Sequence[Photograph], share: float, rng: np.random.Generator
) -> set[str]:
    """Some tracks of each class."""
    held_out = set()
    for label in sorted({p.label for p in photographs}):
        tracks = sorted({p.track for p in photographs if p.label == label})
        if len(tracks) < 2:
            raise ValueError(
                f"Class {label} has too few tracks: of each class some are for training, others "
                f"for validation and, without the official test set, for testing"
            )
        held_out |= hold_out(tracks, share, rng)
    return held_out


def _training_photographs(directory: Path) -> list[Photograph]:
    folder = directory / "Final_Training" / "Images"
    tables = sorted(folder.glob("*/GT-*.csv"))
    if not tables:
        raise FileNotFoundError(f"No file GT-NNNNN.csv was found in {folder}/NNNNN")
    return [photograph for table in tables for photograph in _read_table(table, table.parent)]


def _test_photographs(directory: Path) -> list[Photograph] | None:
    folder = directory / "Final_Test" / "Images"
    for place in (folder, folder.parent, directory):
        if (place / "GT-final_test.csv").is_file():
            return list(_read_table(place / "GT-final_test.csv", folder))
    return None


def _read_table(table: Path, folder: Path) -> Iterable[Photograph]:
    """The photographs of one table, all of which must be there."""
    present = set(os.listdir(folder)) if folder.is_dir() else set()
    with open(table, newline="") as stream:
        rows = csv.DictReader(stream, delimiter=";")
        missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{table} must have the columns {', '.join(_COLUMNS)}, by semicolons")
        for row in rows:
            if row["Filename"] not in present:
                raise FileNotFoundError(f"{folder / row['Filename']}, named in {table}, is missing")
            yield _photograph(row, table, folder)


def _photograph(row: dict[str, str], table: Path, folder: Path) -> Photograph:
    try:
        left, top, right, bottom, label = (int(row[name]) for name in _COLUMNS[1:])
    except (TypeError, ValueError):
        raise ValueError(f"{table} must hold integers. Received: {row}") from None
    if not 0 <= label < len(CLASS_NAMES):
        raise ValueError(f"ClassId in {table} must be at most 42. Received: {label}")
    return Photograph(
        file=folder / row["Filename"],
        label=label,
        track=f"{label:05d}/{row['Filename'][:5]}",
        side=max(right - left, bottom - top) + 1,  # both ends belong to the sign
        center=((top + bottom) / 2, (left + right) / 2),
    )


def load_photographs(photographs: Sequence[Photograph], frame: int) -> LabelledImages:
    """The photographs, each sign in the middle of a frame of this height and width."""
    pictures = [read_picture(p.file, channels=3) for p in photographs]
    images = _crops(pictures, frame, [p.center for p in photographs])
    return LabelledImages(images, np.array([p.label for p in photographs], "uint8"))


def _crops(
    pictures: Sequence[np.ndarray], frame: int, centers: Sequence[tuple[float, float]]
) -> LazyImages:
    """Squares about one point of each picture, cut out as they are read."""
    shape = (len(pictures), frame, frame, 3)

    def read(indices: np.ndarray) -> np.ndarray:
        images = np.empty((len(indices), *shape[1:]), "uint8")
        for image, i in zip(images, indices, strict=True):
            image[...] = crop_about(pictures[i], frame, centers[i])
        return images

    return LazyImages(shape, read)


def crop_about(picture: np.ndarray, frame: int, center: tuple[float, float]) -> np.ndarray:
    """A square about one point of a picture; beyond the picture its edge pixels are continued.

    Pixels stay what they are: what is large in the picture is as large in the frame.

    Args:
        picture: Array `[h, w, …]`.
        frame: Height and width of the square.
        center: Row and column of the point, to the nearest half pixel.
    """
    rows, columns = (
        np.clip(np.arange(frame) + math.floor(middle - (frame - 1) / 2 + 0.5), 0, length - 1)
        for middle, length in zip(center, picture.shape[:2], strict=True)
    )
    return picture[rows[:, None], columns]


def _spread(items: Sequence[Photograph], count: int | None) -> Sequence[Photograph]:
    """`count` of the items at equal distances; all if there are no more, or `count` is `None`."""
    if count is None or check_integer("count", count) >= len(items):
        return items
    return [items[k * len(items) // count] for k in range(count)]
