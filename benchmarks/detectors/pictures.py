"""Detectors on real pictures: ours beside what a user would choose instead.

    python benchmarks/detectors/pictures.py nuclei NUCLEI --output DIR
    python benchmarks/detectors/pictures.py road_signs ROAD_SIGNS --output DIR
    python benchmarks/detectors/pictures.py blood_cells BCCD/BCCD --output DIR

The folders are in the layout of Pascal VOC. Each contestant is trained on objects of one
magnification, on the same crops for as many steps, decoded by the same code, and tested at others:

    ours            the Gaussian derivative network of examples/train_detector.py
    pyramid         a convolutional network of the same widths on an image pyramid, half octaves
    pyramid_octaves the same with one level an octave, as ours has channels
    plain           the same network on the picture as it is
    all_sizes       plain, trained on pictures rescaled to all sizes of the test
    blobs, watershed   of scikit-image, without training (nuclei)

Each takes 2 to 10 minutes on one core. DIR/results.csv has a row for each contestant, seed, group
of test pictures and class; what is there is not done again.
"""

import argparse
import csv
import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
import numpy as np

from detectors.networks import plain_network, pyramid_network
from gdn_keras.datasets import BoxedImage, Crops, crop_pipeline, load_boxes, read_boxed_image
from gdn_keras.datasets.boxes import pad_boxes
from gdn_keras.detection import Detector, average_precision
from gdn_keras.training.detection_task import DetectionTask, points_network
from gdn_keras.training.picture_detection import PictureDetection, PictureRecipe

