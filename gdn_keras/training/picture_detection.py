"""Detection in a folder of annotated pictures: from the sizes of the boxes to a detector."""

import argparse
import dataclasses
import math
import os
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import check_non_negative, check_positive
from gdn_keras.datasets import BoxedImage, Crops, crop_pipeline, load_boxes, split_boxes
from gdn_keras.detection.detector import Detector
from gdn_keras.layers import ContrastStretch
from gdn_keras.reporting import Reporter
from gdn_keras.training.detection_task import (
    AVERAGE_PRECISION,
    DetectionRecipe,
    DetectionTask,
    Points,
    parameter_count,
    points_network,
)
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.picture_precision import (
    Answer,
    answers,
    best_threshold,
    draw_answers,
    draw_counts,
    draw_precision,
    measure,
    precision_tables,
    worst,
)
from gdn_keras.training.recipe import COUNT, at_least, recipe, setting
from gdn_keras.training.report_page import Picture, Section, shown

_LENGTHS = (26, 30)  # pixels of the median object in training, where the pictures may be resampled
_ENLARGED = 2.0  # most that training pictures are
_FOR_SMALL = 2**0.5  # most that small objects ask for
_CROPS = (112, 160)  # pixels
_TRAIN_STEPS = (-2, 2)  # half octaves: the finest and the coarsest sigma_0 in training
_FINEST = 0.5  # sigma_0 in pixels
_TESTED = 10_000_000  # pixels at the resolution that are tested on, for the time that it takes
_NEARLY_ALL = (5, 95)  # percent of the boxes of a class
_PART_THRESHOLD = 0.7
_SWITCH: dict[str, Any] = {"action": argparse.BooleanOptionalAction}


def _lengths(name: str, value: Sequence[float]) -> tuple[float, float]:
    low, high = (check_positive(name, length) for length in value)
    if low > high:
        raise ValueError(f"`{name}` must be LOW HIGH, in pixels. Received: {low:g} {high:g}")
    return low, high


_RANGE = {"check": _lengths, "type": float, "nargs": 2, "metavar": ("LOW", "HIGH")}


def _share(name: str, value: float) -> float:
    if check_non_negative(name, value) > 1:
        raise ValueError(f"`{name}` must lie in [0, 1]. Received: {name}={value!r}")
    return value


@recipe
class PictureRecipe(DetectionRecipe):
    """One training of a detector on annotated pictures.

    What is `None` follows from the pictures and the sizes of their boxes.
    """

    epochs: int = setting(12, "epochs of `steps` batches", at_least(1), **COUNT)
    train_scales: tuple[float, ...] | None = setting(
        None, "sigma_0 of the scale channels in training, in pixels at `resolution`", flag=None
    )
    scales: tuple[float, ...] | None = setting(
        None, "sigma_0 of the finished detector's scale channels, in pixels", flag=None
    )
    extent: float | None = setting(
        None, "longer side of an object of sigma_0 = 1, in pixels", check_positive, flag=None
    )
    resolution: float | None = setting(
        None,
        "factor of the pictures in training (default: the median object has 26 to 30 pixels)",
        check_positive,
        group="data",
        type=float,
        metavar="FACTOR",
    )
    find_sizes: tuple[float, float] | None = setting(
        None,
        "longer sides of the objects that the detector is to find, in pixels of the pictures "
        "(default: from half of the smallest to four times the largest)",
        **_RANGE,
    )
    size_range: tuple[float, float] | None = setting(
        None,
        "longer sides of the boxes to train on, in pixels of the pictures; others are ignored",
        group="data",
        **_RANGE,
    )
    validation: str = setting(
        "0.15",
        "share of the pictures to validate with, or a text file with their names",
        group="data",
        metavar="SHARE|FILE",
    )
    group: str | None = setting(
        None,
        "regular expression; pictures in whose names it matches the same are not divided between "
        "training and validation",
        group="data",
        metavar="PATTERN",
    )
    split: str | None = setting(
        None, "list of Pascal VOC in ImageSets/Main to use alone", group="data", metavar="NAME"
    )
    crop: int | None = setting(
        None, "height and width of training crops", at_least(32), type=int, metavar="PIXELS"
    )
    mirror: bool = setting(True, "mirror crops at random", group="training", **_SWITCH)
    turns: bool | None = setting(
        None, "turn crops by 90 degrees at random (default: if grey)", group="training", **_SWITCH
    )
    light: bool = setting(
        True,
        "change brightness, contrast and gamma of crops a little, and add noise",
        group="training",
        **_SWITCH,
    )
    insides: float = setting(
        0.15,
        "share of crops that show the insides of enlarged objects, as background",
        _share,
        group="training",
        type=float,
        metavar="SHARE",
    )
    stretch: bool = setting(
        False, "stretch each picture's contrast to its own range, where brightness differs a lot"
    )
    overlapping: bool = setting(
        False, "objects may stand in front of one another: what is inside of one may be another"
    )


