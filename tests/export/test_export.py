import gc
import json
import os
import sys
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from gdn_keras.export import checks, export_litert, export_onnx, export_saved_model
from gdn_keras.export.freezing import freeze
from gdn_keras.export.litert import litert_runner
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import Classifier, channel_model, retarget
from tests.exported import SCALES, SHAPE, random_images, run_without_keras, small_network

PIXELS = np.uint8(np.rint((random_images(50) + 0.76) * 120))
IMAGES = PIXELS.astype("float32")
NAMES = tuple(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


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


def test_runs_with_tensorflow_alone(folder, logits, stack, tmp_path):
    script = """
import numpy as np, tensorflow as tf
folder, inputs, outputs = sys.argv[1:]
data, served = np.load(inputs), tf.saved_model.load(folder)
results = {
    "batch": served.serve(data["images"])["logits"],
    "single": served.signatures["serving_default"](images=data["images"][:1])["logits"],
    "channels": served.scales(data["images"])["channel_logits"],
    "uint8": served.serve_uint8(data["pixels"])["logits"],
}
np.savez(outputs, **{name: np.asarray(value) for name, value in results.items()})
for name in ("keras", "gdn_keras"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
"""
    np.savez(tmp_path / "in.npz", images=IMAGES, pixels=PIXELS)
    run = run_without_keras(script, folder, tmp_path / "in.npz", tmp_path / "out.npz")
    assert run.returncode == 0, run.stderr
    assert run.stdout == "No module named 'keras'\nNo module named 'gdn_keras'\n"
    with np.load(tmp_path / "out.npz") as results:
        assert np.abs(logits).max() > 0.5
        np.testing.assert_allclose(results["batch"], logits, atol=1e-5)
        np.testing.assert_allclose(results["single"], logits[:1], atol=1e-5)
        np.testing.assert_allclose(results["channels"], stack, atol=1e-5)
        assert results["uint8"].shape == (50, 10)


def test_signatures(served):
    assert set(served.signatures) == {
        *("serving_default", "serve", "scales", "serve_uint8", "class_names")
    }
    for name, dtype in (("serve", tf.float32), ("scales", tf.float32), ("serve_uint8", tf.uint8)):
        ((), specs) = served.signatures[name].structured_input_signature
        assert specs == {"images": tf.TensorSpec([None, *SHAPE], dtype, name="images")}


@pytest.mark.parametrize("count", [1, 50])
def test_scores(served, logits, count):
    outputs = served.signatures["serve"](images=tf.constant(IMAGES[:count]))
    np.testing.assert_allclose(outputs["logits"], logits[:count], atol=1e-5)
    np.testing.assert_allclose(outputs["probabilities"], sigmoid(logits[:count]), atol=1e-5)
    names = [name.decode() for name in outputs["class_name"].numpy()]
    assert names == [NAMES[i] for i in logits[:count].argmax(axis=1)]


def test_names_come_out_by_name(served):
    names = served.class_names()["class_names"].numpy()
    assert tuple(name.decode() for name in names) == NAMES


def test_half_precision_images_are_taken(served, logits):
    found = served.serve(IMAGES.astype("float16"))["logits"]
    np.testing.assert_allclose(found, logits, atol=0.02)


def test_scales(served, stack):
    outputs = served.scales(IMAGES)
    np.testing.assert_allclose(outputs["channel_logits"], stack, atol=1e-5)
    winners = stack.max(axis=2).argmax(axis=1)
    assert len(set(winners)) > 1
    np.testing.assert_allclose(outputs["selected_scale"], np.take(SCALES, winners), rtol=1e-6)
    np.testing.assert_allclose(
        outputs["relative_size"], np.take(SCALES, winners) / SCALES[0], rtol=1e-6
    )


def test_grey_bytes(served, model):
    expected = {**served.serve(IMAGES), **served.scales(IMAGES)}
    for pixels in (PIXELS, PIXELS[..., 0]):
        outputs = served.serve_uint8(pixels)
        assert set(outputs) == set(expected)
        for name in expected:
            if name == "class_name":
                assert (outputs[name].numpy() == expected[name].numpy()).all()
            else:
                np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)
    raw = model.predict(PIXELS, verbose=0)
    np.testing.assert_allclose(served.serve_uint8(PIXELS)["logits"], raw, atol=1e-5)


