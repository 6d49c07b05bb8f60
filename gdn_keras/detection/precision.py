"""How well a detector finds objects of each size, and how exactly: by pycocotools."""

import contextlib
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.checks import require
from gdn_keras.datasets.scenes import SceneSet
from gdn_keras.detection.detector import Detector

# Low enough to see all of the curve of precision over recall.
_CONFIDENCE = 0.05
_BATCH = 2

# A quarter of an octave apart, so that half of them lie between channels a factor of sqrt(2) apart.
TEST_SIZES = tuple(2.0 ** (k / 4) for k in range(-4, 13))


class AveragePrecision(NamedTuple):
    """Average precision, mean over the classes that occur; NaN without objects.

    `size` is that of the `objects`, or the pair that was asked for, `None` for all. `ap50` and
    `ap75` are at an intersection over union of 0.5 and 0.75, `ap` is the mean over 0.5, 0.55, …,
    0.95, as in COCO.
    """

    size: float | tuple[float, float] | None
    objects: int
    ap50: float
    ap75: float
    ap: float


def average_precision(
    truth: Mapping[str, np.ndarray],
    found: Mapping[str, np.ndarray],
    sizes: Sequence[float | tuple[float, float]] = (),
    extent: float = 20.0,
) -> list[AveragePrecision]:
    """Average precision of detections, for all sizes together and then for each of `sizes`.

    Objects of other sizes are ignored for a size, and so are detections that match none and are
    themselves of another size, as COCO does for small, medium and large.

    Args:
        truth: "boxes" `[images, n, 4]` (x1, y1, x2, y2) and "labels" `[images, n]`, padded by
            labels of -1; "sizes" `[images, n]` where these are not the longer sides of the boxes.
        found: From a detector's `predict`: "boxes", "labels" and "confidence", padded likewise.
        sizes: Sizes of objects, in increasing order, each taken to reach halfway (in the log) to
            the next; or pairs of the least and the greatest size.
        extent: Longer side of an object of size 1.

    Raises:
        ImportError: Without pycocotools.
        ValueError: If `truth` and `found` differ in their number of images.
    """
    COCO, COCOeval = import_pycocotools()
    images, answers = (len(np.asarray(values["labels"])) for values in (truth, found))
    if images != answers:
        raise ValueError(
            f"`found` must be of the {images} images that `truth` is of. Received: {answers} images"
        )
    ranges = [(0.0, np.inf), *_ranges(sizes)]
    areas = [[(extent * low) ** 2, min((extent * high) ** 2, 1e10)] for low, high in ranges]
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools reports by printing
        reference = COCO()
        reference.dataset = _reference(truth, extent)
        reference.createIndex()
        precision = np.zeros((10, 1, 1, len(areas), 1))  # [overlap, recall, class, range, 1]
        if rows := _rows(found):
            results = reference.loadRes(rows)
            for row in results.anns.values():  # which hold width times height
                row["area"] = max(row["bbox"][2:]) ** 2
            evaluation = COCOeval(reference, results, "bbox")
            evaluation.params.areaRng = areas
            evaluation.params.areaRngLbl = [str(k) for k in range(len(areas))]
            evaluation.params.maxDets = [np.asarray(found["boxes"]).shape[1]]
            evaluation.evaluate()
            evaluation.accumulate()
            precision = evaluation.eval["precision"]
    sides = np.array([row["area"] for row in reference.dataset["annotations"]])
    entries = []
    for k, (size, (low, high)) in enumerate(zip((None, *sizes), areas, strict=True)):
        objects = int(((sides >= low) & (sides <= high)).sum())
        # Means over recalls and over the classes that occur, which are not -1.
        by_overlap = [p[p > -1].mean() if objects else math.nan for p in precision[:, :, :, k, 0]]
        ap50, ap75, ap = map(float, (by_overlap[0], by_overlap[5], np.mean(by_overlap)))
        entries.append(AveragePrecision(size, objects, ap50, ap75, ap))
    return entries


