"""How well a detector does on annotated pictures, at several magnifications of them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from keras.utils.bounding_boxes import compute_iou

from gdn_keras.analysis.plots import figure_file
from gdn_keras.datasets import BoxedImage, read_boxed_image
from gdn_keras.datasets.boxes import longer_sides, pad_boxes
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes
from gdn_keras.detection.precision import average_precision
from gdn_keras.detection.tiles import predict_tiled
from gdn_keras.training.detection_task import (
    PRECISION,
    SHOWN,
    as_json,
    draw_curves,
    draw_page,
    table,
)
from gdn_keras.training.run_folder import Picture, Section

MAGNIFICATIONS = tuple(2.0 ** (k / 2) for k in range(-2, 3))
_CONFIDENCE = 0.05  # low enough to see all of the curve of precision over recall
_OVERLAP = 0.5
_LARGE = 4_000_000  # pixels of a picture that is cut into tiles
_FALSE, _RIGHT, _MISSED = 0, 3, 2  # colors of `draw_boxes`: red, green and yellow


class Answer(NamedTuple):
    """The objects of a picture, and what is found, best first; `match` is the object, or -1."""

    boxes: np.ndarray
    labels: np.ndarray
    found: np.ndarray
    found_labels: np.ndarray
    confidence: np.ndarray
    match: np.ndarray


def answer(detector: Detector, image: BoxedImage, magnification: float = 1.0) -> Answer:
    """What a detector finds in a magnified picture, at whatever confidence it is set to."""
    pixels, boxes = read_boxed_image(image, magnification, detector.network.input_shape[-1])
    if pixels.shape[0] * pixels.shape[1] > _LARGE:
        found = predict_tiled(detector, pixels)
    else:  # each call of the former traces the network anew
        found = detector.predict(pixels[None], verbose=0)
    count = int(found["num_detections"][0])
    best, labels, confidence = (found[k][0, :count] for k in ("boxes", "labels", "confidence"))
    match = matches(boxes, image.labels, best, labels)
    return Answer(boxes, image.labels, best, labels, confidence, match)


def answers(detector: Detector, images: Sequence[BoxedImage]) -> dict[float, list[Answer]]:
    """What a detector finds at each magnification, at any confidence."""
    lenient = detector.with_thresholds(confidence_threshold=_CONFIDENCE)
    return {m: [answer(lenient, image, m) for image in images] for m in MAGNIFICATIONS}


def matches(
    boxes: np.ndarray, labels: np.ndarray, found: np.ndarray, found_labels: np.ndarray
) -> np.ndarray:
    """For each detection, best first, the object of its class that it overlaps most, or -1.

    An object is found once.
    """
    match = np.full(len(found), -1)
    if not len(boxes) or not len(found):
        return match
    overlaps = keras.ops.convert_to_numpy(compute_iou(found, boxes, "xyxy"))
    overlaps = np.where(found_labels[:, None] == labels[None], overlaps, 0)
    for k, mine in enumerate(overlaps):
        best = int(np.argmax(mine))
        if mine[best] >= _OVERLAP:
            match[k] = best
            overlaps[:, best] = 0
    return match


def best_threshold(found: Mapping[float, Sequence[Answer]], default: float) -> float:
    """The confidence with the highest F1 over all magnifications together."""
    every = [one for some in found.values() for one in some]
    confidence = np.concatenate([one.confidence for one in every])
    right = np.concatenate([one.match >= 0 for one in every])
    if not right.any():
        return default
    order = np.argsort(-confidence)
    objects = sum(len(one.labels) for one in every)
    f1 = 2 * np.cumsum(right[order]) / (np.arange(1, len(right) + 1) + objects)
    best = int(np.argmax(f1))
    # Halfway to the next one, if there is one.
    return float(np.round(confidence[order[best : best + 2]].mean(), 3))


def measure(
    found: Mapping[float, Sequence[Answer]], names: Sequence[str], threshold: float
) -> dict[str, Any]:
    """The results as JSON has them.

    "magnifications", "sizes" and "classes" are rows with average precision. At magnification 1,
    "counts" are objects and detections in each picture, "lengths" true and found longer sides, and
    "mistakes", for each picture, the sum of confidence of what is false and missed.
    """
    here = found[1.0]
    # A factor of sqrt(2) apart, from the smallest object to the largest.
    sides = longer_sides([one.boxes for one in here])
    first, last = np.rint(2 * np.log2([sides.min(), sides.max()])).astype(int)
    bands = [2.0 ** (k / 2) for k in range(first, last + 1)]
    return {
        "threshold": threshold,
        "magnifications": [
            {"magnification": m, **_precision(some)[0], **_rates(some, threshold)}
            for m, some in found.items()
        ],
        "sizes": [row for row in _precision(here, bands)[1:] if row["objects"]],
        "classes": [
            {"class": name, **_precision([_of_class(one, k) for one in here])[0]}
            for k, name in enumerate(names)
        ],
        "counts": [[len(one.labels), int((one.confidence >= threshold).sum())] for one in here],
        "lengths": [pair for one in here for pair in _lengths(one, threshold)],
        "mistakes": [_mistakes(one, threshold) for one in here],
    }


def _precision(some: Sequence[Answer], sizes: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Average precision for all sizes, in pixels, and for each of them."""
    truth = pad_boxes([one.boxes for one in some], [one.labels for one in some])
    boxes, labels = [one.found for one in some], [one.found_labels for one in some]
    found = pad_boxes(boxes, labels, 1, confidence=[one.confidence for one in some])
    return [as_json(entry) for entry in average_precision(truth, found, sizes, extent=1.0)]


