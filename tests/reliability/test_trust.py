import ast
import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from PIL import Image

import gdn_keras
from gdn_keras.datasets import digits, load_embedded_digits, load_official_large_scale
from gdn_keras.datasets.large_scale import open_array
from gdn_keras.export import export_saved_model
from gdn_keras.layers import ArctanContrast, GaussianDerivative
from gdn_keras.models import Classifier
from gdn_keras.serving import Predictor, load_predictor
from gdn_keras.training.run_folder import load_network
from tests.exported import small_network
from tests.reliability.faults import ROOT, SCRIPT, TINY

PACKAGE = Path(gdn_keras.__file__).parent
SOURCES = [*PACKAGE.rglob("*.py"), *(ROOT / "examples").glob("*.py")]


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


# Sources


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_no_source_can_run_code_from_a_file(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            forbidden = {"pickle", "dill", "joblib", "marshal", "shelve", "cloudpickle", "yaml"}
            assert not forbidden & {name.split(".")[0] for name in names}
        elif isinstance(node, ast.Call):
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "compile", "__import__", "os.system")
            assert options.get("safe_mode", "True") == "True" and "shell" not in options
            assert not called.endswith("enable_unsafe_deserialization")
            if called == "np.load":
                assert options["allow_pickle"] == "False"


def test_downloads_are_few_and_have_checksums():
    markers = ("urlopen", "download", "requests", "get_file", "http.client", "urlretrieve")
    found = {
        file.name
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and any(m in ast.unparse(node.func) for m in markers)
    }
    assert found <= {"digits.py", "mnist_large_scale_dataset_builder.py"}
    lines = (PACKAGE / "datasets/mnist_large_scale/checksums.tsv").read_text().splitlines()
    urls = {line.split("\t")[0]: line.split("\t")[2] for line in lines}
    assert {url.rpartition("/")[2] for url in urls} == {f"{name}.gz" for name in digits.MNIST_FILES}
    assert all(len(sum_) == 64 for sum_ in urls.values())


# Networks


def _touch(marker):
    path = str(marker)
    return lambda x: (open(path, "w").close(), x)[1]


def _replace_inner_layer(file, changes):
    """Change the configuration of a layer inside the scale channels of a saved network."""
    with zipfile.ZipFile(file) as archive:
        content = {entry: archive.read(entry) for entry in archive.namelist()}
    config = json.loads(content["config.json"])
    channels = next(x for x in config["config"]["layers"] if x["class_name"] == "ScaleChannels")
    channels["config"]["network"]["config"]["layers"][1].update(changes)
    with zipfile.ZipFile(file, "w") as archive:
        for entry, value in {**content, "config.json": json.dumps(config)}.items():
            archive.writestr(entry, value)


@pytest.mark.parametrize("inside", [False, True])
def test_networks_with_code_are_refused(tmp_path, inside):
    file, marker = tmp_path / "model.keras", tmp_path / "marker"
    code = keras.layers.Lambda(_touch(marker))
    if inside:
        small_network().save(file)
        _replace_inner_layer(file, keras.saving.serialize_keras_object(code))
    else:
        inputs = keras.Input((12, 12, 1))
        keras.Model(inputs, code(GaussianDerivative(2, 1.0)(inputs))).save(file)
        marker.unlink()
    with pytest.raises(OSError, match=r"model\.keras cannot be loaded as a network .*ambda"):
        load_network(file)
    with pytest.raises(ValueError, match="ambda"):
        keras.saving.load_model(file)
    assert not marker.exists()


@pytest.mark.parametrize(("module", "name"), [("os", "system"), ("keras.utils", "get_file")])
def test_networks_that_name_functions_are_refused(tmp_path, module, name):
    file = tmp_path / "model.keras"
    small_network().save(file)
    _replace_inner_layer(file, {"module": module, "class_name": name, "registered_name": None})
    with pytest.raises(OSError, match="cannot be loaded as a network"):
        load_network(file)


