"""Detectors find what is there, train as Keras does, and refuse what they cannot learn from."""

import json
import math
import warnings

import keras
import numpy as np
import pytest
from keras import ops

import gdn_keras
from gdn_keras.datasets import digit_scenes, scene_set
from gdn_keras.detection import Detector, average_precision, decoding
from gdn_keras.detection.detector import BOX_FORMATS
from gdn_keras.detection.input_checks import to_corners
from gdn_keras.detection.precision import TEST_SIZES, SizePrecision, match_objects
from gdn_keras.scale_space import PointGrid
from gdn_keras.training.digit_detection import (
    DigitRecipe,
    as_json,
    precision_table,
    summarize,
)
from tests.detection.networks import tiny_network

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"

# Channels of 1, 2 and 4 answer for 14 to 113 pixels.
BOXES = np.array([[[2, 4, 20, 22], [20, 10, 40, 30]], [[5, 5, 30, 25], [0, 0, 0, 0]]], "float32")
LABELS = np.array([[0, 1], [1, -1]], "int32")
SMALL = np.where(LABELS[..., None] >= 0, BOXES / 48, 0).astype("float32")


def make_detector(features=2, compiled=True, **options):
    keras.utils.set_random_seed(0)
    detector = Detector(tiny_network(features), num_classes=2, **options)
    if compiled:
        detector.compile(keras.optimizers.SGD(0.01))
    return detector


@pytest.fixture
def images():
    return np.random.default_rng(0).uniform(0, 1, (2, 32, 48, 1)).astype("float32")


# Objects between scale channels.


def test_two_channels_that_see_an_object_do_not_reject_each_other():
    grids = PointGrid(1.0, 3.0, 9, 9), PointGrid(2**0.5, 3.0 * 2**0.5, 8, 8)
    fine, coarse = np.full((9, 9), -8.0, "float32"), np.full((8, 8), -8.0, "float32")
    # Their points are half a step apart: each expects more of the other at its own place.
    fine[4, 4], fine[5, 5], coarse[4, 4] = 0.9, 0.8, 0.9
    logits = np.concatenate([fine.ravel(), coarse.ravel()])[None, :, None]
    found = decoding.decode_points(
        ops.convert_to_tensor(logits),
        grids,
        (40, 40),
        num_classes=1,
        extent=20.0,
        per_octave=2,
        confidence_threshold=0.3,
        iou_threshold=0.4,
        max_detections=5,
    )
    assert int(found["num_detections"][0]) == 1


def test_digits_between_channels_are_found_as_others_are():
    both = [
        scene_set(digit_scenes("validation", sizes=sizes, shape=(240, 320)), 16)
        for sizes in ((2**0.25, 2**1.25), (1, 2))
    ]
    detector, images = gdn_keras.from_preset("digit_detector"), [scenes.images for scenes in both]
    # In one call, which makes one graph.
    found = detector.predict(np.concatenate(images), batch_size=2, verbose=0)
    for k, scenes in enumerate(both):
        part = {name: values[16 * k : 16 * (k + 1)] for name, values in found.items()}
        objects, hits = (scenes.labels >= 0).sum(), len(match_objects(scenes, part).size)
        assert hits >= 0.98 * objects
        assert part["num_detections"].sum() - hits <= 0.02 * objects


def test_detectors_are_tested_between_their_channels():
    assert DigitRecipe().test_sizes == TEST_SIZES
    np.testing.assert_allclose(TEST_SIZES, [2 ** (k / 4) for k in range(-4, 13)])


# The loss, and what Keras makes of it.


def test_regularizers_are_part_of_the_loss(images):
    detector = make_detector()
    targets = {"boxes": BOXES, "labels": LABELS}
    plain = detector.evaluate(images, targets, verbose=0)
    dense = detector.network.layers[-1].dense
    dense.kernel.regularizer = keras.regularizers.L2(3.0)
    expected = 3.0 * float(ops.sum(ops.square(dense.kernel)))
    detector.compile(keras.optimizers.SGD(0.01))
    assert expected > 0.1
    assert detector.evaluate(images, targets, verbose=0) == pytest.approx(plain + expected)


