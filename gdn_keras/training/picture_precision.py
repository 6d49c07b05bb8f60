"""How well a detector does on annotated pictures, at several magnifications of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.analysis.plots import figure_file
from gdn_keras.datasets import BoxedImage, read_boxed_image
from gdn_keras.datasets.boxes import longer_sides, pad_boxes
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes
from gdn_keras.detection.precision import average_precision
from gdn_keras.detection.tiles import predict_tiled
from gdn_keras.training.detection_task import as_json, draw_curves, page_of
from gdn_keras.training.run_folder import Picture, Section, markdown_table, shown

MAGNIFICATIONS = tuple(2.0 ** (k / 2) for k in range(-2, 3))
_CONFIDENCE = 0.05  # low enough to see all of the curve of precision over recall
_OVERLAP = 0.5
_LARGE = 4_000_000  # pixels of a picture that is cut into tiles
_SHOWN = 4  # pictures of a kind
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
    channels = detector.network.input_shape[-1]
    pixels, boxes = read_boxed_image(image, magnification, channels)
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
    low = np.maximum(boxes[None, :, :2], found[:, None, :2])
    high = np.minimum(boxes[None, :, 2:], found[:, None, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    areas, found_areas = (np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (boxes, found))
    overlaps = shared / (areas[None] + found_areas[:, None] - shared)
    overlaps = np.where(found_labels[:, None] == labels[None], overlaps, 0)
    match = np.full(len(found), -1)
    for k in range(len(found) if len(boxes) else 0):
        best = int(np.argmax(overlaps[k]))
        if overlaps[k, best] >= _OVERLAP:
            match[k] = best
            overlaps[:, best] = 0
    return match


def best_threshold(found: Mapping[float, Sequence[Answer]], default: float) -> float:
    """The confidence with the highest F1 over all magnifications together."""
    every = [one for some in found.values() for one in some]
    confidence = np.concatenate([one.confidence for one in every])
    order = np.argsort(-confidence)
    confidence = confidence[order]
    right = np.cumsum(np.concatenate([one.match >= 0 for one in every])[order])
    objects = sum(len(one.labels) for one in every)
    if not right.size or not right[-1]:
        return default
    f1 = 2 * right / (np.arange(1, len(right) + 1) + objects)
    best = int(np.argmax(f1))
    following = confidence[best + 1] if best + 1 < len(confidence) else confidence[best]
    return float(np.round((confidence[best] + following) / 2, 3))


def measure(
    found: Mapping[float, Sequence[Answer]], names: Sequence[str], threshold: float
) -> dict[str, Any]:
    """The results as JSON has them.

    "magnifications", "sizes" and "classes" are rows with average precision. At magnification 1,
    "counts" are objects and detections in each picture, "lengths" true and found longer sides, and
    "mistakes", for each picture, the sum of confidence of what is false and missed.
    """
    here = found[1.0]
    return {
        "threshold": threshold,
        "magnifications": [
            {"magnification": m, **_precision(some)[0], **_rates(some, threshold)}
            for m, some in found.items()
        ],
        "sizes": [row for row in _precision(here, _bands(here))[1:] if row["objects"]],
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


def _bands(some: Sequence[Answer]) -> list[float]:
    """Sizes a factor of sqrt(2) apart, from the smallest object to the largest."""
    sides = longer_sides([one.boxes for one in some])
    first, last = np.rint(2 * np.log2([sides.min(), sides.max()])).astype(int)
    return [2.0 ** (k / 2) for k in range(first, last + 1)]


def _of_class(one: Answer, label: int) -> Answer:
    mine, found = one.labels == label, one.found_labels == label
    return Answer(*(values[mine] for values in one[:2]), *(values[found] for values in one[2:]))


def _rates(some: Sequence[Answer], threshold: float) -> dict[str, Any]:
    """Precision and recall, objects counted beside those there are, and the median size error."""
    kept = np.concatenate([one.match[one.confidence >= threshold] for one in some])
    objects = sum(len(one.labels) for one in some)
    lengths = np.array([pair for one in some for pair in _lengths(one, threshold)]).reshape(-1, 2)
    errors = np.abs(lengths[:, 1] / lengths[:, 0] - 1)
    return {
        "precision": float((kept >= 0).mean()) if len(kept) else None,
        "recall": float((kept >= 0).sum() / objects) if objects else None,
        "counted": len(kept) / objects if objects else None,
        "size_error": float(np.median(errors)) if len(errors) else None,
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
) -> list[Section]:
    """Tables and pictures of the results on these images."""
    order = np.argsort(-np.array(results["mistakes"]))
    worst = [images[k] for k in order if results["mistakes"][k] > 0][:_SHOWN]
    names = ", ".join(image.file.name for image in worst)
    curves = "Average precision over magnification, and over size at magnification 1."
    counts = "Objects counted and their sizes, found over true, at magnification 1."
    key = "green is right, red is false, yellow was missed."
    pages = [("detections.png", f"Validation pictures: {key}", images)]
    if worst:
        pages.append(("mistakes.png", f"The worst mistakes, in {names}: {key}", worst))
    return [
        _tables(results),
        Picture("average_precision.png", curves, partial(_draw_precision, results)),
        Picture("counts_and_sizes.png", counts, partial(_draw_counts, results)),
        *(Picture(file, text, partial(_draw_answers, detector, i)) for file, text, i in pages),
    ]


def _tables(results: Mapping[str, Any]) -> str:
    """Average precision at each magnification, of each size and of each class, in Markdown."""
    precision = {"ap50": "AP at IoU 0.5", "ap75": "at 0.75", "ap": "COCO mean"}
    rates = {"precision": "precision", "recall": "recall"}
    rates |= {"counted": "found / true", "size_error": "size error"}
    parts = [
        _table("magnification", results["magnifications"], precision | rates),
        "Precision, recall, counts and the median error of sizes at confidence "
        f"{results['threshold']:.3g}, which is saved in the model.",
        _table("size", results["sizes"], precision),
        "Size is the longer side of boxes in pixels, at magnification 1.",
    ]
    if len(results["classes"]) > 1:
        parts.append(_table("class", results["classes"], precision))
    return "\n\n".join(parts)


def _table(key: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    lines = []
    for row in rows:
        cells = ("" if row[column] is None else f"{row[column]:.3f}" for column in columns)
        lines.append((shown(row[key]), row["objects"], *cells))
    return markdown_table((key, "objects", *columns.values()), lines)


def _draw_precision(results: Mapping[str, Any], path: Path) -> None:
    """Average precision over magnification and over size."""
    panels = (
        ("magnification", results["magnifications"], ("ap50", "ap75", "precision", "recall")),
        ("size", results["sizes"], ("ap50", "ap75")),
    )
    with figure_file(path, 1, 2, (7.2, 3.0)) as (_, axes):
        for axis, (key, rows, names) in zip(axes[0], panels, strict=True):
            draw_curves(axis, rows, key, {name: name for name in names})
            axis.set_xlabel("size, pixels" if key == "size" else key)


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
    for image in images[:_SHOWN]:
        one = answer(detector, image)
        missed = np.setdiff1d(np.arange(len(one.labels)), one.match)
        kinds = np.concatenate([one.found_labels, one.labels[missed]]).astype(int)
        values = {
            "boxes": np.concatenate([one.found, one.boxes[missed]]),
            "labels": [*np.where(one.match >= 0, _RIGHT, _FALSE), *[_MISSED] * len(missed)],
            "names": [names[k] if len(names) > 1 else "" for k in kinds],
        }
        pictures.append(draw_boxes(read_boxed_image(image)[0], values))
    page_of(pictures).save(path)
