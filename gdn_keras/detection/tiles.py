"""Pictures of any size in bounded memory: overlapping tiles with the detections of the whole."""

import itertools
import math
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np

from gdn_keras.checks import check_images, check_integer
from gdn_keras.detection.detector import Detector, converted_boxes, layer_with_grids
from gdn_keras.detection.precision import overlaps

_REACH = 3.5  # standard deviations of all smoothing, around the points that a tile answers for
_CANDIDATES = 4  # detections of a tile before suppression, for each that may remain
_LONGEST_SHIFT = 256  # pixels between tiles among which the best is looked for
_ALIGNED = 1e-3  # steps of a grid that tiles may be off; detections change by less than this

_NAMES = ("boxes", "labels", "confidence", "size")

# For tiles of each size, a detector of its own: what it has traced is for that size.
_PARTS: WeakKeyDictionary[Detector, dict[Any, Detector]] = WeakKeyDictionary()
_MOST_PARTS = 8


def predict_tiled(detector: Detector, image: Any, tile: int = 1280) -> dict[str, np.ndarray]:
    """What `Detector.predict` finds in one image, whatever its size, in bounded memory.

    Tiles overlap by the reach of the network, and each answers for the objects whose center is in
    its middle. They lie on the grids of the whole image where a number of pixels fits all of them,
    as it does for scales of 3/4 times powers of two; detections are then the same, otherwise
    those of a picture that is shifted by less than a pixel.

    Example:

    >>> found = gdn_keras.detection.predict_tiled(detector, image)  # doctest: +SKIP

    Args:
        detector: Its `max_detections` holds for each tile on average.
        image: `[height, width, channels]`, as in `predict`.
        tile: Least height and width of a tile, in pixels.

    Returns:
        The dictionary of `predict` for a batch of this image, without padding.
    """
    check_integer("tile", tile)
    image = check_images(
        np.asarray(image)[None], detector.network.input_shape[-1], detector.takes_pixels
    )[0]
    prepare = detector.preprocessor or (lambda tiles: tiles)
    if hasattr(prepare, "fixed"):  # what depends on the whole image is not measured again
        prepare = prepare.fixed(image[None])
    steps, reach = _steps_and_reach(detector)
    tile = max(tile, 4 * reach)
    rows, columns = (list(_spans(length, tile, reach, steps)) for length in image.shape[:2])
    part = _part(detector, [end - begin for (begin, end), _ in (rows[0], columns[0])])
    found: list[dict[str, np.ndarray]] = []
    for ((top, bottom), own_rows), ((left, right), own_columns) in itertools.product(rows, columns):
        pixels = image[None, top:bottom, left:right]
        prepared = keras.ops.convert_to_numpy(prepare(pixels.astype("float32")))
        here = {name: x[0] for name, x in part.predict(prepared, verbose=0).items()}
        here["boxes"] = here["boxes"] + np.array([left, top, left, top], "float32")
        middle = (here["boxes"][:, :2] + here["boxes"][:, 2:]) / 2
        mine = here["labels"] >= 0
        for axis, (low, high) in enumerate((own_columns, own_rows)):
            mine &= (middle[:, axis] >= low) & (middle[:, axis] < high)
        found.append({name: here[name][mine] for name in _NAMES})
    together = {name: np.concatenate([part[name] for part in found]) for name in _NAMES}
    most = len(rows) * len(columns) * detector.max_detections
    return _without_overlaps(detector, together, image.shape, most)


def _part(detector: Detector, shape: list[int]) -> Detector:
    """The same network for tiles of a height and width, with all detections of each."""
    parts = _PARTS.setdefault(detector, {})
    key = (*shape, detector.confidence_threshold, detector.max_detections)
    if key not in parts:
        if len(parts) == _MOST_PARTS:
            del parts[next(iter(parts))]
        parts[key] = detector.with_thresholds(
            preprocessor=None,
            bounding_box_format="xyxy",
            iou_threshold=1.0,
            part_threshold=1.0,
            max_detections=_CANDIDATES * detector.max_detections,
        )
    return parts[key]


def _without_overlaps(
    detector: Detector, found: dict[str, np.ndarray], shape: tuple[int, ...], most: int
) -> dict[str, np.ndarray]:
    """The detections that no better one overlaps too much, best first, as a batch of one."""
    order = np.argsort(-found["confidence"], kind="stable")
    found = {name: values[order] for name, values in found.items()}
    boxes, remains = found["boxes"], np.ones(len(found["boxes"]), "bool")
    for k, box in enumerate(boxes):
        if remains[k]:
            shared, areas = overlaps(box, boxes[k:])
            too_much = shared > detector.iou_threshold * (areas[0] + areas - shared)
            too_much |= shared > (detector.part_threshold + 1e-5) * areas
            remains[k + 1 :] &= ~too_much[1:]
    found = {name: values[remains][:most][None] for name, values in found.items()}
    boxes = converted_boxes(found["boxes"], "xyxy", detector.bounding_box_format, shape)
    found["boxes"] = keras.ops.convert_to_numpy(boxes)
    return {**found, "num_detections": np.array([found["labels"].shape[1]], "int32")}


def _steps_and_reach(detector: Detector) -> tuple[list[float], int]:
    """The steps of all grids, and how far around a point the coarsest channel sees, in pixels."""
    channels = layer_with_grids(detector.network)
    sigmas = [layer.sigma for layer in channels.shared_layers if hasattr(layer, "sigma")]
    steps = [scale * sigma / channels.density for scale in channels.scales for sigma in {*sigmas}]
    deviation = channels.scales[-1] * math.sqrt(sum(sigma**2 for sigma in sigmas))
    return steps, math.ceil(max(_REACH * deviation, detector.size_range[1] / 2))


def _spans(
    length: int, tile: int, reach: int, steps: list[float]
) -> Iterator[tuple[tuple[int, int], tuple[float, float]]]:
    """Where tiles begin and end along one axis, and the stretch that each answers for."""
    shift = _shift(steps)
    # Grids have a point at the center of their image. All tiles are of one size.
    size = tile + (length - tile) % (2 * shift)
    if size >= length:
        yield (0, length), (-math.inf, math.inf)
        return
    stride = max(1, (size - 2 * reach) // shift) * shift
    begins = [*range(0, length - size, stride), length - size]
    ends = [(begin + before + size) / 2 for before, begin in itertools.pairwise(begins)]
    borders = [-math.inf, *ends, math.inf]
    for k, begin in enumerate(begins):
        yield (begin, begin + size), (borders[k], borders[k + 1])


def _shift(steps: list[float]) -> int:
    """The least number of pixels that is a whole number of steps of all grids, or nearly."""
    pixels = np.arange(1, _LONGEST_SHIFT + 1)
    places = pixels[:, None] / np.unique(steps)
    errors = np.abs(places - np.round(places)).max(axis=1)
    fits = np.flatnonzero(errors < _ALIGNED)
    return int(pixels[fits[0] if len(fits) else np.argmin(errors)])
