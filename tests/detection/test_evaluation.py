"""Errors of localisation of detections that are known."""

import numpy as np
import pytest

from gdn_keras.datasets import digit_scenes, scene_set
from gdn_keras.datasets.scenes import SceneSet
from gdn_keras.detection import Detector, evaluate_detector
from gdn_keras.detection.precision import match_objects, size_slope
from tests.detection.networks import detected, tiny_network

SIZES = [0.5, 1.0, 2.0]


@pytest.fixture(scope="module")
def scenes():
    return scene_set(digit_scenes("test", sizes=SIZES, shape=(100, 140), count=(3, 6)), 10)


def shifted(scenes, growth=1.0, shift=0.0):
    """Detections of all objects, grown about their centres and shifted by a share of the side."""
    sides = scenes.boxes[..., 2:] - scenes.boxes[..., :2]
    longer = sides.max(axis=-1, keepdims=True)
    middle = (scenes.boxes[..., :2] + scenes.boxes[..., 2:]) / 2 + shift * longer * [1, 0]
    boxes = np.concatenate([middle - growth * sides / 2, middle + growth * sides / 2], axis=-1)
    size = np.where(scenes.labels >= 0, growth * scenes.sizes, -1)
    confidence = np.where(scenes.labels >= 0, 0.9, -1)
    return {"boxes": boxes, "labels": scenes.labels, "size": size, "confidence": confidence}


def test_errors_are_those_that_were_made(scenes):
    matches = match_objects(scenes, shifted(scenes, growth=1.05, shift=0.04))
    # A thin digit that is shifted by a share of its height may lie beside itself.
    assert len(matches.size) >= 0.9 * (scenes.labels >= 0).sum()
    np.testing.assert_allclose(matches.found / matches.size, 1.05, rtol=1e-5)
    np.testing.assert_allclose(matches.distance, 0.04, rtol=1e-3)
    assert size_slope(matches) == pytest.approx(1)


def test_what_overlaps_too_little_is_no_match(scenes):
    assert len(match_objects(scenes, shifted(scenes, shift=0.6)).size) == 0


def test_results_are_listed_by_size(scenes):
    pytest.importorskip("pycocotools")

    class Perfect:
        extent = 20.0

        def with_thresholds(self, confidence_threshold, bounding_box_format):
            return self

        def predict(self, images, **options):
            found = shifted(scenes)
            return {**found, "size": self.extent * found["size"]}

    (everything, *by_size), slope = evaluate_detector(Perfect(), scenes, SIZES)
    assert everything.objects == sum(result.objects for result in by_size)
    assert [result.size for result in by_size] == SIZES
    assert all(result.ap == pytest.approx(1) for result in by_size)
    assert slope == pytest.approx(1)


def test_the_format_of_boxes_makes_no_difference():
    pytest.importorskip("pycocotools")
    detector = Detector(tiny_network(1, scales=(1.0,)), num_classes=1, max_detections=5)
    detector.network.set_weights([np.ones((1, 1)), np.zeros(1)])
    images = np.random.default_rng(0).integers(0, 9, (2, 32, 48, 1), "uint8")
    found = detected(detector, images)
    # What it finds is the truth: in the right format, all of it is found again.
    sizes = found["size"] / detector.extent
    scenes = SceneSet(images, found["boxes"], found["labels"], sizes)
    expected = evaluate_detector(detector, scenes, [1.0])
    assert expected[0][0].ap > 0.5
    other = detector.with_thresholds(bounding_box_format="rel_yxyx")
    assert evaluate_detector(other, scenes, [1.0]) == expected