def import_pycocotools() -> tuple[Any, Any]:
    """The classes `COCO` and `COCOeval`."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise ImportError(
            "Average precision needs pycocotools: pip install gdn_keras[detection]"
        ) from error
    return COCO, COCOeval


def _ranges(sizes: Sequence[Any]) -> list[tuple[float, float]]:
    """From halfway to the size before to halfway to the next; as far beyond the ends."""
    if all(isinstance(size, tuple) for size in sizes):
        return list(sizes)
    if len(sizes) < 2:
        return [(size / 2**0.25, size * 2**0.25) for size in sizes]
    increase = all(a < b for a, b in itertools.pairwise(sizes))
    require(increase, "sizes", "be in increasing order", list(sizes))
    logs = np.log(np.asarray(sizes, "float64"))
    inner = (logs[:-1] + logs[1:]) / 2
    edges = np.exp([2 * logs[0] - inner[0], *inner, 2 * logs[-1] - inner[-1]])
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _reference(truth: Mapping[str, np.ndarray], extent: float) -> dict[str, Any]:
    """The dataset of a `COCO` object, with squares of the longer sides as areas."""
    rows, labels = _rows(truth), np.asarray(truth["labels"])
    if "sizes" in truth:
        sizes = np.asarray(truth["sizes"], "float64")[labels >= 0]
        for row, size in zip(rows, sizes.tolist(), strict=True):
            row["area"] = (extent * size) ** 2
    return {
        "info": {},
        "images": [{"id": image} for image in range(len(labels))],
        "categories": [{"id": int(label)} for label in np.unique(labels[labels >= 0])],
        "annotations": [{**row, "id": k, "iscrowd": 0} for k, row in enumerate(rows, start=1)],
    }


def _rows(values: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """All that is not padding as COCO has it, with a score where there is a confidence."""
    labels, boxes = np.asarray(values["labels"]), np.asarray(values["boxes"], "float64")
    scores = np.asarray(values.get("confidence", labels), "float64")
    rows = []
    for image, k in np.argwhere(labels >= 0).tolist():
        x1, y1, x2, y2 = boxes[image, k].tolist()
        row = {"image_id": image, "category_id": int(labels[image, k]), "score": scores[image, k]}
        width, height = x2 - x1, y2 - y1
        rows.append({**row, "bbox": [x1, y1, width, height], "area": max(width, height) ** 2})
    return rows


class SizePrecision(NamedTuple):
    """What a detector makes of objects of one size; `None` for all sizes together.

    Precision is as in `AveragePrecision`. `size_error` is the median of |size found / size - 1|,
    and `center_error` the median distance between centers, in longer sides of the box; `None` if
    nothing was found.
    """

    size: float | None
    objects: int
    ap50: float
    ap75: float
    ap: float
    size_error: float | None
    center_error: float | None


class Matches(NamedTuple):
    """Objects that were found, `[n]` each: true and found size, distance in longer sides."""

    size: np.ndarray
    found: np.ndarray
    distance: np.ndarray


def evaluate_detector(
    detector: Detector, scenes: SceneSet, sizes: Sequence[float] = TEST_SIZES
) -> tuple[list[SizePrecision], float | None]:
    """Average precision and errors of localization, for all sizes together and for each.

    Args:
        detector: With boxes in any format.
        scenes: From `gdn_keras.datasets.scene_set`.
        sizes: Of the objects in the scenes, in increasing order.

    Returns:
        The results, all sizes first, and the slope of the log of the size found over that of the
        true one, which is 1 where scale is selected in proportion to size; `None` if objects of
        fewer than two sizes were found.
    """
    lenient = detector.with_thresholds(confidence_threshold=_CONFIDENCE, bounding_box_format="xyxy")
    found = lenient.predict(scenes.images, batch_size=_BATCH, verbose=0)
    found["size"] = found["size"] / detector.extent
    matches = match_objects(scenes, found)
    results = []
    entries = average_precision(scenes.bounding_boxes, found, sizes, detector.extent)
    for size, entry in zip((None, *sizes), entries, strict=True):
        mine = np.isclose(matches.size, matches.size if size is None else size, rtol=1e-3)
        errors = np.abs(matches.found / matches.size - 1)[mine], matches.distance[mine]
        medians = [float(np.median(values)) if mine.any() else None for values in errors]
        results.append(SizePrecision(size, *entry[1:], *medians))
    return results, size_slope(matches)


def match_objects(scenes: SceneSet, found: Mapping[str, np.ndarray]) -> Matches:
    """For each object the best detection of its class that overlaps it by half, if any."""
    rows = []
    for image, k in np.argwhere(scenes.labels >= 0):
        box = scenes.boxes[image, k]
        candidates = np.flatnonzero(found["labels"][image] == scenes.labels[image, k])
        shared, areas = overlaps(box, found["boxes"][image, candidates])
        area = np.prod(box[2:] - box[:2])
        candidates = candidates[shared / (area + areas - shared) >= 0.5]
        if len(candidates):
            best = candidates[0]  # of the highest confidence
            other = found["boxes"][image, best]
            offset = (box[:2] + box[2:] - other[:2] - other[2:]) / 2
            distance = np.hypot(*offset) / np.max(box[2:] - box[:2])
            rows.append((scenes.sizes[image, k], found["size"][image, best], distance))
    return Matches(*np.array(rows, "float64").reshape(-1, 3).T)


def size_slope(matches: Matches) -> float | None:
    """Slope of the line through the logs of sizes found over true sizes, if there are several."""
    if len(np.unique(matches.size)) < 2:
        return None
    return float(np.polyfit(np.log(matches.size), np.log(matches.found), 1)[0])


def overlaps(box: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The area that a box (x1, y1, x2, y2) shares with each of `boxes`, and the areas of these."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    return np.prod(np.maximum(high - low, 0), axis=1), np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
