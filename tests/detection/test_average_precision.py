"""Average precision of detections whose value is known."""

import numpy as np
import pytest

from gdn_keras.detection import average_precision

pytest.importorskip("pycocotools")

TRUTH = {
    "boxes": np.array([[[0, 0, 20, 20], [40, 0, 80, 40]], [[10, 10, 30, 30], [0, 0, 0, 0]]]),
    "labels": np.array([[0, 1], [0, -1]]),
}


def found(shift=0.0, confidence=((0.9, 0.8), (0.7, -1))):
    boxes = np.where(TRUTH["labels"][..., None] >= 0, TRUTH["boxes"] + shift, -1)
    return {"boxes": boxes, "labels": TRUTH["labels"], "confidence": np.array(confidence)}


def test_perfect_detections():
    for entry, objects in zip(average_precision(TRUTH, found(), [1, 2]), (3, 2, 1), strict=True):
        assert entry.objects == objects
        assert entry[2:] == pytest.approx((1, 1, 1))


def test_boxes_that_are_off_count_at_low_overlap_only():
    everything, *_ = average_precision(TRUTH, found(shift=3.0))
    # 3 of 20 pixels off along both axes is an overlap of 0.566, 3 of 40 one of 0.748.
    assert everything.ap50 == pytest.approx(1) and everything.ap75 == 0
    assert everything.ap == pytest.approx((2 + 5) / 2 / 10, abs=1e-6)


def test_sizes_are_apart():
    detections = found()
    detections["labels"] = np.array([[0, -1], [0, -1]])
    everything, small, large = average_precision(TRUTH, detections, [1, 2])
    assert (small.ap50, large.ap50) == pytest.approx((1, 0))
    assert everything.ap50 == pytest.approx(0.5)


def test_nothing_found():
    nothing = {
        "boxes": -np.ones((2, 1, 4)),
        "labels": -np.ones((2, 1)),
        "confidence": -np.ones((2, 1)),
    }
    assert [entry.ap50 for entry in average_precision(TRUTH, nothing, [1, 2])] == [0, 0, 0]


def test_sizes_must_increase():
    with pytest.raises(ValueError, match="`sizes` must be in increasing order"):
        average_precision(TRUTH, found(), [2, 1])
