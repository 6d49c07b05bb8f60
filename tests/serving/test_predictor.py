"""Both formats give the same answers, for pictures as training sees them."""

import keras
import numpy as np
import pytest
from PIL import Image

from gdn_keras.datasets.boxes import BoxedImage, read_boxed_images
from gdn_keras.export import export_saved_model
from gdn_keras.models import Classifier
from gdn_keras.serving import Picture, Predictor, load_predictor, read_pictures
from gdn_keras.serving.predictor import MAX_BATCH
from tests.exported import small_network


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
        [scene] = read_pictures(file, 3)
        image = BoxedImage(file, scene.pixels.shape[:2], np.zeros((0, 4)), np.zeros(0))
        [pixels] = read_boxed_images([image])[0]
        np.testing.assert_array_equal(pixels, scene.pixels, err_msg=file.name)
        assert scene.shrink == 1


def test_both_formats_give_the_same_answers(models, files):
    one, two = (load_predictor(models / name) for name in ("model.keras", "saved_model"))
    assert one.kind == two.kind == "classes" and one.frame == two.frame == (40, 36)
    for file, first, second in zip(files, one.answers(files), two.answers(files), strict=True):
        assert first["file"] == second["file"] == str(file)
        assert [c["label"] for c in first["classes"]] == [c["label"] for c in second["classes"]]
        assert len(first["classes"]) == 5 and first["classes"][0]["label"].startswith("class ")
        for a, b in zip(first["classes"], second["classes"], strict=True):
            assert a["confidence"] == pytest.approx(b["confidence"], abs=2e-4)
        assert "size" not in first and second["size"] > 0


def test_sizes_are_those_in_the_file(models, tmp_path):
    small = np.random.default_rng(1).integers(0, 256, (10, 9, 3), "uint8")
    large = np.kron(small, np.ones((16, 16, 1), "uint8"))
    Image.fromarray(large).save(tmp_path / "large.png")
    predictor = load_predictor(models / "saved_model")
    [picture] = predictor.read(tmp_path / "large.png")
    assert picture.shrink == 4
    [at_hand] = predictor.records([picture._replace(shrink=1.0)])
    [record] = predictor.answers([tmp_path / "large.png"])
    assert record["size"] == pytest.approx(4 * at_hand["size"], rel=1e-3)


def test_equal_probabilities_are_ordered_by_logits():
    logits = np.array([[100, 300, 200]], "float32")
    arrays = {"logits": logits, "probabilities": np.ones((1, 3)), "names": np.array([*"abc"])}
    predictor = Predictor(1, (8, 8), lambda images: arrays)
    [record] = predictor.records([Picture("x", np.zeros((8, 8, 1), "uint8"))])
    assert record["classes"] == [{"label": label, "confidence": 1.0} for label in "bca"]


def test_batches_hold_one_size_and_are_small():
    shapes = []

    def predict(images):
        shapes.append(images.shape)
        return {"num_detections": np.zeros(len(images), int)}

    sizes = [(8, 8, 1), (9, 7, 1)]
    pictures = [Picture(str(k), np.zeros(sizes[k % 2], "uint8")) for k in range(2 * MAX_BATCH + 6)]
    records = Predictor(1, None, predict).records(pictures)
    assert [record["file"] for record in records] == [str(k) for k in range(len(pictures))]
    assert shapes == [(n, *size) for size in sizes for n in (MAX_BATCH, 3)]


def test_a_picture_that_fails_does_not_take_others_along():
    def predict(images):
        if (images == 7).any():
            raise MemoryError("too much\nto do")
        return {"num_detections": np.zeros(len(images), int)}

    pictures = [Picture(str(k), np.full((4, 4, 1), k, "uint8")) for k in range(9)]
    records = Predictor(1, None, predict).records(pictures)
    assert records.pop(7) == {"file": "7", "error": "too much to do"}
    assert all(record["detections"] == [] for record in records)


def test_networks_that_take_no_pixels_are_refused(tmp_path):
    network = small_network((24, 24, 1))
    network.save(tmp_path / "model.keras")
    export_saved_model(network, tmp_path / "saved_model")
    for name in ("model.keras", "saved_model"):
        with pytest.raises(OSError, match="pixels"):
            load_predictor(tmp_path / name)
