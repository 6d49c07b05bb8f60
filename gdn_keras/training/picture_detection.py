"""Detection in a folder of annotated pictures: from the sizes of the boxes to a detector."""

import argparse
import dataclasses
import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras.layers import Rescaling

from gdn_keras.checks import check_non_negative, check_positive, check_share, require
from gdn_keras.datasets import BoxedImage, Crops, crop_pipeline, load_boxes, split_boxes
from gdn_keras.datasets.boxes import longer_sides
from gdn_keras.detection.detector import Detector
from gdn_keras.layers import ContrastStretch
from gdn_keras.reporting import Reporter
from gdn_keras.training import picture_precision
from gdn_keras.training.detection_task import (
    DetectionRecipe,
    DetectionTask,
    Points,
    parameter_count,
    points_network,
)
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.recipe import at_least, low_high, recipe, setting
from gdn_keras.training.run_folder import Section, shown

_LENGTHS = (26, 30)  # pixels of the median object in training, where the pictures may be resampled
_ENLARGED = 2.0  # most that training pictures are
_FOR_SMALL = 2**0.5  # most that small objects ask for
_CROPS = (112, 160)  # pixels
_TRAIN_STEPS = (-2, 2)  # half octaves: the finest and the coarsest sigma_0 in training
_FINEST = 0.5  # sigma_0 in pixels
_TESTED = 10_000_000  # pixels at the resolution that are tested on, for the time that it takes
_BORDER = 8.0  # units of sigma_0, where objects that the edges cut are annotated
_CUT = 0.2  # least share of those that chance would cut
_PART_THRESHOLD = 0.7
_RESCALING = {"scale": 1 / 127.5, "offset": -1.0}  # from pixels to what the network takes


_RANGE = {"check": low_high, "type": float, "nargs": 2, "metavar": ("LOW", "HIGH")}
_SWITCH = {"group": "training", "action": argparse.BooleanOptionalAction}


@recipe
class PictureRecipe(DetectionRecipe):
    """One training of a detector on annotated pictures.

    What is `None` follows from the pictures and the sizes of their boxes.

    Attributes:
        train_scales: sigma_0 of the scale channels in training, in pixels at `resolution`.
        scales: sigma_0 of the finished detector's scale channels, in pixels.
        border: how far the finished detector looks beyond the edges of pictures, in units of
            sigma_0 (default: 8 where objects that are nearly cut off have boxes, or 0).
        extent: longer side of an object of sigma_0 = 1, in pixels.
        resolution: factor of the pictures in training (default: the median object has 26 to 30
            pixels).
        find_sizes: longer sides of the objects that the detector is to find, in pixels of the
            pictures (default: from half of the smallest to four times the largest).
        size_range: longer sides of the boxes to train on, in pixels of the pictures; others are
            ignored.
        validation: share of the pictures to validate with, or a text file with their names.
        group: regular expression; pictures in whose names it matches the same are not divided
            between training and validation.
        split: list of Pascal VOC in ImageSets/Main to use alone.
        crop: height and width of training crops.
        mirror: mirror crops at random.
        turns: turn crops by 90 degrees at random (default: if grey).
        light: change brightness, contrast and gamma of crops a little, and add noise.
        insides: share of crops that show the insides of enlarged objects, as background.
        stretch: stretch each picture's contrast to its own range, where brightness differs a lot.
        overlapping: objects may stand in front of one another: what is inside of one may be
            another.
    """

    epochs: int = 24
    train_scales: tuple[float, ...] | None = setting(None, flag=None)
    scales: tuple[float, ...] | None = setting(None, flag=None)
    border: float | None = setting(None, check_non_negative, flag=None)
    extent: float | None = setting(None, check_positive, flag=None)
    resolution: float | None = setting(
        None, check_positive, group="data", type=float, metavar="FACTOR"
    )
    find_sizes: tuple[float, float] | None = setting(None, **_RANGE)
    size_range: tuple[float, float] | None = setting(None, **_RANGE, group="data")
    validation: str = setting("0.15", group="data", metavar="SHARE|FILE")
    group: str | None = setting(None, group="data", metavar="PATTERN")
    split: str | None = setting(None, group="data", metavar="NAME")
    crop: int | None = setting(None, at_least(32), type=int, metavar="PIXELS")
    mirror: bool = setting(True, **_SWITCH)
    turns: bool | None = setting(None, **_SWITCH)
    light: bool = setting(True, **_SWITCH)
    insides: float = setting(0.15, check_share, group="training", type=float, metavar="SHARE")
    stretch: bool = setting(False)
    overlapping: bool = setting(False)


