"""Many pictures on Beam: the same as one by one, and nothing lost."""

import json

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("apache_beam")

from gdn_keras.detection import Detector, SoftThreshold
from gdn_keras.detection.beam import detect_many
from gdn_keras.detection.files import as_records, load_detector, read_picture
from tests.detection.networks import tiny_network

# Raised inside Beam and what it imports.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.keras"
    Detector(tiny_network(2), num_classes=2, preprocessor=SoftThreshold()).save(file)
    return file


def read_lines(folder, name):
    return [json.loads(line) for f in sorted(folder.glob(f"{name}-*")) for line in f.open()]


def test_many_pictures_are_as_one_by_one(model, tmp_path):
    rng = np.random.default_rng(0)
    for k in range(12):
        pixels = rng.integers(0, 100, ((32, 48), (40, 24))[k % 2], "uint8")
        Image.fromarray(pixels).save(tmp_path / f"{k}.png")
    for k in (3, 8):
        (tmp_path / f"{k}.png").write_bytes(b"no picture")
    options = ["--runner=FnApiRunner", "--direct_num_workers=1"]
    detect_many(str(tmp_path / "*.png"), model, tmp_path / "found", options)

    found = {line["file"]: line for line in read_lines(tmp_path / "found", "detections")}
    errors = read_lines(tmp_path / "found", "errors")
    assert sorted(line["file"] for line in errors) == [str(tmp_path / f"{k}.png") for k in (3, 8)]
    assert len(found) == 10
    detector = load_detector(model)
    for file, line in found.items():
        [expected] = as_records(detector.detect(read_picture(file, 1)[None]))
        assert len(line["detections"]) == len(expected)
        for one, two in zip(line["detections"], expected, strict=True):
            assert one["label"] == two["label"]
            np.testing.assert_allclose(one["box"], two["box"], atol=0.05)
