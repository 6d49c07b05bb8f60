"""How well a detector finds objects of each size, and how exactly."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gdn_keras.datasets.scenes import SceneSet
from gdn_keras.detection.average_precision import average_precision
from gdn_keras.detection.detector import Detector

# Low enough to see all of the curve of precision over recall.
_CONFIDENCE = 0.05
_BATCH = 2

# A quarter of an octave apart, so that half of them lie between channels a factor of sqrt(2) apart.
TEST_SIZES = tuple(2.0 ** (k / 4) for k in range(-4, 13))


class SizePrecision(NamedTuple):
    """What a detector makes of objects of one size.

    Attributes:
        size: The size; `None` for all sizes together.
        objects: How many there are.
        ap50, ap75, ap: Average precision, see `AveragePrecision`; NaN without objects.
        size_error: Median of |size found / size - 1|; `None` if nothing was found.
        center_error: Median distance between centres, in longer sides of the box.
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
    """Average precision and errors of localisation, for all sizes together and for each.

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
        mine = np.ones(len(matches.size), "bool")
        if size is not None:
            mine = np.isclose(matches.size, size, rtol=1e-3)
        errors = np.abs(matches.found / matches.size - 1)[mine], matches.distance[mine]
        results.append(SizePrecision(size, *entry[1:], *(_median(values) for values in errors)))
    return results, size_slope(matches)


def match_objects(scenes: SceneSet, found: Mapping[str, np.ndarray]) -> Matches:
    """For each object the best detection of its class that overlaps it by half, if any."""
    rows = []
    for image, k in np.argwhere(scenes.labels >= 0):
        box = scenes.boxes[image, k]
        candidates = np.flatnonzero(found["labels"][image] == scenes.labels[image, k])
        overlaps = _overlaps(box, found["boxes"][image, candidates])
        candidates = candidates[overlaps >= 0.5]
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


def _overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + np.prod(box[2:] - box[:2])
    return shared / (areas - shared)


def _median(values: np.ndarray) -> float | None:
    return float(np.median(values)) if len(values) else None
