"""Targets against loops that spell out their definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from gdn_keras.detection.decoding import channel_spacing
from gdn_keras.detection.targets import (
    box_loss,
    box_targets,
    class_heat,
    grid_points,
    heat_loss,
    object_distance,
    object_heat,
)
from gdn_keras.scale_space import PointGrid

EXTENT = 20.0
GRIDS = (
    PointGrid(0.7, 2.1, 9, 11),
    PointGrid(0.7 * 2**0.5, 2.1 * 2**0.5, 7, 9),
    PointGrid(1.4, 4.2, 5, 5),
)
SHAPE = (24, 31)


def points_by_loops(grids, shape):
    points = []
    for grid in grids:
        for row in range(grid.rows):
            for column in range(grid.columns):
                x = shape[1] / 2 + grid.step * (column - (grid.columns - 1) / 2)
                y = shape[0] / 2 + grid.step * (row - (grid.rows - 1) / 2)
                points.append((x, y, grid.scale, grid.step))
    return points


def heat_of(points, boxes, labels, per_octave=2, any_size=False):
    distance = object_distance(points, boxes, EXTENT, per_octave, any_size)
    return object_heat(distance, ops.convert_to_tensor(labels))


def heat_by_loops(boxes, labels, classes, ratio):
    points = points_by_loops(GRIDS, SHAPE)
    heat = np.zeros((len(boxes), len(points), classes))
    for image, (image_boxes, image_labels) in enumerate(zip(boxes, labels, strict=True)):
        for (x1, y1, x2, y2), label in zip(image_boxes, image_labels, strict=True):
            for k, (x, y, scale, step) in enumerate(points):
                if label < 0:
                    continue
                size = max(x2 - x1, y2 - y1) / EXTENT
                dx, dy = (x - (x1 + x2) / 2) / step, (y - (y1 + y2) / 2) / step
                du = math.log(scale / size) / math.log(ratio)
                value = math.exp(-(dx**2 + dy**2 + du**2) / (2 * 0.5**2))
                heat[image, k, label] = max(heat[image, k, label], value)
    return heat


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), per_octave=st.sampled_from([1, 2]))
def test_heat_is_that_of_the_nearest_object_of_each_class(seed, per_octave):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-5, 20, (2, 4, 2))
    boxes = np.concatenate([low, low + rng.uniform(5, 30, (2, 4, 2))], axis=2).astype("float32")
    labels = rng.integers(-1, 3, (2, 4))
    points = grid_points(GRIDS, SHAPE)
    heat, counted = heat_of(points, boxes, labels, per_octave)
    targets = ops.convert_to_numpy(class_heat(heat, ops.convert_to_tensor(labels), 3))
    expected = heat_by_loops(boxes, labels, 3, 2 ** (1 / per_octave))
    np.testing.assert_allclose(targets, expected, rtol=2e-3, atol=1e-6)
    assert (ops.convert_to_numpy(counted) == 1).all()


def test_points_near_an_ignored_box_have_no_loss_and_no_heat():
    boxes = np.array([[[2, 3, 22, 23], [0, 0, 0, 0]]], "float32")
    points = grid_points(GRIDS, SHAPE)
    heat, counted = (np.asarray(v) for v in heat_of(points, boxes, np.array([[-2, -1]])))
    near, _ = (np.asarray(v) for v in heat_of(points, boxes, np.array([[0, -1]])))
    assert (heat == 0).all()
    assert counted[0, near[0, :, 0].argmax()] == 0 and counted[0, near[0, :, 0] < 1e-6].all()
    logits, targets = np.full((1, counted.shape[1], 1), 3.0, "float32"), 0 * near[..., :1]
    with_all, without = (float(heat_loss(targets, logits, c)) for c in (0 * counted + 1, counted))
    assert without == pytest.approx(with_all * counted.mean())


def test_points_are_in_pixels_about_the_center_of_the_image():
    points = np.stack([ops.convert_to_numpy(v) for v in grid_points(GRIDS, SHAPE)], axis=1)
    np.testing.assert_allclose(points, points_by_loops(GRIDS, SHAPE), rtol=1e-5)


def test_box_targets_lead_from_each_point_to_its_nearest_object():
    boxes = np.array([[[2, 3, 12, 9], [10, 8, 28, 22]]], "float32")
    labels = ops.convert_to_tensor(np.array([[0, 0]]))
    points = grid_points(GRIDS, SHAPE)
    heat, _ = heat_of(points, boxes, labels)
    targets = ops.convert_to_numpy(box_targets(points, heat, boxes, EXTENT))[0]
    nearest = ops.convert_to_numpy(heat)[0].argmax(axis=1)
    for k, (x, y, scale, step) in enumerate(points_by_loops(GRIDS, SHAPE)):
        dx, dy, width, height = targets[k]
        center = np.array([x + step * dx, y + step * dy])
        half = EXTENT * scale * np.exp([width, height]) / 2
        found = [*(center - half), *(center + half)]
        np.testing.assert_allclose(found, boxes[0, nearest[k]], atol=1e-3)


def test_one_channel_answers_for_all_sizes():
    grids = (PointGrid(1.0, 4.0, 7, 7),)
    points = grid_points(grids, (28, 28))
    boxes = np.array([[[12, 12, 16, 16]], [[4, 4, 24, 24]]], "float32")
    labels = ops.zeros((2, 1), "int32")
    heat = ops.convert_to_numpy(heat_of(points, boxes, labels, any_size=True)[0])
    np.testing.assert_allclose(heat[0], heat[1])
    assert heat.max() == 1


def test_spacing_of_channels_is_in_octaves():
    for ratio in (2**0.25, 2**0.5, 2.0):
        assert channel_spacing([ratio**k for k in range(4)]) == pytest.approx(np.log2(ratio))
    assert channel_spacing([0.5, 0.71, 1, 1.41, 2]) == pytest.approx(0.5, abs=0.01)


def test_channels_must_be_in_geometric_progression():
    with pytest.raises(ValueError, match="`scales` of a detector must be in geometric progression"):
        channel_spacing([1, 2, 3])


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31))
def test_losses_sum_up_points(seed):
    rng = np.random.default_rng(seed)
    targets, logits = rng.random((2, 5, 3)), rng.normal(size=(2, 5, 3)) * 5
    p = 1 / (1 + np.exp(-logits))
    entropy = -(targets * np.log(p) + (1 - targets) * np.log(1 - p))
    least = -(targets * np.log(targets) + (1 - targets) * np.log(1 - targets))
    focus = np.maximum((targets - p) ** 2, targets)
    expected = (entropy * focus - least * targets).sum()
    everywhere = np.ones((2, 5))
    arguments = (ops.convert_to_tensor(v, "float32") for v in (targets, logits, everywhere))
    found = heat_loss(*arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    heat, boxes = rng.random((2, 5)), rng.normal(size=(2, 2, 5, 4))
    found = box_loss(*(ops.convert_to_tensor(v, "float32") for v in (*boxes, heat)))
    errors = np.abs(boxes[0] - boxes[1]).mean(axis=2)
    np.testing.assert_allclose(found, (errors * heat).sum(), rtol=1e-4)


def test_perfect_predictions_cost_nothing_and_huge_logits_are_finite():
    targets = np.array([[[0.0, 0.25, 1.0]]], "float32")
    logits = np.array([[[-40, np.log(1 / 3), 40]]], "float32")
    everywhere = np.ones((1, 1), "float32")
    np.testing.assert_allclose(heat_loss(targets, logits, everywhere), 0, atol=1e-6)
    huge = ops.convert_to_tensor([[[1e4, -1e4, -1e4]]])
    assert np.isfinite(heat_loss(targets, huge, everywhere))
