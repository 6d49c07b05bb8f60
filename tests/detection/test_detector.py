"""The detector as users meet it: fit, predict, files, formats, mistakes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from gdn_keras.detection import Detector
from gdn_keras.layers import ArctanContrast
from tests.detection.networks import detected, tiny_network
from tests.harness import EAGER

BOXES = np.array([[[2, 4, 20, 22], [20, 10, 40, 30]], [[5, 5, 30, 25], [0, 0, 0, 0]]], "float32")
LABELS = np.array([[0, 1], [1, -1]], "int32")


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (2, 32, 48, 1), "uint8")


def make_detector(features=2, **options):
    keras.utils.set_random_seed(0)
    options = {
        "preprocessor": ArctanContrast(stretch=False),
        "confidence_threshold": 0.0,
        **options,
    }
    return Detector(tiny_network(features), num_classes=2, **options)


def targets(boxes=BOXES):
    return {"boxes": boxes, "labels": LABELS}


@pytest.mark.parametrize("features", [2, 6])
def test_training_lowers_the_loss(images, features):
    detector = make_detector(features)
    detector.compile(keras.optimizers.Adam(0.05), run_eagerly=EAGER)
    history = detector.fit(images, targets(), epochs=8, batch_size=2, verbose=0).history["loss"]
    assert np.isfinite(history).all() and history[-1] < history[0]
    assert np.isfinite(detector.evaluate(images, targets(), verbose=0))


def test_predictions_are_padded_to_the_same_number(images):
    found = make_detector(max_detections=7).predict(images, verbose=0)
    assert {name: value.shape for name, value in found.items()} == {
        "boxes": (2, 7, 4),
        "labels": (2, 7),
        "confidence": (2, 7),
        "size": (2, 7),
        "num_detections": (2,),
    }
    for k, count in enumerate(found["num_detections"]):
        assert count > 0
        assert (np.diff(found["confidence"][k, :count]) <= 0).all()
        assert (found["labels"][k, :count] >= 0).all() and (found["labels"][k, count:] == -1).all()


def test_images_of_any_size_and_type(images):
    detector = make_detector()
    for shape in ((16, 16), (64, 40)):
        found = detected(detector, np.zeros((1, *shape, 1), "uint8"))
        assert (found["boxes"] <= [shape[1], shape[0]] * 2).all()
    one, two = (detected(detector, x) for x in (images, images.astype("float32")))
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_files_keep_everything(tmp_path, images):
    detector = make_detector(6, max_detections=5, bounding_box_format="rel_yxyx")
    detector.compile("adam", run_eagerly=EAGER)
    detector.fit(images, targets(BOXES / 48), verbose=0)
    detector.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert keras.saving.get_registered_name(type(loaded)) == "gdn_keras>Detector"
    assert (loaded.max_detections, loaded.bounding_box_format) == (5, "rel_yxyx")
    one, two = (detected(model, images) for model in (detector, loaded))
    for name in one:
        np.testing.assert_allclose(one[name], two[name], atol=1e-6)
    loaded.fit(images, targets(BOXES / 48), verbose=0)


@pytest.mark.parametrize("box_format", ["center_yxhw", "rel_xywh"])
def test_boxes_in_any_format_mean_the_same(images, box_format):
    boxes = keras.utils.bounding_boxes.convert_format(
        BOXES, source="xyxy", target=box_format, height=32, width=48
    )
    expected, other = make_detector(), make_detector(bounding_box_format=box_format)
    features = expected(images)
    np.testing.assert_allclose(
        other.compute_loss(images, targets(ops.convert_to_numpy(boxes)), features),
        expected.compute_loss(images, targets(), features),
        rtol=1e-5,
    )
    one, two = detected(expected, images), detected(other, images)
    is_found = one["labels"] >= 0
    back = keras.utils.bounding_boxes.convert_format(
        two["boxes"][is_found][None], source=box_format, target="xyxy", height=32, width=48
    )
    np.testing.assert_allclose(back[0], one["boxes"][is_found], atol=1e-3)
    assert (two["boxes"][~is_found] == -1).all()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's tensors")
def test_ragged_boxes_are_as_good_as_padded_ones(images):
    import tensorflow as tf

    ragged = {
        "boxes": tf.ragged.constant([BOXES[0].tolist(), BOXES[1, :1].tolist()], ragged_rank=1),
        "labels": tf.ragged.constant([[0, 1], [1]], dtype="int32"),
    }
    detector = make_detector()
    features = detector(images)
    np.testing.assert_allclose(
        detector.compute_loss(images, ragged, features),
        detector.compute_loss(images, targets(), features),
        rtol=1e-6,
    )
    detector.compile("adam")
    batches = tf.data.Dataset.from_tensor_slices((images, ragged))
    batches = batches.ragged_batch(2).map(lambda x, y: (tf.ensure_shape(x, images.shape), y))
    detector.fit(batches, shuffle=False, verbose=0)


def test_images_without_objects_cost_little_and_are_finite(images):
    detector = make_detector()
    nothing = {"boxes": np.zeros((2, 1, 4), "float32"), "labels": -np.ones((2, 1), "int32")}
    features = ops.full((2, 24 * 16 + 12 * 8 + 6 * 4, 2), -10.0)
    loss = ops.convert_to_numpy(detector.compute_loss(images, nothing, features))
    assert 0 <= loss < 1e-6


@pytest.mark.parametrize(("features", "box_format"), [(2, "rel_xywh"), (6, "xyxy")])
def test_batches_without_any_object_are_trained_on(images, features, box_format):
    detector = make_detector(features, bounding_box_format=box_format)
    detector.compile("adam")
    none = {"boxes": np.zeros((2, 0, 4), "float32"), "labels": np.zeros((2, 0), "int32")}
    padded = {"boxes": np.zeros((2, 1, 4), "float32"), "labels": -np.ones((2, 1), "int32")}
    outputs = detector(images)
    np.testing.assert_allclose(
        detector.compute_loss(images, none, outputs),
        detector.compute_loss(images, padded, outputs),
        rtol=1e-6,
    )
    assert np.isfinite(detector.fit(images, none, verbose=0).history["loss"]).all()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's tensors")
@pytest.mark.parametrize("features", [2, 6])
def test_ragged_batches_without_any_object_are_trained_on(images, features):
    import tensorflow as tf

    ragged = {
        "boxes": tf.RaggedTensor.from_row_lengths(np.zeros((0, 4), "float32"), [0, 0]),
        "labels": tf.RaggedTensor.from_row_lengths(np.zeros(0, "int32"), [0, 0]),
    }
    detector = make_detector(features)
    detector.compile("adam")
    batches = tf.data.Dataset.from_tensor_slices((images, ragged)).ragged_batch(2)
    batches = batches.map(lambda x, y: (tf.ensure_shape(x, images.shape), y))
    assert np.isfinite(detector.fit(batches, shuffle=False, verbose=0).history["loss"]).all()


def test_changed_thresholds_share_the_network(images):
    detector = make_detector()
    strict = detector.with_thresholds(confidence_threshold=0.999)
    assert strict.network is detector.network and strict.extent == detector.extent
    found = strict.predict(images, verbose=0)
    assert (found["confidence"][found["labels"] >= 0] >= 0.999).all()


def test_soft_threshold_is_that_of_mnist_large_scale():
    grey = np.array([[0, 128, 255]], "uint8")
    expected = 2 / np.pi * np.arctan(0.02 * (grey.astype("float64") - 128))
    np.testing.assert_allclose(ArctanContrast(stretch=False)(grey), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "`num_classes` must be an integer"),
        ({"num_classes": 3}, "`network` must give 3 features"),
        ({"network": keras.Sequential([keras.Input((4,))])}, "a method `point_grids`"),
        ({"network": "resnet"}, "a method `point_grids`"),
        ({"network": tiny_network(2, scales=(1.0, 2.0, 3.0))}, "in geometric progression"),
        ({"extent": -1}, "`extent` must be a positive"),
        ({"bounding_box_format": "polar"}, "`bounding_box_format` must be one of"),
        ({"confidence_threshold": 2}, "`confidence_threshold` must lie in"),
        ({"iou_threshold": "high"}, "`iou_threshold` must lie in"),
        ({"max_detections": 0}, "`max_detections` must be an integer"),
        ({"class_names": ["cat"]}, "`class_names` must be 2 strings"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Detector(**{"network": tiny_network(2), "num_classes": 2, **arguments})


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (LABELS, 'a dictionary with "boxes" and "labels"'),
        ({"boxes": BOXES}, 'a dictionary with "boxes" and "labels"'),
        ({"boxes": BOXES[..., :3], "labels": LABELS}, "Boxes must have shape"),
        ({"boxes": BOXES, "labels": LABELS[0]}, "Boxes must have shape"),
        ({"boxes": BOXES, "labels": LABELS[:, :1]}, r"Received: shapes \(2, 2, 4\) and \(2, 1\)"),
        ({"boxes": BOXES, "labels": LABELS[:1]}, r"Received: shapes \(2, 2, 4\) and \(1, 2\)"),
        ({"boxes": BOXES * [1, 1, -1, 1], "labels": LABELS}, "Boxes must have a positive width"),
        ({"boxes": BOXES * np.nan, "labels": LABELS}, "Boxes must have a positive width"),
        ({"boxes": BOXES + 1000, "labels": LABELS}, "Boxes must lie in their image, 48 pixels"),
        ({"boxes": BOXES, "labels": 5 * LABELS}, "below the number of classes, 2"),
    ],
)
def test_wrong_targets_are_named(images, y, message):
    detector = make_detector()
    detector.compile("adam")
    with pytest.raises(ValueError, match=message) as error:
        detector.fit(images, y, verbose=0)
    assert "\n" not in str(error.value)


class Batches(keras.utils.PyDataset):
    """A pipeline, whose labels nobody sees before they are trained on."""

    def __init__(self, images, labels):
        super().__init__()
        self.images, self.labels = images, labels

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.images, {"boxes": BOXES, "labels": self.labels}


@pytest.mark.parametrize("callbacks", [None, "one", "list"])
def test_labels_of_pipelines_that_are_no_class_stop_the_training(images, callbacks):
    detector = make_detector()
    detector.compile("adam")
    ended = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ended.append(1))
    given = {None: None, "one": callback, "list": [callback]}[callbacks]
    detector.fit(Batches(images, LABELS), callbacks=given, verbose=0)
    assert len(ended) == (callbacks is not None)
    with pytest.raises(ValueError, match="below the number of classes, 2"):
        detector.fit(Batches(images, LABELS + 1), callbacks=given, verbose=0)


def test_wrong_images_are_named(images):
    with pytest.raises(ValueError, match=r"Images must have shape \[batch, height"):
        make_detector()(images[..., 0])


@pytest.mark.parametrize("shape", [(1, 32, 48, 3), (1, 1, 32, 48)])
def test_images_of_other_channels_are_named(shape):
    with pytest.raises(ValueError, match=r"with 1 as the last. Received: shape"):
        make_detector().predict(np.zeros(shape, "uint8"), verbose=0)


@pytest.mark.parametrize("kind", ["arrays", "generator", "pipeline"])
def test_targets_of_one_image_are_not_those_of_all(images, kind):
    detector = make_detector()
    detector.compile("sgd", run_eagerly=EAGER)
    y = {name: value[:1] for name, value in targets().items()}
    with pytest.raises(ValueError, match=r"`y` must be of 2 images\. Received: y=1"):
        if kind == "arrays":
            detector.train_on_batch(images, y)
        elif kind == "generator":
            detector.fit(((images, y) for _ in range(1)), shuffle=False, verbose=0)
        else:
            detector.evaluate(tf.data.Dataset.from_tensors((images, y)), verbose=0)