def planned(wanted: PictureRecipe, images: Sequence[BoxedImage]) -> PictureRecipe:
    """The recipe with resolution, extent, scales and crops from the sizes of the boxes.

    Objects of the median size have sigma_0 = 1 in training, or more if small ones need it. In use,
    the same network works on the pictures as they are: its scales are divided by the resolution.
    """
    labels = np.concatenate([image.labels for image in images])
    sides = box_sides(images)
    learned = _within(sides, wanted.size_range)
    if not learned.any():
        raise ValueError(f"`size_range` must hold boxes. Received: {wanted.size_range}")
    kinds = [sides[learned & (labels == k)] for k in np.unique(labels[learned])]
    low, high = np.transpose([np.percentile(kind, _NEARLY_ALL) for kind in kinds])
    low, high, median = low.min(), high.max(), float(np.median(sides[learned]))
    (short, long), resolution, per_octave = _LENGTHS, wanted.resolution, wanted.per_octave
    if resolution is None:
        usual = 1.0 if short <= median <= long else math.sqrt(short * long) / median
        resolution = min(_ENLARGED, max(usual, min(_FINEST * long / low, _FOR_SMALL * usual)))
    extent = wanted.extent or min(long, median * resolution)
    # One channel more below and two above, so that the network learns what is not there.
    first, last = 2 * np.log2(np.array([low, high]) * resolution / extent)
    first, last = np.clip([math.floor(first) - 1, math.ceil(last) + 2], *_TRAIN_STEPS)
    # Powers of two, on which tiles of large pictures fit.
    ends = per_octave * np.log2(np.array(wanted.find_sizes or (low / 2, 4 * high)) / extent)
    finest = max(per_octave * math.log2(_FINEST), math.floor(ends[0] + 0.5))
    coarsest = max(finest, math.ceil(ends[1] - 0.5))
    scales = tuple(2.0 ** (k / per_octave) for k in range(int(finest), int(coarsest) + 1))
    largest = min(high * resolution, extent * 2 ** (last / 2))
    crop = int(np.clip(16 * math.ceil(largest / 8), *_CROPS))  # room for two
    return dataclasses.replace(
        wanted,
        resolution=resolution,
        extent=extent,
        train_scales=wanted.train_scales or tuple(2.0 ** (k / 2) for k in range(first, last + 1)),
        scales=wanted.scales or scales,
        crop=wanted.crop or crop,
        turns=all(i.channels == 1 for i in images) if wanted.turns is None else wanted.turns,
    )


def box_sides(images: Sequence[BoxedImage]) -> np.ndarray:
    """Longer sides of all boxes, in pixels of the pictures."""
    return np.concatenate([(i.boxes[:, 2:] - i.boxes[:, :2]).max(axis=1) for i in images])


def _within(sides: np.ndarray, ends: tuple[float, float] | None) -> np.ndarray:
    low, high = ends or (0.0, math.inf)
    return (low <= sides) & (sides <= high)


def _answered(extent: float, scales: Sequence[float], per_octave: int) -> tuple[float, float]:
    """Longer sides that scale channels answer for: half a channel beyond the ends."""
    beyond = 2 ** (1 / (2 * per_octave))
    return extent * scales[0] / beyond, extent * scales[-1] * beyond


