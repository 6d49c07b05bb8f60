"""The detector on the package's own network."""

import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.datasets import digit_scenes, scene_set
from gdn_keras.detection import Detector
from gdn_keras.detection.targets import grid_points
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import gaussian_derivative_network
from tests.detection.networks import detected
from tests.harness import EAGER


def make_detector(boxes=False, scales=(1.0, 2**0.5), **options):
    keras.utils.set_random_seed(0)
    network = gaussian_derivative_network(
        input_shape=(None, None, 1),
        widths=(4, 6),
        scales=scales,
        readout="points",
        boxes=boxes,
        **options,
    )
    return Detector(
        network,
        num_classes=10,
        preprocessor=ArctanContrast(stretch=False),
        confidence_threshold=0.0,
    )


def test_points_are_channel_by_channel_and_row_by_row():
    layer = make_detector().network.get_layer("scale_channels")
    grids = layer.point_grids((40, 56))
    points = grid_points(grids, (40, 56))
    x, y, scale, _ = (ops.convert_to_numpy(values) for values in points)
    first = 0
    for grid in grids:
        part = slice(first, first + grid.rows * grid.columns)
        first = part.stop
        assert set(scale[part]) == {np.float32(grid.scale)}
        xx, yy = (values[part].reshape(grid.rows, grid.columns) for values in (x, y))
        for along, size in ((xx[0], 56), (yy[:, 0], 40)):
            np.testing.assert_allclose(along[len(along) // 2], size / 2)
            np.testing.assert_allclose(np.diff(along), grid.step, rtol=1e-5)
        assert np.ptp(xx, axis=0).max() == np.ptp(yy, axis=1).max() == 0
    assert first == len(x)


@pytest.mark.parametrize(("boxes", "residual"), [(False, True), (True, False)])
def test_training_lowers_the_loss(boxes, residual):
    detector = make_detector(boxes, residual=residual)
    assert detector.features == 10 + 4 * boxes
    scenes = scene_set(digit_scenes("train", shape=(48, 48), count=(1, 2)), 4)
    detector.compile(keras.optimizers.Adam(0.01), run_eagerly=EAGER and residual)
    history = detector.fit(scenes.images, scenes.bounding_boxes, epochs=6, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


def test_what_is_said_beyond_the_edges_has_no_loss():
    plain, bordered = make_detector(boxes=True), make_detector(boxes=True, border=12.0)
    images = np.zeros((1, 40, 50, 1), "uint8")
    boxes = np.array([[[-8, 10, 10, 30], [25, 15, 44, 36]]], "float32")  # the first at the edge
    targets = {"boxes": boxes, "labels": np.array([[3, 7]])}
    x, y, _, _ = map(ops.convert_to_numpy, grid_points(*bordered.point_grids(images)))
    inside = (np.abs(x - 25) < 25) & (np.abs(y - 20) < 20)
    said = np.random.default_rng(0).normal(size=(1, len(x), 14)).astype("float32")
    expected = float(plain.compute_loss(images, targets, said[:, inside]))
    assert float(bordered.compute_loss(images, targets, said)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other backends know sizes")
def test_graphs_for_images_of_unknown_size():
    import tensorflow as tf

    detector = make_detector()
    graph = tf.function(
        detector.detect, input_signature=[tf.TensorSpec([None, None, None, 1], "uint8")]
    )
    for shape in ((1, 24, 40, 1), (2, 48, 21, 1)):
        images = np.random.default_rng(0).integers(0, 256, shape, "uint8")
        expected = detector.detect(images)
        for name, value in graph(images).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-3)


def test_other_scales_share_the_weights(tmp_path):
    small, large = make_detector(), make_detector(scales=[2 ** (k / 2) for k in range(4)])
    large.network.set_weights(small.network.get_weights())
    large.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    images = np.random.default_rng(0).integers(0, 256, (1, 64, 48, 1), "uint8")
    one, two = (detected(model, images) for model in (large, loaded))
    np.testing.assert_allclose(one["boxes"], two["boxes"], atol=1e-4)


def test_boxes_are_for_points_only():
    with pytest.raises(ValueError, match="`boxes` are for readout='points'"):
        gaussian_derivative_network(boxes=True)