def planned(wanted: PictureRecipe, images: Sequence[BoxedImage]) -> PictureRecipe:
    """The recipe with resolution, extent, scales and crops from the sizes of the boxes.

    Objects of the median size have sigma_0 = 1 in training, or more if small ones need it. In use,
    the same network works on the original pictures: its scales are divided by the resolution.
    """
    labels = np.concatenate([image.labels for image in images])
    sides = longer_sides([image.boxes for image in images])
    learned = _within(sides, wanted.size_range)
    require(learned.any(), "size_range", "hold boxes", wanted.size_range)
    kinds = [sides[learned & (labels == k)] for k in np.unique(labels[learned])]
    low = min(np.percentile(kind, 5) for kind in kinds)
    high = max(np.percentile(kind, 95) for kind in kinds)
    median = float(np.median(sides[learned]))
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
    coarsest = max(finest, min(per_octave * 10, math.ceil(ends[1] - 0.5)))  # 1024
    largest = min(high * resolution, extent * 2 ** (last / 2))
    plan = {
        "train_scales": tuple(2.0 ** (k / 2) for k in range(first, last + 1)),
        "scales": tuple(2.0 ** (k / per_octave) for k in range(int(finest), int(coarsest) + 1)),
        "crop": int(np.clip(16 * math.ceil(largest / 8), *_CROPS)),  # room for two
        "turns": all(image.channels == 1 for image in images),
        "border": _BORDER if _cut_objects_have_boxes(images) else 0.0,
    }
    plan = {name: value for name, value in plan.items() if getattr(wanted, name) is None}
    return dataclasses.replace(wanted, resolution=resolution, extent=extent, **plan)


def _cut_objects_have_boxes(images: Sequence[BoxedImage]) -> bool:
    """Whether objects of which an edge leaves less than a half are annotated.

    They are, if many boxes at edges are less than half as deep as they are long. Of objects of side
    s that lie anywhere, those with centers beyond the edges are 1 - w h / ((w + s) (h + s)).
    """
    found, expected = 0.0, 0.0
    for (height, width), boxes in ((i.shape, i.boxes) for i in images if len(i.boxes)):
        low, high = boxes[:, :2], boxes[:, 2:]
        sides = high - low
        at_edge = (low < 1) | (high > np.array([width, height]) - 1)
        found += (at_edge & (sides < sides[:, ::-1] / 2)).any(axis=1).sum()
        side = np.median(sides.max(axis=1))
        expected += len(boxes) * (1 - width * height / ((width + side) * (height + side)))
    return found > _CUT * expected


def _within(sides: np.ndarray, ends: tuple[float, float] | None) -> np.ndarray:
    low, high = ends or (0.0, math.inf)
    return (low <= sides) & (sides <= high)


def _answered(extent: float, scales: Sequence[float], per_octave: int) -> tuple[float, float]:
    """Longer sides that scale channels answer for: half a channel beyond the ends."""
    beyond = 2 ** (1 / (2 * per_octave))
    return extent * scales[0] / beyond, extent * scales[-1] * beyond


def _stretched(pixels: np.ndarray) -> np.ndarray:
    """Pixels from which `_RESCALING` makes what `ContrastStretch` makes of these."""
    values = keras.ops.convert_to_numpy(ContrastStretch()(pixels[None])[0])
    return np.rint(127.5 * (values + 1)).astype("uint8")