def _rescaling() -> keras.layers.Layer:
    """From pixels to what the network takes."""
    return keras.layers.Rescaling(1 / 127.5, -1.0)


def _stretched(pixels: np.ndarray) -> np.ndarray:
    """Pixels from which `_rescaling` makes what `ContrastStretch` makes of these."""
    values = keras.ops.convert_to_numpy(ContrastStretch()(pixels[None])[0])
    return np.rint(127.5 * (values + 1)).astype("uint8")


class PictureDetection(DetectionTask):
    """Trains a detector on a folder of annotated pictures, and tests it on those held out.

    Args:
        recipe: What to train; what it leaves open follows from the boxes.
        folder: Of the pictures and their boxes, see `load_boxes`.
        points: As in `DetectionTask`.

    Raises:
        ValueError, OSError: If the folder holds no annotated pictures, or a file is wrong.
        ImportError: Without pycocotools or Pillow.
    """

    title = "Detector of objects in pictures"
    files = ((AVERAGE_PRECISION, "average precision, and what was found"),)

    def __init__(
        self, recipe: PictureRecipe, folder: str | os.PathLike, points: Points = points_network
    ):
        self.data = load_boxes(folder, recipe.split)
        images = self.data.images
        self.train, held_out = split_boxes(images, recipe.validation, recipe.group)
        channels = max(image.channels for image in images)
        super().__init__(planned(recipe, self.train), self.data.class_names, channels, points)
        area = sum(math.prod(image.shape) for image in held_out) * self.recipe.resolution**2
        self.held_out = held_out[:: math.ceil(area / _TESTED)]
        self.most = max(len(image.labels) for image in images)
        self.description = (
            f"a detector with {len(self.recipe.train_scales)} scale channels, on "
            f"{recipe.batch_size} crops of {self.recipe.crop} pixels a step"
        )
        self._answers: dict[float, list[Answer]] | None = None

    def settings(self) -> dict[str, Any]:
        lines = [
            f"{i.file.name} {i.file.stat().st_size} {i.boxes.tolist()} {i.labels.tolist()}"
            for part in (self.train, self.held_out)
            for i in part
        ]
        return {
            **self.recipe.as_dict(),
            "class_names": self.class_names,
            "training_pictures": len(self.train),
            "validation_pictures": len(self.held_out),
            "pictures_checksum": zlib.crc32("\n".join(lines).encode()),
        }

    def notes(self) -> list[str]:
        """What was found in the folder, and what follows from it."""
        data, recipe = self.data, self.recipe
        every, ends = box_sides(data.images), self.learned_range()
        learned = _within(every, ends)
        finest, coarsest = _answered(recipe.extent, recipe.scales, recipe.per_octave)
        empty = sum(not len(image.labels) for image in data.images)
        lines = [
            f"{data.kind}: {len(data.images)} {'color' if self.channels == 3 else 'grey'} pictures "
            f"with {len(every)} boxes, {empty} of them without any. Classes: "
            f"{', '.join(self.class_names)}.",
            f"{len(self.train)} pictures to train on, {len(self.held_out)} to test on.",
            f"Boxes have {every.min():.3g} to {every.max():.3g} pixels, "
            f"{np.median(every):.3g} in the median. Those of {ends[0]:.3g} to {ends[1]:.3g} are "
            f"learned, at {recipe.resolution:.3g} of the resolution, and {(~learned).sum()} others "
            "ignored.",
            f"The detector finds objects of {finest:.3g} to {coarsest:.3g} pixels, and smaller "
            "ones in enlarged pictures.",
        ]
        if data.skipped:
            lines.insert(
                1,
                f"{len(data.skipped)} pictures without an annotation are left out, such as "
                f"{data.skipped[0]}.",
            )
        return lines

    def learned_range(self) -> tuple[float, float]:
        """Longer sides of the objects to learn, in pixels of the pictures."""
        recipe = self.recipe
        extent = recipe.extent / recipe.resolution
        low, high = _answered(extent, recipe.train_scales, 2)
        least, most = recipe.size_range or (0.0, math.inf)
        return max(low, least), min(high, most)

    def prepared(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """What is done to a picture before crops are taken of it."""
        return _stretched if self.recipe.stretch else None

    def arguments(self) -> dict[str, Any]:
        return {
            "extent": self.recipe.extent,
            "preprocessor": ContrastStretch() if self.recipe.stretch else _rescaling(),
            "part_threshold": 1.0 if self.recipe.overlapping else _PART_THRESHOLD,
            "max_detections": max(100, 2 * self.most),
        }

    def network(self) -> Detector:
        # Crops are stretched as the pictures that they are of.
        return self._detector(self.recipe.train_scales, preprocessor=_rescaling())

    def batches(self, first_epoch: int) -> Any:
        recipe = self.recipe
        low, high = (length * recipe.resolution for length in self.learned_range())
        crops = Crops(
            self.train,
            recipe.crop,
            recipe.resolution,
            self.channels,
            sizes=(low, high),
            mirror=recipe.mirror,
            turns=bool(recipe.turns),
            light=recipe.light,
            insides=recipe.insides,
            prepare=self.prepared(),
        )
        first = first_epoch * recipe.steps
        return crop_pipeline(crops, batch_size=recipe.batch_size, seed=recipe.seed, first=first)

    def finish(self, model: Detector) -> Detector:
        finished = super().finish(model)
        try:
            self._answers = answers(finished, self.held_out)
        except KeyboardInterrupt:
            raise TrainingStopped(
                "Stopped while the threshold was chosen; the same command goes on from there.", True
            ) from None
        threshold = best_threshold(self._answers, finished.confidence_threshold)
        return finished.with_thresholds(confidence_threshold=threshold)

    def evaluate(self, model: Detector, reporter: Reporter) -> dict[str, Any]:
        began = time.monotonic()
        found = self._answers or answers(model, self.held_out)
        reporter.line(f"Tested in {time.monotonic() - began:.0f} s.")
        return {
            "parameters": parameter_count(model),
            "size_range": list(model.size_range),
            **measure(found, self.class_names, model.confidence_threshold),
        }

    def summary(self, results: dict[str, Any]) -> str:
        rows = results["magnifications"]
        [here] = [row for row in rows if row["magnification"] == 1]
        least, rates = min(row["ap50"] for row in rows), ("precision", "recall")
        precision, recall = (0.0 if here[name] is None else here[name] for name in rates)
        low, high = results["size_range"]
        return (
            f"Average precision {here['ap50']:.3f} at IoU 0.5 on {len(self.held_out)} validation "
            f"pictures, and at least {least:.3f} at {rows[0]['magnification']:.3g} to "
            f"{rows[-1]['magnification']:.3g} times their magnification; precision "
            f"{precision:.3f} and recall {recall:.3f} at confidence {results['threshold']:.3g}. "
            f"Finds {low:.3g} to {high:.3g} pixels."
        )

    def sections(
        self, results: dict[str, Any], model: Detector, others: dict[str, dict[str, Any]]
    ) -> list[Section]:
        mistaken = worst(results, self.held_out)
        names = ", ".join(image.file.name for image in mistaken)
        key = "green is right, red is false, yellow was missed."
        pages = [("detections.png", f"Validation pictures: {key}", self.held_out)]
        if mistaken:
            pages.append(("mistakes.png", f"The worst mistakes, in {names}: {key}", mistaken))
        return [
            "\n".join(self.notes()),
            f"{results['parameters']} parameters. Scale channels: {shown(self.recipe.scales)}.",
            precision_tables(results),
            Picture(
                "average_precision.png",
                "Average precision over magnification, and over size at magnification 1.",
                lambda path: draw_precision(results, path),
            ),
            Picture(
                "counts_and_sizes.png",
                "Objects counted and their sizes, found over true, at magnification 1.",
                lambda path: draw_counts(results, path),
            ),
            *(
                Picture(name, text, lambda path, images=images: draw_answers(model, images, path))
                for name, text, images in pages
            ),
        ]