HALVES = tuple(2.0 ** (k / 2) for k in range(-2, 3))
_CONFIDENCE = 0.05
_MOST = 400  # detections in a picture
_FINEST, _COARSEST = -1, 2  # log2 of sigma_0, or of a level's scale


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained on, and what is tested on.

    Attributes:
        recipe: Settings of the training that differ from those of `PictureRecipe`.
        groups: Names of the test pictures, lists of Pascal VOC; the held-out pictures if there
            are none.
        magnifications: Of the test pictures.
        ranges: Longer sides of objects that are measured apart, in pixels of the test pictures.
        stretch: Factors of the pictures that `all_sizes` sees.
    """

    recipe: dict[str, Any]
    groups: tuple[str, ...]
    magnifications: tuple[float, ...] = (1.0,)
    ranges: tuple[tuple[float, float], ...] = ()
    stretch: tuple[float, ...] = HALVES


TASKS = {
    "nuclei": Task(
        {"split": "696x520", "stretch": True, "steps": 100, "epochs": 15},
        ("640x512", "360x360", "256x256"),
        stretch=tuple(2.0 ** (k / 2) for k in range(-3, 3)),
    ),
    "road_signs": Task(
        {"validation": "0.3", "size_range": (32.0, 48.0), "steps": 100, "epochs": 12},
        (),
        ranges=((16, 24), (24, 32), (32, 48), (48, 64), (64, 96), (96, 128)),
        stretch=tuple(2.0 ** (k / 2) for k in range(-3, 4)),
    ),
    "blood_cells": Task(
        {"split": "train", "resolution": 0.25, "extent": 24.0, "crop": 120, "turns": True,
         "insides": 0.0, "batch_size": 4, "steps": 100, "epochs": 12},
        ("test",),
        tuple(0.25 * m for m in HALVES),
    ),
}  # fmt: skip


class AnySize(PictureDetection):
    """A detector with one channel for objects of all sizes, trained on rescaled pictures too."""

    factors: tuple[float, ...] = (1.0,)

    def learned_range(self) -> tuple[float, float]:
        return self.recipe.size_range or (0.0, np.inf)

    def batches(self, first_epoch: int) -> Any:
        recipe, (low, high) = self.recipe, self.learned_range()
        self.draws = [
            Crops(
                self.train,
                recipe.crop,
                recipe.resolution * factor,
                self.channels,
                sizes=(low * recipe.resolution * factor, high * recipe.resolution * factor),
                turns=bool(recipe.turns),
                insides=recipe.insides,
                prepare=self.prepared(),
            )
            for factor in self.factors
        ]
        return crop_pipeline(_Mixed(self.draws), batch_size=recipe.batch_size, seed=recipe.seed)


class AllSizes(AnySize):
    """The same, shown all sizes of the test."""


class _Mixed:
    """Crops of several resolutions in turn."""

    def __init__(self, parts: Sequence[Crops]):
        self.parts = parts
        self.side, self.channels = parts[0].side, parts[0].channels

    def draw(self, seed: int, index: int) -> Any:
        return self.parts[index % len(self.parts)].draw(seed, index)


def contestant(name: str, task: Task, folder: Path, seed: int) -> PictureDetection:
    """The training of a contestant."""
    recipe = PictureRecipe(**task.recipe, seed=seed)
    if name == "ours":
        scales = tuple(2.0**k for k in range(_FINEST, _COARSEST + 1))
        return PictureDetection(dataclasses.replace(recipe, scales=scales), folder, points_network)
    if name.startswith("pyramid"):
        per_octave = 1 if name.endswith("octaves") else 2
        steps = range(per_octave * _FINEST, per_octave * (_COARSEST + 1))
        scales = tuple(2.0 ** (k / per_octave) for k in steps)
        recipe = dataclasses.replace(recipe, scales=scales, per_octave=per_octave)
        return PictureDetection(recipe, folder, pyramid_network)
    recipe = dataclasses.replace(recipe, scales=(1.0,), train_scales=(1.0,))
    trained = (AnySize if name == "plain" else AllSizes)(recipe, folder, plain_network)
    if name == "all_sizes":
        trained.factors = task.stretch
    return trained


def train(task: PictureDetection) -> tuple[Detector, float]:
    """The finished detector, and the seconds of its training."""
    recipe = task.recipe
    keras.utils.set_random_seed(recipe.seed)
    model = task.network()
    steps = recipe.steps * recipe.epochs
    rate = keras.optimizers.schedules.CosineDecay(recipe.learning_rate, steps, alpha=0.005)
    model.compile(keras.optimizers.Adam(rate))
    began = time.process_time()
    options = {"steps_per_epoch": recipe.steps, "epochs": recipe.epochs, "shuffle": False}
    model.fit(task.batches(0), **options, verbose=2)
    seconds = time.process_time() - began
    finished = DetectionTask.finish(task, model)
    lenient = {"confidence_threshold": _CONFIDENCE, "max_detections": _MOST}
    return finished.with_thresholds(**lenient), seconds


Find = Callable[[np.ndarray], dict[str, np.ndarray]]


def blobs(pixels: np.ndarray) -> dict[str, np.ndarray]:
    """Maxima of the Laplacian of Gaussians, by scikit-image."""
    from skimage.feature import blob_log

    image = pixels[..., 0] / 255.0
    found = blob_log(image, min_sigma=3, max_sigma=20, num_sigma=12, threshold=0.12, overlap=0.4)
    half = 2**0.5 * found[:, 2:]
    boxes = np.concatenate([found[:, 1::-1] - half, found[:, 1::-1] + half], axis=1)
    heights = image[tuple(found[:, :2].astype(int).T)]
    return {"boxes": boxes, "labels": np.zeros(len(boxes), int), "confidence": heights}


def watershed(pixels: np.ndarray) -> dict[str, np.ndarray]:
    """Otsu's threshold and the watershed of the distance from its edges, by scikit-image."""
    from scipy import ndimage
    from skimage import feature, filters, measure, segmentation

    image = filters.gaussian(pixels[..., 0] / 255.0, 1)
    mask = image > filters.threshold_otsu(image)
    distance = filters.gaussian(ndimage.distance_transform_edt(mask), 1)
    peaks = feature.peak_local_max(distance, min_distance=5, labels=measure.label(mask))
    seeds = np.zeros(image.shape, int)
    seeds[tuple(peaks.T)] = np.arange(1, len(peaks) + 1)
    regions = measure.regionprops(segmentation.watershed(-distance, seeds, mask=mask))
    regions = [region for region in regions if region.area >= 20]
    boxes = np.array([np.array(r.bbox)[[1, 0, 3, 2]] for r in regions], "float32").reshape(-1, 4)
    heights = np.array([distance[tuple(np.int_(r.centroid))] for r in regions])
    return {"boxes": boxes, "labels": np.zeros(len(boxes), int), "confidence": heights / 1e3}


UNTRAINED: dict[str, Find] = {"blobs": blobs, "watershed": watershed}
CONTESTANTS = ("ours", "pyramid", "pyramid_octaves", "plain", "all_sizes")


def stretched(pixels: np.ndarray) -> np.ndarray:
    """Between the percentiles that the detectors' preprocessor takes."""
    low, high = np.percentile(pixels, [1, 99.8])
    return np.clip((pixels - low) / max(high - low, 1) * 255, 0, 255)


