"""Decoding against plain loops, and back to the boxes that targets were made from."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from gdn_keras.detection.decoding import decode_points, non_maximum_suppression
from gdn_keras.detection.targets import (
    box_targets,
    class_heat,
    grid_points,
    object_distance,
    object_heat,
)
from gdn_keras.scale_space import PointGrid
from tests.detection import oracle

SHAPE = (120, 160)
SCALES = [2 ** (k / 2) for k in range(-2, 5)]
DEFAULTS = {
    "num_classes": 3,
    "extent": 20.0,
    "per_octave": 2,
    "confidence_threshold": 0.3,
    "iou_threshold": 0.4,
    "max_detections": 12,
}


def grids_for(shape, scales=SCALES):
    grids = []
    for scale in scales:
        step = 3.05 * scale
        halves = [max(0, int(np.ceil(n / 2 / step - 1 - 1e-6))) for n in shape]
        grids.append(PointGrid(scale, step, *(2 * half + 1 for half in halves)))
    return tuple(grids)


def perfect_logits(grids, boxes, labels, shape=SHAPE, per_octave=2):
    points = grid_points(grids, shape)
    labels = ops.convert_to_tensor(labels)
    heat, _ = object_heat(object_distance(points, boxes, 20.0, per_octave), labels)
    targets = ops.clip(class_heat(heat, labels, 3), 1e-7, 1 - 1e-6)
    return ops.log(targets) - ops.log1p(-targets), box_targets(points, heat, boxes, 20.0)


def squares(centers, sizes):
    half = 10 * np.asarray(sizes)[..., None]
    return np.concatenate([centers - half, centers + half], axis=-1).astype("float32")


@pytest.mark.parametrize(
    "ratio, per_octave", [(2**0.25, 2), (2**0.5, 2), (2.0, 2), (2**0.5, 1), (2.0, 1)]
)
@settings(max_examples=10, deadline=None)
@given(
    x=st.floats(0.2, 0.8),
    y=st.floats(0.2, 0.8),
    size=st.floats(0.5, 4),
    label=st.integers(0, 2),
)
def test_targets_decode_to_the_box_that_they_were_made_from(ratio, per_octave, x, y, size, label):
    center = np.array([x * SHAPE[1], y * SHAPE[0]])
    boxes = squares(center, size)[None, None]
    grids = grids_for(SHAPE, 0.35 * ratio ** np.arange(1 + np.ceil(np.log(16) / np.log(ratio))))
    logits, _ = perfect_logits(grids, boxes, np.array([[label]]), per_octave=per_octave)
    found = decode_points(logits, grids, SHAPE, **{**DEFAULTS, "per_octave": per_octave})
    assert int(found["num_detections"][0]) == 1
    expected = np.clip(boxes[0, 0], 0, [*SHAPE[::-1], *SHAPE[::-1]])
    np.testing.assert_allclose(found["boxes"][0, 0], expected, atol=0.02 * 20 * size)
    np.testing.assert_allclose(found["size"][0, 0], 20 * size, rtol=0.02)
    # Channels an octave apart are up to a step and a half from the object's own place.
    far = ratio == 2 and per_octave == 2
    left = np.prod(expected[2:] - expected[:2]) / (20 * size) ** 2
    np.testing.assert_allclose(found["confidence"][0, 0], left**0.5, atol=0.05 if far else 0.03)
    assert int(found["labels"][0, 0]) == label


def test_what_lies_beyond_the_edges_is_left_out_and_what_they_cut_is_cut():
    step, length = 4.0, 160
    grids = (PointGrid(1.0, step, 51, 51),)  # 20 pixels beyond each edge
    boxes = np.array([
        [-8, 40, 8, 60], [90, -9.9, 110, 9], [140, 150, 160, 169],  # cut, with centers at edges
        [-24, 90, -4, 110], [155, 20, 175, 40],  # beyond
    ], "float32")[None]  # fmt: skip
    labels = np.zeros((1, 5), int)
    logits, regressed = perfect_logits(grids, boxes, labels, (length, length))
    predictions = ops.concatenate([logits, regressed], axis=-1)
    found = decode_points(predictions, grids, (length, length), **DEFAULTS)
    found = {name: keras.ops.convert_to_numpy(values)[0] for name, values in found.items()}
    order = np.argsort(found["boxes"][:3, 0])
    assert found["num_detections"] == 3
    expected = np.clip(boxes[0, :3], 0, length)
    np.testing.assert_allclose(found["boxes"][order], expected, atol=0.02)
    # Half of each is left, and confidence falls with its square root.
    np.testing.assert_allclose(found["confidence"][:3], 0.5**0.5, atol=0.03)


def test_boxes_that_are_not_square_are_read_at_the_points():
    boxes = np.array([[[20, 30, 70, 50], [100, 20, 115, 100], [0, 0, 0, 0]]], "float32")
    labels = np.array([[2, 0, -1]])
    grids = grids_for(SHAPE)
    logits, regressed = perfect_logits(grids, boxes, labels)
    features = ops.concatenate([logits, regressed], axis=-1)
    found = decode_points(features, grids, SHAPE, **DEFAULTS)
    assert int(found["num_detections"][0]) == 2
    order = np.argsort(ops.convert_to_numpy(found["boxes"])[0, :2, 0])
    np.testing.assert_allclose(
        ops.convert_to_numpy(found["boxes"])[0, order], boxes[0, :2], atol=0.01
    )
    np.testing.assert_array_equal(ops.convert_to_numpy(found["labels"])[0, order], [2, 0])


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**31),
    shape=st.sampled_from([(40, 60), (33, 21), (8, 50)]),
    boxes=st.booleans(),
)
def test_decoding_is_that_of_the_loops(seed, shape, boxes):
    grids = grids_for(shape, SCALES[2:6])
    points = sum(grid.rows * grid.columns for grid in grids)
    rng = np.random.default_rng(seed)
    logits = rng.normal(-2, 2, (2, points, 3)).astype("float32")
    seen = rng.normal(0, 0.2, (2, points, 4)).astype("float32") if boxes else None
    features = np.concatenate([logits, seen], axis=-1) if boxes else logits
    arguments = {**DEFAULTS, "max_detections": 60}
    found = decode_points(ops.convert_to_tensor(features), grids, shape, **arguments)
    found = {name: ops.convert_to_numpy(value) for name, value in found.items()}
    for k in range(2):
        own = seen[k] if boxes else None
        expected = oracle.decode(logits[k], grids, shape, 20.0, 0.3, 0.4, 60, own)
        count = found["num_detections"][k]
        assert count == len(expected)
        for name, column in (("confidence", 0), ("labels", 1), ("size", 2), ("boxes", 3)):
            values = [row[column] for row in expected]
            np.testing.assert_allclose(found[name][k, :count], values, rtol=1e-3, atol=1e-3)
            assert (found[name][k, count:] == -1).all()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**31),
    threshold=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    part=st.sampled_from([0.2, 0.7, 1.0]),
)
def test_suppression_is_greedy(seed, threshold, part):
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 30, (2, 40, 2))
    boxes = np.concatenate([low, low + rng.uniform(5, 25, (2, 40, 2))], axis=2).astype("float32")
    valid = rng.random((2, 40)) < 0.8
    kept = non_maximum_suppression(*map(ops.convert_to_tensor, (boxes, valid)), threshold, part)
    for k in range(2):
        expected = oracle.suppress(boxes[k], valid[k], threshold, part)
        assert np.flatnonzero(ops.convert_to_numpy(kept)[k]).tolist() == expected


def test_fewer_points_than_detections_and_images_without_objects():
    grids = grids_for((8, 8), SCALES[2:])
    points = sum(grid.rows * grid.columns for grid in grids)
    found = decode_points(ops.full((3, points, 3), -9.0), grids, (8, 8), **DEFAULTS)
    assert ops.convert_to_numpy(found["num_detections"]).tolist() == [0, 0, 0]
    assert (ops.convert_to_numpy(found["boxes"]) == -1).all()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other backends know sizes")
def test_a_graph_need_not_know_the_size_of_the_images():
    import tensorflow as tf

    boxes = squares(np.array([[40.0, 50.0], [100.0, 60.0]]), [1.0, 2.2])[None]
    known = grids_for(SHAPE)
    logits, _ = perfect_logits(known, boxes, np.array([[1, 2]]))
    expected = decode_points(logits, known, SHAPE, **DEFAULTS)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 3]),
            tf.TensorSpec([len(known), 2], "int32"),
            tf.TensorSpec([2], "int32"),
        ]
    )
    def decode(logits, counts, shape):
        grids = [
            grid._replace(rows=counts[k, 0], columns=counts[k, 1]) for k, grid in enumerate(known)
        ]
        return decode_points(logits, grids, (shape[0], shape[1]), **DEFAULTS)

    found = decode(logits, [[grid.rows, grid.columns] for grid in known], SHAPE)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
