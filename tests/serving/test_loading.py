"""Classifiers and pictures are as in training and in examples/predict.py."""

import json

import keras
import numpy as np
import pytest
from PIL import Image

from gdn_keras.datasets.boxes import BoxedImage, read_boxed_images
from gdn_keras.export import export_saved_model
from gdn_keras.models import Classifier
from gdn_keras.serving import Predictor, load_predictor, read_scene
from tests.examples.conftest import load_example
from tests.exported import small_network


@pytest.fixture(scope="module")
def predict():
    return load_example("predict")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The same classifier in both formats."""
    folder = tmp_path_factory.mktemp("models")
    names = [f"class {k}" for k in range(10)]
    model = Classifier(
        small_network((40, 36, 3)), names, keras.layers.Rescaling(1 / 127.5, offset=-1)
    )
    model.save(folder / "model.keras")
    export_saved_model(model, folder / "saved_model")
    return folder


@pytest.fixture
def files(tmp_path):
    """Small, large, grey, sixteen bits and transparent."""
    rng = np.random.default_rng(0)
    pictures = {
        "small.png": rng.integers(0, 256, (20, 31, 3), "uint8"),
        "large.jpg": rng.integers(0, 256, (90, 50, 3), "uint8"),
        "grey.png": rng.integers(200, 256, (40, 36), "uint8"),
        "deep.png": rng.integers(0, 2**16, (40, 36), "uint16"),
        "deep and dark.png": rng.integers(0, 2**14, (40, 36), "uint16"),
        "transparent.png": rng.integers(0, 256, (30, 30, 4), "uint8"),
        "transparent grey.png": rng.integers(0, 256, (30, 30, 2), "uint8"),
    }
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(tmp_path / name)
    palette = Image.fromarray(rng.integers(0, 9, (30, 30), "uint8")).convert("P")
    palette.save(tmp_path / "palette.png", transparency=3)
    return [tmp_path / name for name in (*pictures, "palette.png")]


def test_scenes_are_as_training_reads_them(files):
    for file in files:
        scene = read_scene(file, 3)
        image = BoxedImage(file, scene.shape[:2], np.zeros((0, 4)), np.zeros(0))
        [pixels] = read_boxed_images([image])[0]
        np.testing.assert_array_equal(pixels, scene, err_msg=file.name)


@pytest.mark.parametrize("model", ["model.keras", "saved_model"])
def test_records_are_those_of_predict(predict, models, files, model, capsys):
    assert predict.main([str(models / "saved_model"), *map(str, files), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    predictor = load_predictor(models / model)
    assert predictor.kind == "classes"
    records = predictor.records(np.stack([predictor.read(file) for file in files]))
    for file, line, classes in zip(files, lines, records, strict=True):
        assert line["file"] == str(file)
        assert [c["label"] for c in line["classes"]] == [c["label"] for c in classes]
        assert len(classes) == 5 and classes[0]["label"].startswith("class ")
        for one, two in zip(line["classes"], classes, strict=True):
            assert one["confidence"] == pytest.approx(two["confidence"], abs=2e-4)


def test_equal_probabilities_are_ordered_by_logits():
    logits = np.array([[100, 300, 200]], "float32")
    arrays = {"logits": logits, "probabilities": np.ones((1, 3)), "names": np.array([*"abc"])}
    [classes] = Predictor("classes", 1, (8, 8), lambda images: arrays).records(None)
    assert classes == [{"label": label, "confidence": 1.0} for label in "bca"]


def test_networks_that_take_no_pixels_are_refused(tmp_path):
    network = small_network((24, 24, 1))
    network.save(tmp_path / "model.keras")
    export_saved_model(network, tmp_path / "saved_model")
    with pytest.raises(OSError, match="lacks the preprocessing"):
        load_predictor(tmp_path / "model.keras")
    with pytest.raises(OSError, match="no endpoint"):
        load_predictor(tmp_path / "saved_model")
