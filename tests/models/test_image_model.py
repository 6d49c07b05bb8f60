import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from gdn_keras.detection import Detector
from gdn_keras.models import Classifier, channel_model, gaussian_derivative_network
from tests.harness import EAGER

SIDE = 12
COUNT = {Classifier: {}, Detector: {"num_classes": 2}}
WRONG = {
    "none": ((0, SIDE, SIDE, 3), "at least one image"),
    "no batch": ((SIDE, SIDE, 3), "with 3 as the last"),
    "grey": ((2, SIDE, SIDE, 1), "with 3 as the last"),
    "channels first": ((2, 3, SIDE, SIDE), "with 3 as the last"),
}


def network(channels=3, **kwargs):
    return gaussian_derivative_network(
        (None, None, channels), (4,), num_classes=2, scales=(1, 2), **kwargs
    )


@pytest.fixture(scope="module")
def classifier():
    """One that has seen two sizes, after which TensorFlow no longer knows any."""
    model = Classifier(network(), preprocessor=keras.layers.Rescaling(1 / 255))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for side in (SIDE, SIDE + 1, SIDE + 2):
        model.predict(np.zeros((2, side, side, 3), "uint8"), verbose=0)
    return model


@pytest.fixture(scope="module")
def detector():
    model = Detector(network(readout="points"), 2)
    model.compile("sgd")
    return model


@pytest.mark.parametrize("model", ["classifier", "detector"])
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_batch_of_images(request, model, method, wrong):
    shape, message = WRONG[wrong]
    model = request.getfixturevalue(model)
    targets = {"boxes": np.zeros((shape[0], 1, 4)), "labels": np.zeros((shape[0], 1))}
    if isinstance(model, Classifier):
        targets = np.zeros(shape[0])
    arguments = () if method == "predict" else (targets,)
    with pytest.raises(ValueError, match=rf"{message}. Received: shape"):
        getattr(model, method)(np.zeros(shape, "uint8"), *arguments, verbose=0)


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_labels_that_are_no_class(classifier, method):
    with pytest.raises(ValueError, match=r"below the number of classes, 2\. Received: 2"):
        getattr(classifier, method)(np.zeros((3, SIDE, SIDE, 3), "uint8"), np.array([0, 1, 2]))


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_a_pipeline_without_images(classifier, method):
    pipeline = tf.data.Dataset.from_tensor_slices((np.zeros((1, SIDE, SIDE, 3)), [0])).skip(1)
    with pytest.raises(ValueError, match="at least one image"):
        getattr(classifier, method)(pipeline.batch(2))


def test_a_pipeline_that_does_not_know_its_length(classifier):
    pipeline = tf.data.Dataset.from_generator(
        lambda: [np.zeros((2, SIDE, SIDE, 3))],
        output_signature=tf.TensorSpec((2, SIDE, SIDE, 3)),
    )
    assert classifier.predict(pipeline, steps=1, verbose=0).shape == (2, 2)


@pytest.mark.parametrize("convert", [np.asarray, ops.convert_to_tensor])
def test_grey_images_may_have_no_axis_of_channels(convert):
    model, images = network(1), np.random.default_rng(0).random((2, SIDE, SIDE), "float32")
    expected = model.predict(images[..., None], verbose=0)
    np.testing.assert_array_equal(model.predict(convert(images), verbose=0), expected)


def test_copies_check_as_well(tmp_path, classifier):
    classifier.save(tmp_path / "model.keras")
    copies = [
        keras.saving.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(classifier),
        channel_model(classifier),
    ]
    for copy in copies:
        with pytest.raises(ValueError, match="at least one image"):
            copy.predict(np.zeros((0, SIDE, SIDE, 3)))


@pytest.mark.parametrize(
    "labels", [np.array([0, -1]), np.array([0.5, 1]), np.array([[0], [2]]), ["0", "1"]]
)
def test_labels_that_are_no_whole_numbers(classifier, labels):
    with pytest.raises(ValueError, match="Labels must be an array of whole numbers below"):
        classifier.fit(np.zeros((2, SIDE, SIDE, 3), "uint8"), labels, verbose=0)


def test_labels_of_other_losses_are_left_to_them(classifier):
    model = Classifier(classifier.network, preprocessor=classifier.preprocessor)
    model.compile("sgd", keras.losses.MeanSquaredError(), run_eagerly=EAGER)
    assert model.evaluate(np.zeros((2, SIDE, SIDE, 3)) + 9, np.full((2, 2), 0.3), verbose=0) > 0


@pytest.mark.parametrize(
    "wrong",
    [None, "folder", [np.zeros((SIDE, SIDE, 3))] * 40, {"x": 1}, np.full((1, SIDE, SIDE, 3), 1j)],
)
def test_what_is_no_array_of_numbers(classifier, detector, wrong):
    with pytest.raises(ValueError, match="Images must be one array of real numbers"):
        classifier.predict(wrong, verbose=0)
    if not isinstance(wrong, list):  # which may be images of any sizes
        with pytest.raises(ValueError, match="Images must be one array of real numbers"):
            detector.predict(wrong, verbose=0)


@pytest.mark.parametrize("kind", [Classifier, Detector])
def test_single_batches_are_checked(classifier, detector, kind):
    network = classifier.network if kind is Classifier else detector.network
    model = kind(network, preprocessor=keras.layers.Rescaling(1 / 255), **COUNT[kind])
    with pytest.raises(ValueError, match="must be pixels of 0 to 255"):
        model.predict_on_batch(np.full((1, SIDE, SIDE, 3), 0.5))
    with pytest.raises(ValueError, match="`preprocessor` must be a Keras layer"):
        kind(network, preprocessor=np.sqrt, **COUNT[kind])