@pytest.mark.skipif(not ON_TENSORFLOW, reason="replicas are those of tf.distribute")
@pytest.mark.parametrize("features", [2, 6])
def test_an_update_is_the_same_on_two_replicas(features, two_devices):
    """They hold 3 and 1 objects, then 2 and 1 images."""
    import tensorflow as tf

    images = np.random.default_rng(1).uniform(0, 1, (7, 32, 48, 1)).astype("float32")
    boxes = np.concatenate([BOXES] * 4)[:7]
    labels = np.array([[0, 1], [1, -1], [-1, -1], [1, -1], [0, -1], [1, -1], [0, 1]], "int32")
    batches = tf.data.Dataset.from_tensor_slices((images, {"boxes": boxes, "labels": labels}))
    results = []
    for strategy in (tf.distribute.get_strategy(), two_devices):
        with strategy.scope():
            detector = make_detector(features, compiled=False)
            detector.network.layers[-1].dense.kernel.regularizer = keras.regularizers.L2(0.1)
            detector.compile(keras.optimizers.SGD(0.05))
        history = detector.fit(batches.batch(4), epochs=2, verbose=0, shuffle=False).history
        results.append((history["loss"], *detector.get_weights()))
    for alone, together in zip(*results, strict=True):
        np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"loss": "mse"},
        {"metrics": ["accuracy"]},
        {"weighted_metrics": ["accuracy"]},
        {"loss_weights": [2.0]},
    ],
)
def test_losses_and_metrics_of_others_are_refused(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=name):
        make_detector().compile("adam", **arguments)


def test_files_keep_the_optimizer(tmp_path, images):
    detector = make_detector(compiled=False)
    detector.compile(keras.optimizers.Adam(0.123))
    detector.fit(images, {"boxes": BOXES, "labels": LABELS}, verbose=0)
    detector.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert float(loaded.optimizer.learning_rate) == pytest.approx(0.123)
    assert int(loaded.optimizer.iterations) == 1
    for one, two in zip(detector.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_allclose(one, two)


# Boxes and labels.


class Batches(keras.utils.PyDataset):
    def __init__(self, images, boxes, labels, **options):
        super().__init__(**options)
        self.batch = images, {"boxes": boxes, "labels": labels}

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.batch


def source(kind, images, boxes, labels):
    """What `fit` takes, once as `x` and `y`, else as a pipeline."""
    targets = {"boxes": boxes, "labels": labels}
    if kind == "arrays":
        return images, targets
    if kind == "tensors":
        return ops.convert_to_tensor(images), {
            k: ops.convert_to_tensor(v) for k, v in targets.items()
        }
    if kind == "generator":
        return ((images, targets) for _ in range(2)), None
    if kind == "PyDataset":
        return Batches(images, boxes, labels), None
    if kind == "threads":
        return Batches(images, boxes, labels, workers=2), None
    import tensorflow as tf

    return tf.data.Dataset.from_tensors((images, targets)).repeat(2), None


KINDS = ["arrays", "tensors", "tf.data", "generator", "PyDataset", "threads"]
WRONG = {
    "inverted": (BOXES[..., [2, 1, 0, 3]], LABELS),
    "empty": (BOXES[..., [0, 1, 0, 3]], LABELS),
    "not a number": (BOXES * np.float32(np.nan), LABELS),
    "outside": (BOXES + 100, LABELS),
    "no class": (BOXES, LABELS + 1),
    "below -1": (BOXES, np.where(LABELS < 0, -5, LABELS)),
    "NaN label": (BOXES, np.where(LABELS < 0, np.nan, LABELS)),
    "fraction": (BOXES, LABELS + 0.9),
    "relative": (SMALL, LABELS),
    "large": (BOXES * 6, LABELS),
}
FEW = ("relative", "no class")  # found at the end, and at once


def run(detector, use, x, y, images):
    """`x` and `y` in one of the places that take them."""
    steps = 2 if y is None else None
    if use == "fit":
        return detector.fit(x, y, steps_per_epoch=steps, verbose=0, shuffle=False)
    if use == "evaluate":
        return detector.evaluate(x, y, steps=steps, verbose=0)
    data = x if y is None else (x, y)
    right = {"boxes": BOXES, "labels": LABELS}
    return detector.fit(images, right, validation_data=data, validation_steps=steps, verbose=0)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        *((kind, wrong) for kind in ("arrays", "tf.data") for wrong in WRONG),
        # The others hand the same arrays to the same check.
        *((kind, wrong) for kind in KINDS[1:] if kind != "tf.data" for wrong in FEW),
    ],
)
def test_what_cannot_be_learned_is_refused(images, kind, wrong):
    x, y = source(kind, images, *WRONG[wrong])
    with pytest.raises(ValueError, match=r"Boxes|boxes|Labels") as error:
        run(make_detector(), "fit", x, y, images)
    assert type(error.value) is ValueError and "\n" not in str(error.value)


