"""Exports give the model's answers without Keras, and take the place of exports only."""

import gc
import os
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from gdn_keras.detection import Detector
from gdn_keras.export import export_saved_model, is_export_of
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import Classifier, channel_model, retarget, with_channels
from tests.detection.networks import detected, tiny_network
from tests.exported import SCALES, SHAPE, random_images, run_without_keras, small_network

PIXELS = np.uint8(np.rint((random_images(50) + 0.76) * 120))
IMAGES = PIXELS.astype("float32")
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture(scope="module")
def network():
    return small_network(surround=0.1)


@pytest.fixture(scope="module")
def model(network):
    return Classifier(network, NAMES, ArctanContrast())


@pytest.fixture(scope="module")
def logits(model):
    return model.predict(IMAGES, verbose=0)


@pytest.fixture(scope="module")
def stack(model):
    return channel_model(model).predict(IMAGES, verbose=0)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return export_saved_model(model, tmp_path_factory.mktemp("export") / "saved_model")


@pytest.fixture(scope="module")
def served(folder):
    return tf.saved_model.load(str(folder))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def with_nan_weights(model):
    broken = keras.models.clone_model(model)
    broken.set_weights([np.full(w.shape, np.nan) for w in model.get_weights()])
    return broken


def test_runs_with_tensorflow_alone(folder, logits, tmp_path):
    script = """
import numpy as np, tensorflow as tf
folder, inputs, outputs = sys.argv[1:]
images, served = np.load(inputs), tf.saved_model.load(folder)
batch = served.serve(images)["logits"]
single = served.signatures["serving_default"](images=images[:1])["logits"]
np.savez(outputs, batch=batch, single=single)
for name in ("keras", "gdn_keras"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
"""
    np.save(tmp_path / "in.npy", IMAGES)
    run = run_without_keras(script, folder, tmp_path / "in.npy", tmp_path / "out.npz")
    assert run.returncode == 0, run.stderr
    assert run.stdout == "No module named 'keras'\nNo module named 'gdn_keras'\n"
    with np.load(tmp_path / "out.npz") as results:
        assert np.abs(logits).max() > 0.5
        np.testing.assert_allclose(results["batch"], logits, atol=1e-5)
        np.testing.assert_allclose(results["single"], logits[:1], atol=1e-5)


def test_signatures(served):
    assert set(served.signatures) == {
        *("serving_default", "serve", "scales", "serve_uint8", "class_names")
    }
    for name, dtype in (("serve", tf.float32), ("scales", tf.float32), ("serve_uint8", tf.uint8)):
        ((), specs) = served.signatures[name].structured_input_signature
        assert specs == {"images": tf.TensorSpec([None, *SHAPE], dtype, name="images")}


def test_scores(served, logits):
    for outputs in (served.serve(IMAGES), served.signatures["serve"](images=IMAGES)):
        np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
        np.testing.assert_allclose(outputs["probabilities"], sigmoid(logits), atol=1e-5)
        names = [name.decode() for name in outputs["class_name"].numpy()]
        assert names == [NAMES[i] for i in logits.argmax(axis=1)]
    names = served.class_names()["class_names"].numpy()
    assert tuple(name.decode() for name in names) == NAMES
    half = served.serve(IMAGES.astype("float16"))["logits"]
    np.testing.assert_allclose(half, logits, atol=0.02)


def test_scales(served, stack):
    outputs = served.scales(IMAGES)
    np.testing.assert_allclose(outputs["channel_logits"], stack, atol=1e-5)
    selected = np.take(SCALES, stack.max(axis=2).argmax(axis=1))
    assert len(set(selected)) > 1
    np.testing.assert_allclose(outputs["selected_scale"], selected, rtol=1e-6)
    np.testing.assert_allclose(outputs["relative_size"], selected / SCALES[0], rtol=1e-6)


def test_bytes(served):
    expected = {**served.serve(IMAGES), **served.scales(IMAGES)}
    for pixels in (PIXELS, PIXELS[..., 0]):
        outputs = served.serve_uint8(pixels)
        assert set(outputs) == set(expected)
        assert (outputs["class_name"].numpy() == expected["class_name"].numpy()).all()
        for name in expected.keys() - {"class_name"}:
            np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)
    black = served.serve_uint8(np.zeros((2, *SHAPE), "uint8"))
    assert np.isfinite(black["logits"]).all()


