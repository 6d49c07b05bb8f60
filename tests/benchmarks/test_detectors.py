"""The peers of the detector: their points are where they say, at every level."""

import dataclasses

import keras
import numpy as np
import pytest

from gdn_keras.detection import Detector
from gdn_keras.detection.settings import DetectorSettings

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the peers are TensorFlow's"
)

SETTINGS = dataclasses.replace(DetectorSettings(), widths=(4, 6, 8))


@pytest.mark.parametrize(("name", "features", "levels"), [("plain", 14, 1), ("pyramid", 14, 3)])
def test_points_are_as_many_as_the_grids_have(name, features, levels, tmp_path):
    from detectors import networks

    network = getattr(networks, f"{name}_network")(SETTINGS, (0.5, 1.0, 2.0))
    images = np.random.default_rng(0).random((2, 44, 60, 1), "float32")
    grids = network.layers[-1].point_grids((44, 60))
    assert len(grids) == levels
    points = sum(grid.rows * grid.columns for grid in grids)
    assert network(images).shape == (2, points, features)
    detector = Detector(network, num_classes=10, confidence_threshold=0.0)
    found = detector.predict(images, verbose=0)
    detector.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(images, verbose=0)["boxes"], found["boxes"], atol=1e-3
    )


@pytest.mark.parametrize("scale", [0.7071, 1.0, 1.4142, 2.8284])
def test_levels_keep_the_centre_of_the_image(scale):
    from detectors.networks import STRIDE, PyramidPoints

    layer = PyramidPoints((4,), 10, (scale,))
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
