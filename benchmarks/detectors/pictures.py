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

Each takes 2 to 10 minutes on one core, in a process of its own, whose peak memory is written down.
DIR/results.csv has a row for each contestant, seed, class, and size or group of test pictures; what
is there is not done again. "counted" is objects counted over those there are, and "size_error" the
median error of the longer side, at the threshold that was chosen on validation pictures.
"""

import argparse
import csv
import dataclasses
import functools
import multiprocessing
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
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
from gdn_keras.training.picture_precision import answers, best_threshold, matches

HALVES = tuple(2.0 ** (k / 2) for k in range(-2, 3))
_CONFIDENCE = 0.05
_MOST = 400  # detections in a picture
_FINEST, _COARSEST = -1, 2  # log2 of sigma_0, or of a level's scale


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained on, and what is tested on.

    Attributes:
        recipe: Settings of the training that differ from those of `PictureRecipe`.
        tests: For each name of a test its pictures, a list of Pascal VOC (those held out if it is
            empty), and their magnification.
        ranges: Longer sides of objects that are measured apart, in pixels of the test pictures.
        stretch: Factors of the pictures that `all_sizes` sees.
    """

    recipe: dict[str, Any]
    tests: dict[str, tuple[str, float]]
    ranges: tuple[tuple[float, float], ...] = ()
    stretch: tuple[float, ...] = HALVES


TASKS = {
    "nuclei": Task(
        {"split": "696x520", "stretch": True, "steps": 100, "epochs": 15},
        {
            **{name: (name, 1.0) for name in ("640x512", "360x360", "256x256")},
            "256x256, enlarged": ("256x256", 2.0),
        },
        stretch=tuple(2.0 ** (k / 2) for k in range(-3, 3)),
    ),
    "road_signs": Task(
        {"validation": "0.3", "size_range": (32.0, 48.0), "steps": 100, "epochs": 12},
        {"all": ("", 1.0)},
        ranges=((16, 24), (24, 32), (32, 48), (48, 64), (64, 96), (96, 128)),
        stretch=tuple(2.0 ** (k / 2) for k in range(-3, 4)),
    ),
    "blood_cells": Task(
        {"split": "train", "resolution": 0.25, "extent": 24.0, "crop": 120, "turns": True,
         "insides": 0.0, "batch_size": 4, "steps": 100, "epochs": 12},
        {f"{m:.3g}": ("test", 0.25 * m) for m in HALVES},
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
    find: Find,
    tests: dict[str, tuple[Sequence[BoxedImage], float]],
    task: Task,
    names: Sequence[str],
    channels: int,
    threshold: float | None = 0.0,
) -> Iterator[dict[str, Any]]:
    """What is found in each test, of each class and range of sizes."""
    for test, (images, magnification) in tests.items():
        found, truth, seconds = [], [], []
        for image in images:
            pixels, boxes = read_boxed_image(image, magnification, channels)
            began = time.process_time()
            found.append(find(pixels))
            seconds.append(time.process_time() - began)
            truth.append((boxes, image.labels))
        cost = round(float(np.median(seconds)), 4)
        for k, name in enumerate(names):
            entries = precision(truth, found, k, task.ranges)
            sizes = (test, *(f"{low:g}-{high:g}" for low, high in task.ranges))
            measured: dict[str, Any] = {}
            if threshold is not None:
                measured = count_and_size(truth, found, k, threshold)
            for size, entry in zip(sizes, entries, strict=True):
                yield {
                    "class": name,
                    "size": size,
                    "objects": entry.objects,
                    "ap50": round(entry.ap50, 4),
                    "ap75": round(entry.ap75, 4),
                    **measured,
                    "seconds_per_image": cost,
                }
                measured = dict.fromkeys(measured, "")  # of all sizes only


def count_and_size(truth: list, found: list, label: int, threshold: float) -> dict[str, float]:
    """Objects counted over those there are, and the median error of the longer side."""
    counted, errors = 0, []
    for (boxes, labels), one in zip(truth, found, strict=True):
        kept = (one["labels"] == label) & (one["confidence"] >= threshold)
        best, mine = one["boxes"][kept], boxes[labels == label]
        zeros = np.zeros(len(best), int)
        match = matches(mine, np.zeros(len(mine), int), best, zeros)
        pairs = best[match >= 0], mine[match[match >= 0]]
        measured, true = ((b[:, 2:] - b[:, :2]).max(axis=1, initial=0) for b in pairs)
        counted += len(best)
        errors.extend(np.abs(measured / true - 1))
    objects = max(1, sum((labels == label).sum() for _, labels in truth))
    error = float(np.median(errors)) if errors else float("nan")
    return {"counted": round(float(counted / objects), 4), "size_error": round(error, 4)}


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


def rows(name: str, seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains and tests a contestant."""
    task = TASKS[options.task]
    changes = {key: getattr(options, key) for key in ("epochs", "steps")}
    given = {key: value for key, value in changes.items() if value}
    task = dataclasses.replace(task, recipe={**task.recipe, **given})
    data = load_boxes(options.folder, task.recipe.get("split"))
    seconds, parameters = 0.0, 0
    threshold: float | None = 0.0
    held_out: Sequence[BoxedImage] = ()
    if name in UNTRAINED:
        find: Find = functools.partial(_on_stretched, UNTRAINED[name])
    else:
        trained = contestant(name, task, options.folder, seed)
        detector, seconds = train(trained)
        detector.save(options.output / f"{name}_{seed}.keras")
        find, parameters = found_by(detector), detector.count_params()
        held_out = trained.held_out
        if any(part for part, _ in task.tests.values()):
            threshold = best_threshold(answers(detector, held_out), _CONFIDENCE)
        else:  # they are the test
            threshold = None
    tests = {
        test: (load_boxes(options.folder, part).images if part else held_out, magnification)
        for test, (part, magnification) in task.tests.items()
    }
    tests = {test: (images[: options.pictures], m) for test, (images, m) in tests.items()}
    channels = max(image.channels for image in data.images)
    tested = list(rows_of(find, tests, task, data.class_names, channels, threshold))
    costs = {
        "training_seconds": round(seconds),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "parameters": parameters,
    }
    if threshold is not None:
        costs["threshold"] = round(threshold, 3)
    several = len(data.class_names) > 1
    result = []
    for row in tested:
        kind = row.pop("class")
        title = f"{options.task}: {name}, {kind}" if several else f"{options.task}: {name}"
        result.append({"name": title, "seed": seed, **row, **costs})
    return result


def add_rows(file: Path, kept: list[dict[str, Any]], measure: Callable, *arguments: Any) -> None:
    """Adds rows to those that are kept, and writes them all.

    They come from a process of its own: its peak memory, and nothing left of the one before.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        new = process.submit(measure, *arguments).result()
    print(*new, sep="\n", flush=True)
    kept.extend(new)
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, kept[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)


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
    parser.add_argument("--pictures", type=int, help="test pictures of each kind")
    options = parser.parse_args(arguments)
    file = options.output / "results.csv"
    options.output.mkdir(parents=True, exist_ok=True)
    kept = list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []
    done = {(re.split("[:,]", row["name"])[1].strip(), int(row["seed"])) for row in kept}
    untrained = tuple(UNTRAINED) if options.task == "nuclei" else ()
    for seed in options.seeds:
        for name in options.only or (*CONTESTANTS, *untrained):
            if (name, seed) in done or (name in UNTRAINED and seed != options.seeds[0]):
                continue
            print(f"{options.task}, {name}, seed {seed}:", flush=True)
            add_rows(file, kept, rows, name, seed, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