@pytest.mark.parametrize("shape", [(2, 28, 28, 1), (8, 22, 20, 1), (2, 44, 40), (2, 44, 40, 3)])
@pytest.mark.parametrize("name", ["serve", "scales"])
def test_wrong_shapes_are_named(served, name, shape):
    """(8, 22, 20) has the pixels of two images, and [2, 44, 40] all of them."""
    received = rf"\[{','.join(map(str, shape))}\].*\[\?,44,40,1\]"
    for call in (getattr(served, name), lambda x: served.signatures[name](images=x)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=received):
            call(tf.zeros(shape))


def test_wrong_types_are_named(served):
    for endpoint, images in ((served.serve, PIXELS), (served.serve_uint8, IMAGES)):
        with pytest.raises(ValueError, match=str(images.dtype)):
            endpoint(images)


def test_no_graph_stays_behind(model, tmp_path):
    counts = []
    for _ in range(3):
        export_saved_model(model, tmp_path / "saved_model")
        gc.collect()
        counts.append(sum(type(x).__name__ == "FuncGraph" for x in gc.get_objects()))
    assert counts[1] == counts[2]


@pytest.mark.parametrize("shape", [SHAPE, (36, 40, 1)])
def test_sizes_in_units_of_the_training_size(model, tmp_path, shape):
    references = np.rint((random_images(99, shape) + 0.76) * 120)
    path = export_saved_model(
        model, tmp_path / "x", training_size=1.3, reference_images=references.astype("float16")
    )
    winners = channel_model(retarget(model, shape)).predict(references, verbose=0).max(2).argmax(1)
    unit = np.median(np.take(SCALES, winners)) / 1.3
    outputs = tf.saved_model.load(str(path)).scales(IMAGES)
    sizes = outputs["selected_scale"].numpy() / unit
    np.testing.assert_allclose(outputs["relative_size"], sizes, rtol=1e-5)


def test_softmax(model, tmp_path, logits):
    path = export_saved_model(model, tmp_path / "x", probabilities="softmax")
    found = tf.saved_model.load(str(path)).serve(IMAGES)["probabilities"]
    np.testing.assert_allclose(found, keras.ops.softmax(logits), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"training_size": 0, "reference_images": IMAGES}, "training_size"),
        ({"training_size": "2", "reference_images": IMAGES}, "training_size"),
        ({"reference_images": IMAGES}, "training_size"),
        ({"training_size": 2}, "reference_images"),
        ({"training_size": 2, "reference_images": IMAGES[..., 0]}, "reference_images"),
        ({"training_size": 2, "reference_images": IMAGES[:0]}, "reference_images"),
        ({"probabilities": "tanh"}, "probabilities"),
    ],
)
def test_bad_arguments(model, tmp_path, arguments, name):
    with pytest.raises(ValueError, match=name):
        export_saved_model(model, tmp_path / "x", **arguments)
    assert not list(tmp_path.iterdir())


def test_bad_models(tmp_path):
    inputs = keras.Input(SHAPE)
    plain = keras.Model(inputs, keras.layers.Flatten()(inputs))
    for bad in ("a path", plain, small_network(readout="map")):
        with pytest.raises(ValueError, match="`model` must"):
            export_saved_model(bad, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_other_backends_are_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="jax"):
        export_saved_model(model, tmp_path / "x")


def test_color(tmp_path):
    model = small_network((31, 30, 3), pooling="logsumexp")
    images = random_images(3, (31, 30, 3))
    plain = tf.saved_model.load(str(export_saved_model(model, tmp_path / "x")))
    expected = model.predict(images, verbose=0)
    np.testing.assert_allclose(plain.serve(images)["logits"], expected, atol=1e-5)
    assert set(plain.signatures) == {"serving_default", "serve", "scales"}
    assert "class_name" not in plain.serve(images)

    model = Classifier(model, preprocessor=keras.layers.Rescaling(1 / 255))
    served = tf.saved_model.load(str(export_saved_model(model, tmp_path / "x")))
    pixels = np.uint8(np.rint((images + 0.76) * 160))
    expected = plain.serve(np.float32(pixels / 255))["logits"]
    np.testing.assert_allclose(served.serve_uint8(pixels)["logits"], expected, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3,31,30,1\]"):
        served.serve_uint8(pixels[..., 0])


