"""Non-maximum suppression, in any backend."""

from typing import Any

from keras import ops


def pairwise_overlaps(boxes: Any) -> tuple[Any, Any]:
    """How boxes (x1, y1, x2, y2) overlap, `[batch, n, n]` each.

    Returns:
        Intersection over union of all pairs, and the share of the second box in the first.
    """
    low = ops.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = ops.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = ops.prod(ops.maximum(high - low, 0), axis=-1)
    area = ops.prod(ops.maximum(boxes[..., 2:] - boxes[..., :2], 0), axis=-1)
    union = area[:, :, None] + area[:, None] - shared
    return shared / ops.maximum(union, 1e-9), shared / ops.maximum(area[:, None], 1e-9)


def non_maximum_suppression(
    boxes: Any, valid: Any, iou_threshold: float, part_threshold: float = 1.0
) -> Any:
    """Which boxes remain when each, best first, removes those that overlap it too much.

    The greedy result is the only solution of: a box remains if no better box that remains overlaps
    it. Applied over and over, that rule settles the boxes in their order, at least one more each
    time and all of them after a few.

    Args:
        boxes: `[batch, n, 4]`, (x1, y1, x2, y2), best first.
        valid: Booleans `[batch, n]`; the others are neither kept nor remove any.
        iou_threshold: Greatest intersection over union of two boxes that both remain.
        part_threshold: Greatest share of a box in a better one that both remain.

    Returns:
        Booleans `[batch, n]`.
    """
    order = ops.arange(ops.shape(boxes)[1])
    better = order[:, None] < order
    union, share = pairwise_overlaps(boxes)
    # A box inside of another is all in it, up to rounding.
    too_much = ops.logical_or(union > iou_threshold, share > part_threshold + 1e-5)
    removes = ops.logical_and(too_much, better)

    def settle(kept: Any, _: Any) -> tuple[Any, Any]:
        removed = ops.any(ops.logical_and(kept[:, :, None], removes), axis=1)
        following = ops.logical_and(valid, ops.logical_not(removed))
        return following, ops.any(ops.not_equal(following, kept))

    kept, _ = ops.while_loop(lambda _, changed: changed, settle, settle(valid, None))
    return kept