class PictureDetection(DetectionTask):
    """Trains a detector on a folder of annotated pictures, and tests it on those held out.

    Args:
        recipe: What to train; what it leaves open follows from the boxes.
        folder: Of the pictures and their boxes, see `load_boxes`.
        points: As in `DetectionTask`.
    """

    title = "Detector of objects in pictures"

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
        self.description = (
            f"a detector with {len(self.recipe.train_scales)} scale channels, on "
            f"{recipe.batch_size} crops of {self.recipe.crop} pixels a step"
        )
        self._answers: dict[float, list[picture_precision.Answer]] | None = None
        self.batches(0)  # raises where no box would be learned

    def settings(self) -> dict[str, Any]:
        lines = [
            f"{i.file.name} {zlib.crc32(i.file.read_bytes())} {i.boxes.tolist()}{i.labels.tolist()}"
            for i in (*self.train, *self.held_out)
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
        every, ends = longer_sides([i.boxes for i in data.images]), self.learned_range()
        finest, coarsest = _answered(recipe.extent, recipe.scales, recipe.per_octave)
        empty = sum(not len(image.labels) for image in data.images)
        notes = [
            f"{data.kind}: {len(data.images)} {'color' if self.channels == 3 else 'grey'} pictures "
            f"with {len(every)} boxes, {empty} of them without any. "
            f"Classes: {', '.join(self.class_names)}.",
            f"{len(self.train)} pictures to train on, {len(self.held_out)} to test on.",
            f"Boxes have {every.min():.3g} to {every.max():.3g} pixels, {np.median(every):.3g} in "
            f"the median. Those of {ends[0]:.3g} to {ends[1]:.3g} are learned, at "
            f"{recipe.resolution:.3g} of the resolution, and {(~_within(every, ends)).sum()} "
            "others ignored.",
            f"The detector finds objects of {finest:.3g} to {coarsest:.3g} pixels, and smaller "
            f"ones in enlarged pictures. Objects that are nearly cut off by an edge "
            f"{'have' if recipe.border else 'have no'} boxes.",
        ]
        if data.skipped:
            count, first = len(data.skipped), data.skipped[0]
            notes.append(f"{count} pictures without an annotation are left out, such as {first}.")
        return notes

    def learned_range(self) -> tuple[float, float]:
        """Longer sides of the objects to learn, in pixels of the pictures."""
        recipe = self.recipe
        low, high = _answered(recipe.extent / recipe.resolution, recipe.train_scales, 2)
        least, most = recipe.size_range or (low, high)
        return max(low, least), min(high, most)

    def prepared(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """What is done to a picture before crops are taken of it."""
        return _stretched if self.recipe.stretch else None

    def arguments(self) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "extent": recipe.extent,
            "preprocessor": ContrastStretch() if recipe.stretch else Rescaling(**_RESCALING),
            "part_threshold": 1.0 if recipe.overlapping else _PART_THRESHOLD,
            "max_detections": max(100, *(2 * len(image.labels) for image in self.data.images)),
        }

    def network(self) -> Detector:
        # Crops are stretched as the pictures that they are of.
        return self._detector(self.recipe.train_scales, preprocessor=Rescaling(**_RESCALING))

    def batches(self, first_epoch: int) -> Any:
        recipe, resolution = self.recipe, self.recipe.resolution
        low, high = self.learned_range()
        crops = Crops(
            self.train,
            recipe.crop,
            resolution,
            self.channels,
            sizes=(low * resolution, high * resolution),
            prepare=self.prepared(),
            **{name: getattr(recipe, name) for name in ("mirror", "turns", "light", "insides")},
        )
        first = first_epoch * recipe.steps
        return crop_pipeline(crops, batch_size=recipe.batch_size, seed=recipe.seed, first=first)

    def finish(self, model: Detector) -> Detector:
        finished = super().finish(model)
        try:
            self._answers = picture_precision.answers(finished, self.held_out)
        except KeyboardInterrupt:
            text = "Stopped while the threshold was chosen; the same command goes on from there."
            raise TrainingStopped(text, interrupted=True) from None
        threshold = picture_precision.best_threshold(self._answers, finished.confidence_threshold)
        return finished.with_thresholds(confidence_threshold=threshold)

    def evaluate(self, model: Detector, reporter: Reporter) -> dict[str, Any]:
        found = self._answers or picture_precision.answers(model, self.held_out)
        return {
            "parameters": parameter_count(model),
            "size_range": list(model.size_range),
            **picture_precision.measure(found, self.class_names, model.confidence_threshold),
        }

    def summary(self, results: dict[str, Any]) -> str:
        rows, (low, high) = results["magnifications"], results["size_range"]
        [here] = [row for row in rows if row["magnification"] == 1]
        return (
            f"Average precision {here['ap50']:.3f} at IoU 0.5 on {len(self.held_out)} validation "
            f"pictures, and at least {min(row['ap50'] for row in rows):.3f} at "
            f"{rows[0]['magnification']:.3g} to {rows[-1]['magnification']:.3g} times their "
            f"magnification; precision {here['precision'] or 0:.3f} and recall "
            f"{here['recall'] or 0:.3f} at confidence {results['threshold']:.3g}. "
            f"Finds {low:.3g} to {high:.3g} pixels."
        )

    def sections(self, results: dict[str, Any], model: Detector, others: Any) -> Iterator[Section]:
        yield "\n".join(self.notes())
        yield f"{results['parameters']} parameters. Scale channels: {shown(self.recipe.scales)}."
        yield from picture_precision.report(results, model, self.held_out)