@pytest.mark.parametrize("use", ["evaluate", "validation"])
@pytest.mark.parametrize("kind", ["arrays", "tf.data", "generator", "PyDataset"])
@pytest.mark.parametrize("wrong", FEW)
def test_the_same_where_nothing_is_trained(images, use, kind, wrong):
    x, y = source(kind, images, *WRONG[wrong])
    with pytest.raises(ValueError, match=r"boxes|Labels") as error:
        run(make_detector(), use, x, y, images)
    assert type(error.value) is ValueError and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        *(("fit", kind) for kind in KINDS),
        *((use, kind) for use in ("evaluate", "validation") for kind in ("arrays", "tf.data")),
    ],
)
def test_a_share_of_boxes_that_no_channel_answers_for_is_said_once(images, use, kind):
    boxes = BOXES.copy()
    boxes[0, 0] = [2, 4, 7, 9]
    x, y = source(kind, images, boxes, LABELS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(make_detector(), use, x, y, images)
    said = [str(w.message) for w in caught if "no scale channel" in str(w.message)]
    assert len(said) == 1 and "33%" in said[0]


def test_one_channel_answers_for_all_sizes(images):
    detector = Detector(tiny_network(2, scales=(1.0,)), num_classes=2)
    detector.compile("sgd")
    detector.fit(images, {"boxes": SMALL * 8, "labels": LABELS}, verbose=0)


def test_a_long_pipeline_is_stopped_before_its_end(images):
    steps = []

    def batches():
        while True:
            steps.append(1)
            yield images, {"boxes": np.repeat(SMALL, 20, 1), "labels": np.repeat(LABELS, 20, 1)}

    with pytest.raises(ValueError, match="no scale channel"):
        make_detector().fit(batches(), steps_per_epoch=50, shuffle=False, verbose=0)
    assert len(steps) < 10


@pytest.mark.parametrize("kind", KINDS)
def test_floats_that_are_whole_are_labels_and_padding_may_hold_anything(images, kind):
    boxes = np.where(LABELS[..., None] >= 0, BOXES, np.nan).astype("float32")
    x, y = source(kind, images, boxes, LABELS.astype("float32"))
    history = run(make_detector(6), "fit", x, y, images).history["loss"]
    assert np.isfinite(history).all()


@pytest.mark.parametrize("kind", ["arrays", "generator", "tf.data"])
def test_labels_that_are_text_are_refused(images, kind):
    x, y = source(kind, images, BOXES, np.array([["cat", "dog"], ["dog", ""]]))
    with pytest.raises(ValueError, match="Labels") as error:
        make_detector().fit(x, y, shuffle=False, verbose=0)
    assert "\n" not in str(error.value)


def test_single_batches_are_checked(images):
    detector = make_detector()
    for step in (detector.train_on_batch, detector.test_on_batch):
        with pytest.raises(ValueError, match="Labels"):
            step(images, {"boxes": BOXES, "labels": LABELS + 1})
        assert math.isfinite(float(step(images, {"boxes": BOXES, "labels": LABELS})))


def test_training_reads_nothing_after_each_batch(images):
    """A callback that looks at every batch makes an accelerator wait."""
    detector = make_detector()
    callbacks = keras.callbacks.CallbackList([], add_history=True, model=detector)
    detector.fit(images, {"boxes": BOXES, "labels": LABELS}, callbacks=callbacks, verbose=0)
    quiet = keras.callbacks.Callback.on_train_batch_end
    assert all(type(one).on_train_batch_end is quiet for one in callbacks.callbacks)


@pytest.mark.parametrize("box_format", BOX_FORMATS)
def test_corners_are_those_of_keras(box_format):
    boxes = np.random.default_rng(0).uniform(0.1, 0.9, (2, 5, 4)).astype("float32")
    expected = keras.utils.bounding_boxes.convert_format(
        boxes, source=box_format, target="xyxy", height=30, width=50
    )
    np.testing.assert_allclose(to_corners(boxes, box_format, (30, 50)), expected, rtol=1e-5)


# Average precision.

TRUTH = {"boxes": np.array([[[0.0, 0, 20, 20]], [[5, 5, 25, 25]]]), "labels": np.array([[0], [0]])}
FOUND = {**TRUTH, "confidence": np.array([[0.9], [0.8]])}


def test_precision_without_objects_is_not_a_number():
    everything, one, four = average_precision(TRUTH, FOUND, [1, 4])
    assert everything.ap == pytest.approx(1) and one.ap == pytest.approx(1)
    assert four.objects == 0 and all(math.isnan(value) for value in four[2:])
    nothing = {**TRUTH, "labels": -np.ones((2, 1), int)}
    for found in (FOUND, {**nothing, "confidence": -np.ones((2, 1))}):
        assert all(math.isnan(entry.ap50) for entry in average_precision(nothing, found, [1]))
    assert math.isnan(
        average_precision(TRUTH, {**nothing, "confidence": np.zeros((2, 1))}, [4])[1].ap
    )


@pytest.mark.parametrize("change", [lambda v: v[:1], lambda v: np.concatenate([v, v])])
def test_predictions_for_other_images_are_refused(change):
    with pytest.raises(ValueError, match="`found`") as error:
        average_precision(TRUTH, {name: change(values) for name, values in FOUND.items()})
    assert "\n" not in str(error.value)


def test_reports_leave_out_precision_without_objects():
    rows = [SizePrecision(1.0, 2, 0.9, 0.8, 0.7, 0.01, 0.01)]
    rows.append(SizePrecision(2.0, 0, math.nan, math.nan, math.nan, None, None))
    rows = [as_json(row) for row in rows]
    json.dumps(rows, allow_nan=False)
    results = {"sizes": rows, "all": {**rows[0], "size": None}, "slope": None}
    results["settings"] = {"train_sizes": [1.0]}
    assert "| 2 | 0 |  |  |  |  |  |" in precision_table(results)
    assert "0.900" in summarize(results) and "nan" not in summarize(results)
    assert "no object" in summarize({**results, "sizes": rows[1:]})


# Images.


def test_lists_of_images_of_any_sizes():
    rng = np.random.default_rng(0)
    shapes = [(32, 48), (20, 24), (32, 48), (40, 16)]
    images = [rng.integers(0, 256, (*shape, 1), "uint8") for shape in shapes]
    detector = make_detector(confidence_threshold=0.0, max_detections=6)
    found = detector.predict(images, verbose=0)
    for k, image in enumerate(images):
        alone = detector.predict(image[None], verbose=0)
        for name in alone:
            np.testing.assert_allclose(found[name][k], alone[name][0], atol=1e-4)
    same = detector.predict([images[0][..., 0], images[2][..., 0]], verbose=0)
    np.testing.assert_allclose(same["boxes"], found["boxes"][[0, 2]], atol=1e-4)


@pytest.mark.parametrize(
    "wrong",
    ["picture.png", ["a.png", "b.png"], np.array(["a.png"]), np.zeros((1, 2, 9, 1)), [], None],
)
def test_what_is_no_image_is_refused(wrong):
    if wrong is None:
        if not ON_TENSORFLOW:
            pytest.skip("ragged tensors are TensorFlow's")
        import tensorflow as tf

        wrong = tf.ragged.stack([tf.zeros((9, 9, 1)), tf.zeros((8, 9, 1))])
    with pytest.raises(ValueError, match="mage") as error:
        make_detector().predict(wrong, verbose=0)
    assert type(error.value) is ValueError and "\n" not in str(error.value)


def test_lists_to_train_on_hold_images_of_one_size(images):
    detector, targets = make_detector(), {"boxes": BOXES, "labels": LABELS}
    detector.fit(list(images), targets, verbose=0)
    assert detector.evaluate(list(images), targets, verbose=0) == pytest.approx(
        detector.evaluate(images, targets, verbose=0)
    )
    for use in (detector.fit, detector.evaluate):
        with pytest.raises(ValueError, match="one size") as error:
            use([images[0], images[1][:20]], targets, verbose=0)
        assert "\n" not in str(error.value)


# Memory.


@pytest.mark.parametrize("threshold", [0.0, 0.99])
def test_suppression_is_for_what_passed(monkeypatch, threshold):
    """It takes the square of their number."""
    counts = []
    suppress = decoding.non_maximum_suppression

    def spy(boxes, *args):
        counts.append(boxes.shape[1])
        return suppress(boxes, *args)

    monkeypatch.setattr(decoding, "non_maximum_suppression", spy)
    detector = make_detector(confidence_threshold=threshold, max_detections=1500)
    # Nothing but a faint, even heat, of which every point is a maximum.
    detector.network.set_weights([np.zeros((1, 2)), np.full(2, -9.0)])
    found = detector.detect(ops.zeros((1, 32, 32, 1)))
    points = 16 * 16 + 8 * 8 + 4 * 4
    assert found["boxes"].shape == (1, 1500, 4)
    is_static = keras.backend.backend() == "jax"
    assert counts == [points if threshold == 0 or is_static else 0]


# Other models from a detector's network.


@pytest.mark.parametrize("readout", ["center", "anywhere", "average", "map"])
def test_boxes_do_not_become_class_scores(readout):
    network = gdn_keras.models.gaussian_derivative_network(
        (None, None, 1), (4,), 4, scales=(1, 2), readout="points", boxes=True
    )
    with pytest.raises(ValueError, match="boxes"):
        gdn_keras.models.retarget(network, input_shape=(16, 16, 1), readout=readout)
    assert gdn_keras.models.retarget(network, scales=(1, 2, 4)).output_shape[-1] == 8


def test_boxes_of_the_shipped_detector_do_not_become_class_scores():
    with pytest.raises(ValueError, match="boxes"):
        gdn_keras.models.retarget(gdn_keras.from_preset("digit_detector").network, readout="center")
