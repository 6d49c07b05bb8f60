"""The peers of the detector: their points are where they say, at every level."""

import dataclasses
import functools
import json
from pathlib import Path

import keras
import numpy as np
import pytest

from gdn_keras.detection import Detector
from gdn_keras.training.detection_task import DetectorRecipe

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the peers are TensorFlow's"
)

ROOT = Path(__file__).parents[2]
SETTINGS = dataclasses.replace(DetectorRecipe(), widths=(4, 6, 8))


@pytest.mark.parametrize(("name", "features", "levels"), [("plain", 14, 1), ("pyramid", 14, 3)])
def test_points_are_as_many_as_the_grids_have(name, features, levels):
    from detectors import networks

    network = getattr(networks, f"{name}_network")(SETTINGS, (0.5, 1.0, 2.0))
    images = np.random.default_rng(0).random((2, 44, 60, 1), "float32")
    grids = network.layers[-1].point_grids((44, 60))
    assert len(grids) == levels
    points = sum(grid.rows * grid.columns for grid in grids)
    assert network(images).shape == (2, points, features)


def test_detectors_of_others_are_kept_in_files(tmp_path):
    from detectors import networks

    network = networks.pyramid_network(SETTINGS, (1.0, 2.0))
    images = np.random.default_rng(0).random((2, 44, 60, 1), "float32")
    detector = Detector(network, num_classes=10, confidence_threshold=0.0)
    found = detector.predict(images, verbose=0)
    detector.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(images, verbose=0)["boxes"], found["boxes"], atol=1e-3
    )


@pytest.mark.parametrize("scale", [0.7071, 1.0, 1.4142, 2.8284])
def test_levels_keep_the_center_of_the_image(scale):
    from detectors.networks import STRIDE, PyramidPoints

    layer = PyramidPoints((4,), 10, 10, (scale,))
    height, width = 64, 82
    y, x = np.mgrid[:height, :width] + 0.5
    level = layer._level(np.stack([x, y], axis=-1)[None].astype("float32"), scale)[0].numpy()
    [grid] = layer.point_grids((height, width))
    assert level.shape[:2] == (STRIDE * grid.rows, STRIDE * grid.columns)
    blocks = level.reshape(grid.rows, STRIDE, grid.columns, STRIDE, 2).mean(axis=(1, 3))
    expected_x = width / 2 + grid.step * (np.arange(grid.columns) - (grid.columns - 1) / 2)
    expected_y = height / 2 + grid.step * (np.arange(grid.rows) - (grid.rows - 1) / 2)
    inner = slice(2, -2)
    np.testing.assert_allclose(blocks[3, inner, 0], expected_x[inner], atol=0.02)
    np.testing.assert_allclose(blocks[inner, 3, 1], expected_y[inner], atol=0.02)


def test_mirror_images_of_cells_keep_their_boxes():
    from detectors.blood_cells import mirrored

    images = np.random.default_rng(0).integers(0, 256, (2, 12, 20, 3), "uint8")
    boxes = np.array([[[2, 3, 7, 9]], [[0, 0, 20, 12]]], "float32")
    turned, truth = mirrored(images, {"boxes": boxes, "labels": np.array([[1], [2]])})
    assert turned.shape == (8, 12, 20, 3) and truth["labels"].ravel().tolist() == [1, 2] * 4
    for image, [box] in zip(turned[::2], truth["boxes"][::2], strict=True):
        x1, y1, x2, y2 = box.astype(int)
        assert (
            np.sort(image[y1:y2, x1:x2].ravel()).tolist()
            == np.sort(images[0, 3:9, 2:7].ravel()).tolist()
        )


@pytest.mark.slow
def test_a_detector_is_evaluated_on_any_number_of_scenes(tmp_path, capsys, monkeypatch):
    from detectors import evaluate

    small = {"test_shape": (120, 160), "test_sizes": (1.0, 2.0), "test_count": (4, 6)}
    settings = functools.partial(DetectorRecipe, **small)
    monkeypatch.setattr(evaluate, "DetectorRecipe", settings)
    model = ROOT / "saved_models" / "digit_detector" / "model.keras"
    evaluate.main([str(model), "--scenes", "3", "--output", str(tmp_path / "results.json")])
    results = json.loads((tmp_path / "results.json").read_text())
    assert sum(row["objects"] for row in results["sizes"]) == results["all"]["objects"] > 8
    assert results["all"]["ap50"] > 0.9 and 0.97 < results["slope"] < 1.03
    assert len(capsys.readouterr().out.splitlines()) == 2
    classifier = ROOT / "saved_models" / "default_size2" / "model.keras"
    for wrong, message in ((tmp_path / "none.keras", "none.keras"), (classifier, "a detector")):
        with pytest.raises(SystemExit, match="2"):
            evaluate.main([str(wrong), "--output", str(tmp_path / "results.json")])
        assert message in capsys.readouterr().err
