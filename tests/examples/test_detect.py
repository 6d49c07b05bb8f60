"""examples/detect.py: tables, JSON, pictures, and files that cannot be used."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gdn_keras.detection import Detector
from gdn_keras.export import export_saved_model
from gdn_keras.layers import ArctanContrast
from gdn_keras.serving import load_predictor
from tests.detection.networks import tiny_network

FILE = Path(__file__).parents[2] / "examples" / "detect.py"


@pytest.fixture(scope="module")
def main():
    spec = importlib.util.spec_from_file_location("detect", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The same detector in both formats."""
    folder = tmp_path_factory.mktemp("models")
    detector = Detector(
        tiny_network(2, scales=(1.0, 2.0)),
        num_classes=2,
        preprocessor=ArctanContrast(stretch=False),
        confidence_threshold=0.1,
        class_names=["cat", "dog"],
        bounding_box_format="rel_yxyx",
    )
    detector.save(folder / "model.keras")
    export_saved_model(detector.with_thresholds(bounding_box_format="xyxy"), folder / "saved_model")
    return folder


@pytest.fixture
def pictures(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 100, (40, 64), "uint8")
    Image.fromarray(pixels).save(tmp_path / "grey.png")
    Image.fromarray(np.stack([pixels] * 3, axis=-1)).save(tmp_path / "colour.jpg")
    (tmp_path / "broken.png").write_bytes((tmp_path / "grey.png").read_bytes()[:200])
    return tmp_path


def run(main, capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return code, output.out.splitlines(), output.err.splitlines()


def test_table_and_pictures(main, models, pictures, capsys):
    model = models / "model.keras"
    code, lines, _ = run(main, capsys, model, pictures / "grey.png", pictures / "colour.jpg")
    assert code == 0
    assert lines[0].split() == ["file", "label", "confidence", "x1", "y1", "x2", "y2", "size"]
    assert {line.split()[1] for line in lines[1 : lines.index("")]} <= {"cat", "dog", "nothing"}
    assert str(pictures / "grey_boxes.png") in lines[-2]
    with Image.open(pictures / "grey_boxes.png") as drawn:
        assert drawn.size == (64, 40)


def test_both_formats_give_the_same_lines_of_json(main, models, pictures, capsys):
    """And files that cannot be used stop nothing; tables of such are in test_files.py."""
    names = "grey.png", "broken.png", "colour.jpg", "missing.png", "flat.png"
    files = [pictures / name for name in names]
    with Image.open(files[0]) as grey:
        grey.crop((0, 0, 64, 32)).save(files[4])
    outputs = []
    for model in ("model.keras", "saved_model"):
        code, lines, _ = run(main, capsys, models / model, *files, "--json")
        assert code == 1
        outputs.append([json.loads(line) for line in lines])
    assert not (pictures / "grey_boxes.png").exists()
    for records in outputs:
        assert [record["file"] for record in records] == [str(file) for file in files]
        errors = ["error" in record for record in records]
        assert errors == [False, True, False, True, False]
    one, two = ([record for record in records if "error" not in record] for records in outputs)
    for first, second in zip(one, two, strict=True):
        assert len(first["detections"]) == len(second["detections"]) > 0
        for a, b in zip(first["detections"], second["detections"], strict=True):
            assert a["label"] == b["label"]
            np.testing.assert_allclose(a["box"], b["box"], atol=0.05)
            assert a.keys() == {"label", "confidence", "box", "size"}


def test_tables_are_all_new_or_none_is_made(main, models, pictures, tmp_path, capsys):
    new, old = tmp_path / "new.csv", tmp_path / "old.csv"
    old.write_text("precious")
    for counts in (old, new):
        flags = ("--csv", new, "--counts", counts)
        code, _, errors = run(main, capsys, models / "model.keras", pictures / "grey.png", *flags)
        assert code == 2 and str(counts) in errors[-1]
    assert old.read_text() == "precious" and not new.exists()


def test_a_model_that_is_none_is_one_line(main, pictures, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong.keras").write_text("nothing")
    for model in ("absent.keras", "wrong.keras", "empty"):
        code, _, errors = run(main, capsys, tmp_path / model, pictures / "grey.png")
        assert code == 2 and len(errors) == 1 and errors[0].startswith("error: ")


def test_loading_names_what_is_missing(tmp_path):
    with pytest.raises(OSError, match="does not exist"):
        load_predictor(tmp_path / "absent")