def _on_stretched(method: Find, pixels: np.ndarray) -> dict[str, np.ndarray]:
    return method(stretched(pixels))


def found_by(detector: Detector) -> Find:
    """What a detector finds in one picture."""

    def find(pixels: np.ndarray) -> dict[str, np.ndarray]:
        found = detector.predict(pixels[None], verbose=0)
        return {name: values[0] for name, values in found.items() if values.ndim > 1}

    return find


def rows_of(
    find: Find, groups: dict[str, list[BoxedImage]], task: Task, names: Sequence[str], channels: int
) -> Iterator[dict[str, Any]]:
    """Average precision in each group, of each class and range of sizes."""
    for group, images in groups.items():
        for magnification in task.magnifications:
            answers, truth, seconds = [], [], []
            for image in images:
                pixels, boxes = read_boxed_image(image, magnification, channels)
                began = time.process_time()
                answers.append(find(pixels))
                seconds.append(time.process_time() - began)
                truth.append((boxes, image.labels))
            for k, name in enumerate(names):
                entries = precision(truth, answers, k, task.ranges)
                sizes = ("all", *(f"{low:g}-{high:g}" for low, high in task.ranges))
                for size, entry in zip(sizes, entries, strict=True):
                    yield {
                        "group": group,
                        "magnification": round(magnification, 4),
                        "class": name,
                        "sizes": size,
                        "objects": entry.objects,
                        "ap50": round(entry.ap50, 4),
                        "ap75": round(entry.ap75, 4),
                        "seconds_per_image": round(float(np.median(seconds)), 4),
                    }


def precision(truth: list, answers: list, label: int, ranges: tuple) -> list[Any]:
    """Average precision of one class, for all sizes and in each range."""
    boxes, labels = zip(*truth, strict=True)
    reference = pad_boxes(boxes, [np.where(mine == label, 0, -1) for mine in labels])
    most = max(1, *(len(one["labels"]) for one in answers))
    found: dict[str, np.ndarray] = {
        "boxes": np.zeros((len(answers), most, 4)),
        "labels": np.full((len(answers), most), -1),
        "confidence": np.zeros((len(answers), most)),
    }
    for k, one in enumerate(answers):
        count = len(one["labels"])
        mine = one["labels"] == label
        found["boxes"][k, :count] = one["boxes"]
        found["labels"][k, :count] = np.where(mine, 0, -1)
        found["confidence"][k, :count] = one["confidence"]
    return average_precision(reference, found, ranges, extent=1.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and tests what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=(*CONTESTANTS, *UNTRAINED))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, help="of the task's own steps")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--pictures", type=int, help="test pictures of each group")
    options = parser.parse_args(arguments)
    task = TASKS[options.task]
    changes = {name: getattr(options, name) for name in ("epochs", "steps")}
    given = {name: value for name, value in changes.items() if value}
    task = dataclasses.replace(task, recipe={**task.recipe, **given})
    data = load_boxes(options.folder, task.recipe.get("split"))
    groups = {name: load_boxes(options.folder, name).images for name in task.groups}
    file = options.output / "results.csv"
    options.output.mkdir(parents=True, exist_ok=True)
    rows = list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []
    done = {(row["contestant"], row["seed"]) for row in rows}
    untrained = tuple(UNTRAINED) if options.task == "nuclei" else ()
    for name in options.only or (*CONTESTANTS, *untrained):
        for seed in options.seeds[:1] if name in UNTRAINED else options.seeds:
            if (name, str(seed)) in done:
                continue
            print(f"{options.task}, {name}, seed {seed}:", flush=True)
            channels, seconds, parameters = max(i.channels for i in data.images), 0.0, 0
            if name in UNTRAINED:
                method = UNTRAINED[name]
                find: Find = functools.partial(_on_stretched, method)
                held_out = []
            else:
                trained = contestant(name, task, options.folder, seed)
                detector, seconds = train(trained)
                detector.save(options.output / f"{name}_{seed}.keras")
                find, parameters = found_by(detector), detector.count_params()
                held_out = trained.held_out
            tested = groups or {"held out": list(held_out)}
            tested = {group: images[: options.pictures] for group, images in tested.items()}
            for row in rows_of(find, tested, task, data.class_names, channels):
                about = {"data": options.task, "contestant": name, "seed": seed}
                costs = {"training_seconds": round(seconds), "parameters": parameters}
                rows.append({**about, **row, **costs})
                print(row, flush=True)
            with file.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
