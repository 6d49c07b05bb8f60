"""Both formats give the same answers, for pictures as training sees them."""

import keras
import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

from gdn_keras.datasets import load_dataset, read_picture
from gdn_keras.datasets.boxes import BoxedImage, read_boxed_images
from gdn_keras.detection import Detector
from gdn_keras.export import export_saved_model
from gdn_keras.models import Classifier, gaussian_derivative_network
from gdn_keras.serving import Picture, Predictor, load_predictor, read_pictures
from gdn_keras.serving.predictor import MAX_BATCH, MAX_BATCH_PIXELS
from tests.detection.networks import tiny_network
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


def test_classifiers_see_pictures_as_training_on_a_folder_does(tmp_path):
    rng = np.random.default_rng(0)
    sizes = [(20, 31), (90, 50), (40, 36), (200, 300), (41, 36)]
    for k, size in enumerate(sizes * 2):
        (tmp_path / "ab"[k % 2]).mkdir(exist_ok=True)
        file = tmp_path / "ab"[k % 2] / f"{k}.png"
        Image.fromarray(rng.integers(0, 256, (*size, 3), "uint8")).save(file)
    data = load_dataset("folder", tmp_path, frame=40, validation_share=0.5)
    trained = [*np.asarray(data.train.images), *np.asarray(data.validation.images)]
    seen = [p.pixels for f in tmp_path.rglob("*.png") for p in read_pictures(f, 3, (40, 40))]
    assert len(seen) == len(sizes) * 2
    assert {pixels.tobytes() for pixels in trained} == {pixels.tobytes() for pixels in seen}


def test_pages_are_pictures_and_thumbnails_are_not(tmp_path):
    pages = [Image.fromarray(np.full((8, 9), 40 * k, "uint8")) for k in range(4)]
    tag = TiffImagePlugin.ImageFileDirectory_v2()
    tag[254] = 1
    pages[2].encoderinfo = {"tiffinfo": tag}
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    found = [*read_pictures(tmp_path / "a.tif", 1)]
    assert [picture.page for picture in found] == [1, 2, 4]
    assert [picture.pixels.mean() for picture in found] == [0, 40, 120]
    assert read_picture(tmp_path / "a.tif", 1).mean() == 0
    cut = (tmp_path / "a.tif").read_bytes()[:-20]
    (tmp_path / "cut.tif").write_bytes(cut)
    *_, last = read_pictures(tmp_path / "cut.tif", 1)
    assert last.error


def test_polarity_is_that_of_the_file_unless_it_is_inverted(tmp_path):
    pixels = np.full((20, 30), 250, "uint8")
    pixels[5:9, 6:20] = 0
    Image.fromarray(pixels).save(tmp_path / "paper.png")
    for channels in (1, 3):
        [plain] = read_pictures(tmp_path / "paper.png", channels)
        [other] = read_pictures(tmp_path / "paper.png", channels, invert=True)
        np.testing.assert_array_equal(plain.pixels[..., 0], pixels)
        np.testing.assert_array_equal(other.pixels, 255 - plain.pixels)


def test_enlarged_pictures_are_answered_in_pixels_of_the_file(tmp_path):
    file = tmp_path / "model.keras"
    Detector(tiny_network(2), num_classes=2, preprocessor=keras.layers.Rescaling(1 / 255)).save(
        file
    )
    predictor = load_predictor(file)
    small = np.random.default_rng(2).integers(0, 256, (24, 32), "uint8")
    Image.fromarray(small).save(tmp_path / "a.png")
    [picture] = predictor.read(tmp_path / "a.png", enlarge=3)
    assert picture.pixels.shape == (72, 96, 1)
    [found] = predictor.records([picture])
    [larger] = predictor.records([picture._replace(shrink=1.0)])
    assert found["detections"]
    for one, three in zip(found["detections"], larger["detections"], strict=True):
        np.testing.assert_allclose(np.multiply(3, one["box"]), three["box"], atol=0.03)
        assert 3 * one["size"] == pytest.approx(three["size"], abs=0.03)
    with pytest.raises(ValueError, match="enlarge"):
        next(predictor.read(tmp_path / "a.png", enlarge=0))


def test_batches_and_what_waits_are_bounded_by_memory(tmp_path):
    shapes = []

    def predict(images):
        shapes.append(images.shape)
        return {"num_detections": np.zeros(len(images), int)}

    side = int(np.sqrt(MAX_BATCH_PIXELS / 2))
    pictures = [Picture(str(k), np.zeros((side, side, 1), "uint8")) for k in range(5)]
    Predictor(1, None, predict).records(pictures)
    assert [shape[0] for shape in shapes] == [2, 2, 1]
    assert Picture("x", np.zeros((9000, 12000, 1), "uint8")).weight > 64
    assert pictures[0].weight == 1


def test_saved_models_refuse_large_pictures_in_a_sentence(tmp_path, monkeypatch):
    detector = Detector(
        tiny_network(2),
        num_classes=2,
        preprocessor=keras.layers.Rescaling(1 / 255),
        class_names=["cat", "dog"],
    )
    export_saved_model(detector, tmp_path / "model")
    predictor = load_predictor(tmp_path / "model")
    assert predictor.class_names == ("cat", "dog")
    monkeypatch.setattr("gdn_keras.serving.predictor.MAX_WHOLE_PIXELS", 1000)
    pictures = [Picture(str(n), np.zeros((n, n, 1), "uint8")) for n in (30, 40)]
    small, large = predictor.records(pictures)
    assert "detections" in small and ".keras" in large["error"]


def test_large_pictures_are_cut_into_tiles(tmp_path, monkeypatch):
    file = tmp_path / "model.keras"
    network = gaussian_derivative_network((None, None, 1), (4,), 2, (1, 1.41, 2), readout="points")
    preprocessor = keras.layers.Rescaling(1 / 255)
    options = {"confidence_threshold": 0.05, "max_detections": 1000}
    Detector(network, 2, preprocessor=preprocessor, **options).save(file)
    predictor = load_predictor(file)
    pixels = np.random.default_rng(3).integers(0, 256, (60, 80, 1), "uint8")
    [whole] = predictor.records([Picture("a", pixels)])
    monkeypatch.setattr("gdn_keras.serving.predictor.MAX_BATCH_PIXELS", 1000)
    [tiled] = predictor.records([Picture("a", pixels)])
    assert len(whole["detections"]) == len(tiled["detections"]) > 0
    for one, two in zip(whole["detections"], tiled["detections"], strict=True):
        np.testing.assert_allclose(one["box"], two["box"], atol=0.1)


def test_saved_detectors_refuse_what_the_keras_file_refuses(tmp_path):
    detector = Detector(tiny_network(2), 2, preprocessor=keras.layers.Rescaling(1 / 255))
    export_saved_model(detector, tmp_path / "saved_model")
    detector.save(tmp_path / "model.keras")
    Image.new("L", (9, 2)).save(tmp_path / "flat.png")
    Image.fromarray(np.full((9, 9), np.nan, "float32")).save(tmp_path / "nan.tif")
    files = [tmp_path / "flat.png", tmp_path / "nan.tif"]
    for name in ("model.keras", "saved_model"):
        flat, nan = load_predictor(tmp_path / name).answers(files)
        assert "at least 3x3 pixels" in flat["error"]
        assert "none of its pixels is a number" in nan["error"]