def _of_class(one: Answer, label: int) -> Answer:
    mine, found = one.labels == label, one.found_labels == label
    return Answer(*(values[mine] for values in one[:2]), *(values[found] for values in one[2:]))


def _rates(some: Sequence[Answer], threshold: float) -> dict[str, Any]:
    """Precision and recall, objects counted beside those there are, and the median size error."""
    right = np.concatenate([one.match[one.confidence >= threshold] for one in some]) >= 0
    objects = sum(len(one.labels) for one in some)
    pairs = [pair for one in some for pair in _lengths(one, threshold)]
    errors = [abs(found / true - 1) for true, found in pairs]
    return {
        "precision": float(right.mean()) if len(right) else None,
        "recall": float(right.sum() / objects) if objects else None,
        "counted": len(right) / objects if objects else None,
        "size_error": float(np.median(errors)) if errors else None,
    }


def _lengths(one: Answer, threshold: float) -> list[list[float]]:
    """True and found longer side of each object that is found."""
    seen = (one.match >= 0) & (one.confidence >= threshold)
    sides = [longer_sides([boxes]) for boxes in (one.boxes[one.match[seen]], one.found[seen])]
    return np.stack(sides, axis=1).astype("float64").round(2).tolist()


def _mistakes(one: Answer, threshold: float) -> float:
    kept = one.confidence >= threshold
    missed = len(one.labels) - (one.match[kept] >= 0).sum()
    return float(one.confidence[kept & (one.match < 0)].sum() + missed)


def report(
    results: Mapping[str, Any], detector: Detector, images: Sequence[BoxedImage]
) -> Iterator[Section]:
    """Tables and pictures of the results on these images."""
    magnified, sizes = results["magnifications"], results["sizes"]
    rates = {"precision": "precision", "recall": "recall"}
    more = {"counted": "found / true", "size_error": "size error"}
    yield table("magnification", magnified, PRECISION | rates | more)
    yield (
        "Precision, recall, counts and the median error of sizes at confidence "
        f"{results['threshold']:.3g}, which is saved in the model."
    )
    yield table("size", sizes, PRECISION)
    yield "Size is the longer side of boxes in pixels, at magnification 1."
    if len(results["classes"]) > 1:
        yield table("class", results["classes"], PRECISION)
    text = "Average precision over magnification; on the right the upper part."
    draw = partial(draw_curves, "magnification", magnified, PRECISION | rates)
    yield Picture("average_precision.png", text, draw)
    text = "Average precision over size in pixels, at magnification 1."
    yield Picture("sizes.png", text, partial(draw_curves, "size", sizes, PRECISION))
    text = "Objects counted and their sizes, found over true, at magnification 1."
    yield Picture("counts_and_sizes.png", text, partial(_draw_counts, results))
    key = "green is right, red is false, yellow was missed."
    text = f"Validation pictures: {key}"
    yield Picture("detections.png", text, partial(_draw_answers, detector, images))
    order = np.argsort(-np.array(results["mistakes"]))
    worst = [images[k] for k in order if results["mistakes"][k] > 0][:SHOWN]
    if worst:
        text = f"The worst mistakes, in {', '.join(image.file.name for image in worst)}: {key}"
        yield Picture("mistakes.png", text, partial(_draw_answers, detector, worst))


def _draw_counts(results: Mapping[str, Any], path: Path) -> None:
    """Objects counted over those there are, and sizes found over true ones."""
    with figure_file(path, 1, 2, (7.2, 3.2)) as (_, axes):
        for axis, name in zip(axes[0], ("counts", "lengths"), strict=True):
            pairs = np.array(results[name], "float64").reshape(-1, 2)
            low, high = (pairs.min(), pairs.max()) if pairs.size else (0, 1)
            axis.plot([low, high], [low, high], color="0.6", linewidth=1)
            axis.plot(*pairs.T, ".", markersize=4)
            what = "objects in a picture" if name == "counts" else "longer side, pixels"
            axis.set(xlabel=f"{what}, true", ylabel="found")
            if name == "lengths":
                axis.set_xscale("log", base=2)
                axis.set_yscale("log", base=2)


def _draw_answers(detector: Detector, images: Sequence[BoxedImage], path: Path) -> None:
    """Pictures with what is right (green), false (red) and missed (yellow)."""
    pictures, names = [], detector.class_names
    for image in images[:SHOWN]:
        one = answer(detector, image)
        missed = np.setdiff1d(np.arange(len(one.labels)), one.match)
        kinds = [*one.found_labels, *one.labels[missed]]
        values = {
            "boxes": [*one.found, *one.boxes[missed]],
            "labels": [*np.where(one.match >= 0, _RIGHT, _FALSE), *[_MISSED] * len(missed)],
            "names": [names[int(k)] if len(names) > 1 else "" for k in kinds],
        }
        pictures.append(draw_boxes(read_boxed_image(image)[0], values))
    draw_page(pictures, path)