def test_damaged_networks_are_one_sentence(tmp_path):
    file = tmp_path / "model.keras"
    small_network().save(file)
    content = file.read_bytes()
    for part in (b"", content[:1000], content[: len(content) // 2], b"hello"):
        file.write_bytes(part)
        with pytest.raises(OSError, match=r"model\.keras cannot be loaded") as error:
            load_network(file)
        assert "\n" not in str(error.value)


# Data


def test_pickles_are_not_read(tmp_path):
    marker, file = tmp_path / "marker", tmp_path / "x.npy"
    objects = np.array([Trap(marker), None])
    stream = io.BytesIO()
    np.save(stream, objects, allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, images=objects)
    for content in (pickle.dumps(Trap(marker)), stream.getvalue(), archive.getvalue()):
        file.write_bytes(content)
        assert open_array(file, (2,)) is None
        with pytest.raises(ValueError, match="not an idx file"):
            digits.read_idx(file, rank=1)
        official = tmp_path / "mnist_large_scale_te10000_outsize112-112_scte2p000.h5"
        official.write_bytes(content)
        with pytest.raises(ValueError, match="damaged or not an HDF5 file"):
            load_official_large_scale(tmp_path, "test", 2)
    assert not marker.exists()


def test_official_files_with_other_contents(tmp_path):
    file = tmp_path / "mnist_large_scale_te10000_outsize112-112_scte2p000.h5"
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 4)
    with h5py.File(file, "w") as content:
        content["x_test"] = h5py.ExternalLink(str(secret), "/x")
        content["y_test"] = np.zeros(1, "uint8")
    with pytest.raises((ValueError, KeyError, OSError)):
        load_official_large_scale(tmp_path, "test", 2)


def test_gzip_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "_MAX_BYTES", 10_000)
    file = tmp_path / "train-labels-idx1-ubyte.gz"
    file.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(ValueError, match="must not hold more than 10000 bytes"):
        digits.read_idx(file, rank=1)


# Files


def _files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_nothing_is_written_elsewhere(tmp_path):
    """A training in an empty world: what appears is in the folder of the run and in the cache."""
    home, work, temporary = (tmp_path / name for name in ("home", "work", "temporary"))
    for folder in (home, work, temporary):
        folder.mkdir()
    dropped = ("GDN_KERAS_CACHE", "KERAS_HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    before = _files(ROOT / "gdn_keras") | _files(ROOT / "examples")
    command = [sys.executable, str(SCRIPT), *TINY.split(), "--epochs", "1", "--output", "mine"]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {name.split("/")[0] for name in _files(work)} == {"mine"}
    assert not _files(temporary)
    # Keras and Matplotlib keep settings and a list of fonts of their own.
    own = {n for n in _files(home) if not n.startswith((".keras/", ".cache/matplotlib/"))}
    own = {name for name in own if not name.startswith(".config/matplotlib/")}
    assert own and all(name.startswith(".cache/gdn_keras/mnist_large_scale-") for name in own)
    assert _files(ROOT / "gdn_keras") | _files(ROOT / "examples") == before


# predict.py


def _answer(images):
    count = len(images)
    scores = np.ones((count, 10))
    names = np.arange(10).astype("str")
    sizes = np.ones(count)
    return {"logits": scores, "probabilities": scores, "relative_size": sizes, "names": names}


CLASSIFIER = Predictor(1, (20, 20), _answer)


def _encoded(kind):
    stream = io.BytesIO()
    image = Image.fromarray(load_embedded_digits().x_test[0])
    if kind == "palette":
        image = image.convert("P")
    image.save(stream, "JPEG" if kind == "jpeg" else "PNG")
    return stream.getvalue()


@pytest.mark.parametrize("one_object", [False, True])
@pytest.mark.parametrize("kind", ["png", "palette", "jpeg"])
def test_mutilated_pictures_get_an_answer_or_a_line(tmp_path, kind, one_object):
    whole, file = _encoded(kind), tmp_path / "x.png"
    places = st.integers(0, len(whole) - 1)

    @hypothesis_settings(max_examples=100, database=None)
    @given(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8), places)
    def check(changes, length):
        content = bytearray(whole)
        for place, value in changes:
            content[place] = value
        file.write_bytes(content[: length + 1] if len(changes) < 4 else content)
        (record,) = CLASSIFIER.answers([file], one_object=one_object)
        if "error" in record:
            error = record["error"]
            assert error and error.isprintable() and len(error) <= 200
        else:
            assert record["classes"] and np.isfinite(record["size"])

    check()


@pytest.mark.parametrize("one_object", [False, True])
def test_pictures_over_the_limit_are_refused_undecoded(tmp_path, one_object):
    header = struct.pack(">IIBBBBB", 175_001, 1_000, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(175_002 * 1_000))  # 170 kB, and a valid picture of 175 megapixels
    parts = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(x)) + kind + x + struct.pack(">I", zlib.crc32(kind + x))
        for kind, x in parts
    )
    file = tmp_path / "bomb.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    assert file.stat().st_size < 200_000
    (record,) = CLASSIFIER.answers([file], one_object=one_object)
    assert "more than 175000000 pixels" in record["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"sampling": "dense"},
        {"pooling": "logsumexp"},
        {"pooling": "average", "boundary": "constant", "order": 3},
        {"sampling": "dense", "boundary": "edge"},
    ],
)
def test_exports_of_all_kinds_are_arithmetic(tmp_path, options):
    network = small_network(**options)
    names = [f"class {k}" for k in range(network.output_shape[-1])]
    network = Classifier(network, names, ArctanContrast())
    path = export_saved_model(network, tmp_path / "model")
    served = load_predictor(path)
    found = served.predict(np.zeros((2, *served.frame, served.channels), "uint8"))["probabilities"]
    assert found.shape == (2, len(names))