@pytest.mark.parametrize("sampling", ["matched", pytest.param("dense", marks=pytest.mark.slow)])
def test_images_of_unknown_size(tmp_path, sampling):
    network = small_network(sampling=sampling, pooling="average", surround=0.2)
    model = retarget(network, input_shape=(None, None, 1))
    served = tf.saved_model.load(str(export_saved_model(model, tmp_path / "x")))
    for shape in ((25, 30, 1), (41, 17, 1)):
        images = random_images(3, shape)
        expected = retarget(network, input_shape=shape)(images)
        np.testing.assert_allclose(served.serve(images)["logits"], expected, atol=1e-5)


def test_mixed_precision_is_exported_in_float32(network, tmp_path, logits):
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        mixed = small_network(surround=0.1)
    finally:
        keras.config.set_dtype_policy(policy)
    mixed.set_weights(network.get_weights())
    mixed = Classifier(mixed, NAMES, ArctanContrast())
    served = tf.saved_model.load(str(export_saved_model(mixed, tmp_path / "x")))
    np.testing.assert_allclose(served.serve(IMAGES)["logits"], logits, atol=1e-5)
    assert mixed.network.layers[1].compute_dtype == "float16"


def test_detectors(tmp_path):
    detector = Detector(
        tiny_network(2, scales=(1.0, 2.0)),
        num_classes=2,
        preprocessor=ArctanContrast(stretch=False),
        confidence_threshold=0.0,
        class_names=["cat", "dog"],
    )
    loaded = tf.saved_model.load(export_saved_model(detector, tmp_path / "model"))
    for shape in ((1, 32, 48, 1), (2, 40, 24, 1)):
        images = np.random.default_rng(0).integers(0, 256, shape, "uint8")
        expected, found = detected(detector, images), loaded.detect(images)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-4)
        names = np.array([b"cat", b"dog", b""])[expected["labels"]]
        np.testing.assert_array_equal(found["names"], names)
    assert is_export_of(detector, tmp_path / "model")
    assert not is_export_of(with_nan_weights(detector), tmp_path / "model")


def test_replaces_saved_models_only(model, tmp_path):
    path = export_saved_model(model, tmp_path / "new" / "x")
    first = (path / "saved_model.pb").stat().st_ino
    export_saved_model(model, path)
    assert (path / "saved_model.pb").stat().st_ino != first
    assert os.listdir(path.parent) == ["x"]
    (path / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for taken in (path, tmp_path / "file", tmp_path):
        with pytest.raises(FileExistsError):
            export_saved_model(model, taken)
    assert (path / "notes.txt").read_text() == "mine"


def test_a_failed_check_leaves_everything_as_it_was(model, tmp_path):
    path = export_saved_model(model, tmp_path / "x")
    before = (path / "saved_model.pb").read_bytes()
    broken = with_nan_weights(model)
    with pytest.raises(ValueError, match="nan"):
        export_saved_model(broken, path)
    assert os.listdir(tmp_path) == ["x"]
    assert (path / "saved_model.pb").read_bytes() == before
    assert is_export_of(model, path) and not is_export_of(broken, path)
    other = Classifier(small_network(surround=0.1, seed=1), NAMES, ArctanContrast())
    assert not is_export_of(other, path) and not is_export_of(model, tmp_path)


# The other formats are Keras's own.


def test_litert(model, tmp_path, logits, stack):
    file = str(tmp_path / "x.tflite")
    for exported, expected in ((model, [logits]), (with_channels(model), [logits, stack])):
        exported.export(file, format="litert", verbose=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TensorFlow's interpreter says that it will move
            run = tf.lite.Interpreter(file).get_signature_runner()
        for images in (IMAGES, IMAGES[:1]):
            outputs = run(images=images)
            for k, values in enumerate(expected):
                np.testing.assert_allclose(outputs[f"output_{k}"], values[: len(images)], atol=1e-4)


@pytest.mark.filterwarnings("ignore:In the future:FutureWarning")  # in tf2onnx, with NumPy 2
def test_onnx(model, tmp_path, logits, stack):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    with_channels(model).export(tmp_path / "x.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "x.onnx")
    for images in (IMAGES, IMAGES[:1]):
        outputs = session.run(None, {"images": images})
        for output, expected in zip(outputs, (logits, stack), strict=True):
            np.testing.assert_allclose(output, expected[: len(images)], atol=1e-4)