def test_black_images_are_finite(served):
    outputs = served.serve_uint8(np.zeros((2, *SHAPE), "uint8"))
    assert np.isfinite(outputs["logits"]).all()


@pytest.mark.parametrize("shape", [(2, 28, 28, 1), (8, 22, 20, 1), (2, 44, 40), (2, 44, 40, 3)])
@pytest.mark.parametrize("name", ["serve", "scales"])
def test_wrong_shapes(served, name, shape):
    """(8, 22, 20) has the pixels of two images, and [2, 44, 40] all of them."""
    received = ",".join(map(str, shape))
    message = rf"images\S* \[{received}\] is not compatible with expected shape \[\?,44,40,1\]"
    for call in (getattr(served, name), lambda x: served.signatures[name](images=x)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call(tf.zeros(shape))


def test_wrong_types(served):
    for endpoint, images in ((served.serve, PIXELS), (served.serve_uint8, IMAGES)):
        with pytest.raises(ValueError, match=r"Got:[^?]*dtype=(uint8|float32)"):
            endpoint(images)
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected to be a float tensor"):
        served.signatures["serve"](images=tf.constant(PIXELS))


def test_nothing_is_left_to_compute_but_the_network(network):
    """Kernels are constants, composed and with the normalisation in them."""
    graph = freeze(network).graph
    types = {op.type for op in graph.get_operations()}
    assert not {"Mul", "MatMul", "Rsqrt", "ReadVariableOp", "IdentityN"} & types
    for op in graph.get_operations():
        if op.type == "Conv2D":
            assert op.inputs[1].op.type == "Const"


def test_no_graph_stays_behind(model, tmp_path):
    def graphs():
        gc.collect()
        named = [x for x in gc.get_objects() if type(x).__name__ == "FuncGraph"]
        return sum(graph.name in ("network", "folded") for graph in named)

    counts = []
    for _ in range(3):
        export_saved_model(model, tmp_path / "saved_model")
        counts.append(graphs())
    assert counts[0] == counts[1] == counts[2]


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"training_size": 0, "reference_images": IMAGES}, r"`training_size` must be a positive"),
        ({"training_size": "2", "reference_images": IMAGES}, r"`training_size` must be a positive"),
        ({"reference_images": IMAGES}, r"given together. Received: training_size=None"),
        ({"training_size": 2}, r"given together. .*reference_images missing"),
        (
            {"training_size": 2, "reference_images": IMAGES[..., 0]},
            r"`reference_images` must be.*width, 1\]. Received: shape \(50, 44, 40\)",
        ),
        ({"training_size": 2, "reference_images": IMAGES[:0]}, r"Received: shape \(0, 44, 40, 1\)"),
        ({"probabilities": "tanh"}, r"probabilities='tanh'"),
    ],
)
def test_bad_arguments(model, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export_saved_model(model, tmp_path / "x", **arguments)
    assert not list(tmp_path.iterdir())


def test_bad_models(tmp_path):
    inputs = keras.Input(SHAPE)
    plain = keras.Model(inputs, keras.layers.Flatten()(inputs))
    for bad, message in (
        ("a path", "`model` must be a keras.Model. Received: model='a path'"),
        (plain, "`model` must hold exactly one ScaleChannels layer"),
        (small_network(readout="map"), r"`model` must go from .*Received: \(None, 3, 44, 40, 10\)"),
    ):
        with pytest.raises(ValueError, match=message):
            export_saved_model(bad, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_other_backends_are_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for function in (export_saved_model, export_onnx, export_litert):
        with pytest.raises(
            RuntimeError, match=r"KERAS_BACKEND=tensorflow.*Received: backend='jax'"
        ):
            function(model, tmp_path / "x")


def test_color_bytes(tmp_path):
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
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3,31,30,1\] is not compatible"):
        served.serve_uint8(pixels[..., 0])


@pytest.mark.parametrize("sampling", ["matched", pytest.param("dense", marks=pytest.mark.slow)])
def test_images_of_unknown_size(tmp_path, sampling):
    network = small_network(sampling=sampling, pooling="average", surround=0.2)
    model = retarget(network, input_shape=(None, None, 1))
    served = tf.saved_model.load(str(export_saved_model(model, tmp_path / "x")))
    for shape in ((25, 30, 1), (41, 17, 1)):
        images = random_images(3, shape)
        expected = retarget(network, input_shape=shape).predict(images, verbose=0)
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


def test_replaces_saved_models_only(model, tmp_path):
    path = export_saved_model(model, tmp_path / "new" / "x")
    first = (path / "saved_model.pb").stat().st_ino
    with pytest.raises(FileExistsError, match="Pass overwrite=True"):
        export_saved_model(model, path, overwrite=False)
    export_saved_model(model, path)
    assert (path / "saved_model.pb").stat().st_ino != first
    assert os.listdir(path.parent) == ["x"]
    (path / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for taken in (path, tmp_path / "file", tmp_path):
        with pytest.raises(FileExistsError, match="is not just a SavedModel"):
            export_saved_model(model, taken)
    assert (path / "notes.txt").read_text() == "mine"


def test_a_failed_check_leaves_everything_as_it_was(model, tmp_path, monkeypatch):
    path = export_saved_model(model, tmp_path / "x")
    before = (path / "saved_model.pb").read_bytes()
    monkeypatch.setattr(checks, "TOLERANCE", -1.0)
    for function, target in ((export_saved_model, path), (export_litert, tmp_path / "x.tflite")):
        with pytest.raises(ValueError, match=r"differ from the model's by \d.*Nothing was written"):
            function(model, target)
    assert os.listdir(tmp_path) == ["x"]
    assert (path / "saved_model.pb").read_bytes() == before


def test_weights_that_are_not_finite_are_refused(tmp_path):
    broken = small_network()
    broken.set_weights([np.full(w.shape, np.nan) for w in broken.get_weights()])
    with pytest.raises(ValueError, match="differ from the model's by nan"):
        export_saved_model(broken, tmp_path / "x")


def test_litert(model, tmp_path, logits, stack):
    path = export_litert(model, tmp_path / "x.tflite")
    run = litert_runner(path)
    np.testing.assert_allclose(run(IMAGES), logits, atol=1e-4)
    np.testing.assert_allclose(run(IMAGES[:1]), logits[:1], atol=1e-4)
    raw = model.predict(PIXELS, verbose=0)
    np.testing.assert_allclose(run(np.float32(PIXELS)), raw, atol=1e-4)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("labels.txt").decode().split("\n") == list(NAMES)
    with pytest.raises(IsADirectoryError, match="`path` must be a file"):
        export_litert(model, tmp_path)


def test_onnx(model, tmp_path, logits, stack):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    path = export_onnx(model, tmp_path / "x.onnx")
    session = onnxruntime.InferenceSession(path)
    assert [x.name for x in session.get_inputs()] == ["images"]
    outputs = session.run(["logits", "probabilities", "channel_logits"], {"images": IMAGES})
    for output, expected in zip(outputs, (logits, sigmoid(logits), stack), strict=True):
        np.testing.assert_allclose(output, expected, atol=1e-4)
    names = session.get_modelmeta().custom_metadata_map["class_names"]
    assert json.loads(names) == list(NAMES)


def test_onnx_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"pip install gdn_keras\[onnx\]"):
        export_onnx(model, tmp_path / "x.onnx")


def test_softmax(model, tmp_path, logits):
    path = export_saved_model(model, tmp_path / "x", probabilities="softmax")
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    served = tf.saved_model.load(str(path))
    np.testing.assert_allclose(served.serve(IMAGES)["probabilities"], shares, atol=1e-5)
