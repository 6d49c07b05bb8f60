"""Many pictures on Beam: the same as one by one, nothing lost, and shards that are whole."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("apache_beam")

import keras

from gdn_keras.detection import Detector
from gdn_keras.export import export_saved_model
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import Classifier
from gdn_keras.serving import load_predictor
from gdn_keras.serving.beam import PictureHandler, predict_many
from tests.detection.networks import tiny_network
from tests.exported import small_network

# Raised inside Beam and what it imports.
pytestmark = pytest.mark.filterwarnings("ignore")

IN_PROCESS = ["--runner=FnApiRunner", "--direct_num_workers=1"]

# The network ends the process, as a kill would, once it has seen the first pictures.
KILLED = """
import os, signal, sys
from gdn_keras.serving import Predictor, beam
records = Predictor.records
def fatal(self, pictures):
    if calls.append(1) or len(calls) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return records(self, pictures)
calls, Predictor.records, beam.WAITING = [], fatal, 4
beam.predict_many(*sys.argv[1:4], sys.argv[4:])
"""


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.keras"
    Detector(tiny_network(2), num_classes=2, preprocessor=ArctanContrast(stretch=False)).save(file)
    return file


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    """The same classifier in both formats."""
    folder = tmp_path_factory.mktemp("models")
    model = Classifier(
        small_network((24, 24, 1)), [*"abcdefghij"], keras.layers.Rescaling(1 / 127.5, offset=-1)
    )
    model.save(folder / "model.keras")
    export_saved_model(model, folder / "saved_model")
    return folder


@pytest.fixture
def pictures(tmp_path):
    """Twelve of two sizes, two of them damaged."""
    rng = np.random.default_rng(0)
    for k in range(12):
        pixels = rng.integers(0, 100, ((32, 48), (40, 24))[k % 2], "uint8")
        Image.fromarray(pixels).save(tmp_path / f"{k}.png")
    for k in (3, 8):
        (tmp_path / f"{k}.png").write_bytes(b"no picture")
    return tmp_path


def read_lines(folder, name):
    return [json.loads(line) for f in sorted(folder.glob(f"{name}-*")) for line in f.open()]


def run(pictures, model, name="found"):
    predict_many(str(pictures / "*.png"), model, pictures / name, IN_PROCESS)
    return pictures / name


def check_files(pictures, lines, errors):
    """One record for each picture, and errors for the damaged ones."""
    assert sorted(line["file"] for line in errors) == [str(pictures / f"{k}.png") for k in (3, 8)]
    good = [str(pictures / f"{k}.png") for k in range(12) if k not in (3, 8)]
    assert sorted(line["file"] for line in lines) == sorted(good)


def test_detections_are_those_of_pictures_one_by_one(detector, pictures):
    found = run(pictures, detector)
    lines = read_lines(found, "detections")
    check_files(pictures, lines, read_lines(found, "errors"))
    predictor = load_predictor(detector)
    for line in lines:
        [expected] = predictor.answers([line["file"]])
        for one, two in zip(line["detections"], expected["detections"], strict=True):
            assert one["label"] == two["label"]
            np.testing.assert_allclose(one["box"], two["box"], atol=0.05)


def test_classes_are_those_of_pictures_one_by_one(classifiers, pictures):
    found = run(pictures, classifiers / "model.keras")
    lines = read_lines(found, "classes")
    check_files(pictures, lines, read_lines(found, "errors"))
    predictor = load_predictor(classifiers / "saved_model")
    for line in lines:
        [expected] = predictor.answers([line["file"]])
        for one, two in zip(line["classes"], expected["classes"], strict=True):
            assert one["label"] == two["label"]
            assert one["confidence"] == pytest.approx(two["confidence"], abs=2e-4)


def test_the_model_is_loaded_once_by_a_worker(classifiers, pictures, monkeypatch):
    loads = []
    monkeypatch.setattr(
        PictureHandler, "load_model", lambda self: loads.append(1) or load_predictor(self._model)
    )
    monkeypatch.setattr("gdn_keras.serving.beam.WAITING", 2)
    run(pictures, classifiers / "saved_model")
    assert len(loads) == 1


def test_a_killed_run_leaves_no_shard_and_can_be_repeated(classifiers, pictures):
    arguments = [pictures / "*.png", classifiers / "saved_model", pictures / "found", *IN_PROCESS]
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    killed = subprocess.run(command, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert not [*(pictures / "found").glob("*.jsonl")]
    found = run(pictures, classifiers / "saved_model")
    check_files(pictures, read_lines(found, "classes"), read_lines(found, "errors"))


def test_results_are_not_replaced_and_files_must_exist(classifiers, tmp_path):
    (tmp_path / "classes-00000-of-00001.jsonl").write_text("{}")
    with pytest.raises(FileExistsError):
        predict_many(str(tmp_path / "*"), classifiers / "model.keras", tmp_path)
    with pytest.raises(FileNotFoundError):
        predict_many(str(tmp_path / "*.png"), classifiers / "model.keras", tmp_path / "found")
