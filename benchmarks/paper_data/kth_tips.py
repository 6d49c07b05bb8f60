"""KTH-TIPS: materials photographed from nine distances."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    check_test_split,
    register_dataset,
)
from gdn_keras.datasets.image_files import read_picture, require_directory

DISTANCES = tuple(range(1, 10))
_NAME = re.compile(r"\d+-scale_(?P<distance>\d+)_im_(?P<number>\d+)_grey\.png")


@dataclass(frozen=True)
class Sample:
    """A file, its material, its distance and its number: three poses, each in three lights."""

    file: Path
    material: str
    distance: int
    number: int


@register_dataset("kth_tips")
def kth_tips(
    directory: str | os.PathLike | None = None,
    *,
    train_distances: Sequence[int] = (4, 5, 6),
    test_distances: Sequence[int] = DISTANCES,
    validation_numbers: Sequence[int] = (5,),
    test_numbers: Sequence[int] = (7, 8, 9),
    frame: int = 112,
    crops: int = 3,
    test_split: str = "test",
) -> ImageData:
    """KTH-TIPS (Fritz et al. 2004) in grey: trained on some distances, tested on others.

    Most pictures have 200×200 pixels, those of far small samples fewer. All are cropped to the same
    square, since otherwise their size would tell the material.

    Args:
        directory: With a folder of `NN-scale_S_im_I_grey.png` for each material.
        train_distances: `S` of training and validation images: 1 is the nearest, and 9 about five
            times as far.
        test_distances: `S` of the test images, which become `test_sizes`.
        validation_numbers: `I` of the validation images.
        test_numbers: `I` of the test images. 1 to 3, 4 to 6 and 7 to 9 are the three poses.
        frame: Height and width of all images; the smallest picture has 113 pixels.
        crops: Training images along each side of a picture: 3 makes nine, which overlap.
        test_split: `"test"`, or `"validation"` to choose between networks without test images.
    """
    directory = require_directory(directory, "a folder for each material of KTH-TIPS")
    samples = _find_samples(directory)
    materials = sorted({sample.material for sample in samples})
    held_out = {*validation_numbers, *test_numbers}
    tested = {"test": test_numbers, "validation": validation_numbers}[check_test_split(test_split)]
    train_numbers = {sample.number for sample in samples} - held_out

    def load(distances: Sequence[float], numbers: Sequence[int], crops: int = 1) -> LabelledImages:
        chosen = [s for s in samples if s.distance in distances and s.number in numbers]
        if not chosen:
            raise ValueError(
                f"{directory} has no images of distances {tuple(distances)} and "
                f"numbers {tuple(numbers)}"
            )
        images = [crop for s in chosen for crop in _crops(s.file, frame, crops)]
        labels = [materials.index(s.material) for s in chosen]
        return LabelledImages(np.stack(images), np.repeat(labels, crops**2))

    return ImageData(
        name="kth_tips",
        train=load(train_distances, tuple(train_numbers), crops),
        validation=load(train_distances, validation_numbers),
        test=lambda distance: load((distance,), tested),
        test_sizes=tuple(test_distances),
        class_names=tuple(materials),
        preprocessor=keras.layers.Rescaling(1 / 127.5, offset=-1),
        size_name="distance (1 nearest)",
        train_sizes=tuple(train_distances),
    )


def _find_samples(directory: Path) -> list[Sample]:
    samples = []
    for file in sorted(directory.glob("*/*.png")):
        if match := _NAME.fullmatch(file.name):
            distance, number = int(match["distance"]), int(match["number"])
            samples.append(Sample(file, file.parent.name, distance, number))
    if not samples:
        raise FileNotFoundError(f"No file NN-scale_S_im_I_grey.png was found in {directory}/*")
    return samples


def _crops(file: Path, frame: int, crops: int) -> list[np.ndarray]:
    """`crops` × `crops` squares at equal distances; one is the middle."""
    picture = read_picture(file, channels=1)
    if min(picture.shape[:2]) < frame:
        raise ValueError(
            f"`frame` must be at most {min(picture.shape[:2])}, the shorter side of {file}. "
            f"Received: frame={frame}"
        )
    rows, columns = (
        np.rint(np.linspace(0, length - frame, 2 * crops + 1)[1::2]).astype(int)
        for length in picture.shape[:2]
    )
    return [picture[y : y + frame, x : x + frame] for y in rows for x in columns]
