"""German traffic signs, photographed from far and near."""

import csv
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdn_keras.datasets.files import read_picture, require_directory
from gdn_keras.datasets.image_data import ImageData, LabelledImages
from gdn_keras.datasets.photographs import FramedPictures
from gdn_keras.datasets.preprocessing import PixelScaling
from gdn_keras.datasets.registry import register_dataset
from gdn_keras.datasets.selection import hold_out, spread

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
    """A file, and the sign in it: class, track, longer side and centre (row, column), in pixels."""

    file: Path
    label: int
    track: str
    side: int
    centre: tuple[float, float]


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
        seed: Of the choice of tracks.
    """
    directory = require_directory(directory, "the folder Final_Training of GTSRB")
    if (directory / "GTSRB").is_dir():
        directory /= "GTSRB"
    photographs = _training_photographs(directory)
    official = _test_photographs(directory)
    train, validation, held_out = _split_tracks(photographs, seed, with_test=official is None)
    tests = held_out if official is None else official
    low, high = train_sides
    train, validation = ([p for p in part if low <= p.side < high] for part in (train, validation))
    if not train or not validation:
        raise ValueError(
            f"`train_sides` must leave signs to train and to validate with. Received: {train_sides}"
        )
    sizes = {
        round(math.sqrt(a * b), 1): [p for p in tests if a <= p.side < b]
        for a, b in itertools.pairwise(edges)
    }
    sizes = {size: part for size, part in sizes.items() if part}

    def test(size: float) -> LabelledImages:
        if size not in sizes:
            raise ValueError(f"`size` must be one of {tuple(sizes)}. Received: size={size}")
        images, labels = _load(spread(sizes[size], test_count), frame)
        return LabelledImages(np.asarray(images), labels)

    return ImageData(
        name="gtsrb",
        train=_load(spread(train, count), train_frame or frame),
        validation=_load(validation, train_frame or frame),
        test=test,
        test_sizes=tuple(sizes),
        class_names=CLASS_NAMES,
        preprocessing=PixelScaling(),
        size_name="side of the sign, pixels",
    )


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
        track=row["Filename"][:5],
        side=max(right - left, bottom - top) + 1,  # both ends belong to the sign
        centre=((top + bottom) / 2, (left + right) / 2),
    )


def _split_tracks(
    photographs: Sequence[Photograph], seed: int, with_test: bool
) -> tuple[list[Photograph], list[Photograph], list[Photograph]]:
    """Photographs to train, to validate and, `with_test`, to test with."""
    rng = np.random.default_rng(seed)
    validation: set[tuple[int, str]] = set()
    test: set[tuple[int, str]] = set()
    for label in sorted({p.label for p in photographs}):
        tracks = sorted({(p.label, p.track) for p in photographs if p.label == label})
        if len(tracks) < 2 + with_test:
            raise ValueError(
                f"Class {label} must have {2 + with_test} tracks or more, of which some are held "
                f"out. Received: {len(tracks)}"
            )
        if with_test:
            test |= hold_out(tracks, _TEST_SHARE, rng)
        tracks = [track for track in tracks if track not in test]
        validation |= hold_out(tracks, _VALIDATION_SHARE, rng)
    parts: tuple[list[Photograph], ...] = ([], [], [])
    for p in photographs:
        track = (p.label, p.track)
        parts[1 if track in validation else 2 if track in test else 0].append(p)
    return parts


def _load(photographs: Sequence[Photograph], frame: int) -> LabelledImages:
    pictures = [read_picture(p.file, colour=True) for p in photographs]
    images = FramedPictures(pictures, frame, [p.centre for p in photographs])
    return LabelledImages(images, np.array([p.label for p in photographs], "uint8"))
