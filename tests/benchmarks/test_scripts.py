"""Each benchmark runs with tiny settings and writes what it says; contestants are fair."""

import csv
import dataclasses
import functools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import alternatives
import keras
import latency
import many_pictures
import numpy as np
import pytest
import roofline
import run
import scaling
import startup
import stir_mnist
import surround
import variants
from contest.literal_keras import LiteralNetwork
from contest.processes import Process
from contest.rescaling import pyramid_cnn, random_rescaling
from contest.suite import Settings, run_suite
from contest.tensorflow_steps import plain_cnn
from detectors import bfloat16, evaluate, pictures, speed
from detectors import run as detectors_run

from gdn_keras.datasets import load_boxes
from gdn_keras.detection import Detector
from gdn_keras.models import gaussian_derivative_network, scale_channels_of
from gdn_keras.training import Recipe, picture_precision
from gdn_keras.training.digit_detection import DigitRecipe
from tests.datasets.boxed_folders import write_voc

DETECTOR = Path(__file__).parents[2] / "saved_models" / "digit_detector" / "model.keras"
SCENES = {"test_shape": (120, 160), "test_sizes": (1.0, 2.0), "test_count": (4, 6)}
TINY = {"widths": (4, 4, 4), "scales": (1.0, 2.0), "train_scales": (1.0, 2.0), "train_frame": 48}
SPACE = {"train_sizes": (1,), "test_sizes": (0.5, 1), "frame": 32, "count": 40, "test_count": 10}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def small_scenes(monkeypatch):
    for module in (evaluate, detectors_run):
        settings = functools.partial(
            DigitRecipe, train_count=(1, 2), test_scenes=2, **TINY, **SCENES
        )
        settings.epochs, settings.steps = 1, 1
        monkeypatch.setattr(module, "DigitRecipe", settings)
    monkeypatch.setattr(detectors_run, "SHAPES", ((40, 48),))


def words(text, folder):
    return [*text.split(), "--output", str(folder)]


def test_alternatives(tmp_path, monkeypatch):
    monkeypatch.setattr(alternatives, "_REPEATS", 4)
    recipe = Recipe(widths=(4, 6), batch_size=10, epochs=1)
    task = alternatives.TASKS["large_scale"]
    task = dataclasses.replace(task, options=SPACE, recipe=recipe, window=24)
    monkeypatch.setitem(alternatives.TASKS, "large_scale", task)
    alternatives.main(words("--only augmented pyramid all_levels", tmp_path))
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"augmented", "pyramid", "all_levels"}
    assert all(set(result["accuracy"]) == {"0.5", "1"} for result in results.values())
    assert "| all_levels, % |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "curves.png").exists()


def test_variants(tmp_path, monkeypatch):
    recipe = Recipe(widths=(4, 6), scales=(1.0, 2.0), batch_size=10, epochs=1)
    monkeypatch.setitem(variants.TASKS, "digits", variants.Task("mnist_large_scale", SPACE, recipe))
    monkeypatch.setattr(variants, "PAPER_SCALES", (1.0, 2**0.5, 2.0))
    variants.main(words("plain zero_order=True,cone=2 --seeds 0 --images 20", tmp_path))
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"plain", "zero_order=True,cone=2"}
    assert "| plain |" in (tmp_path / "table.md").read_text()
    with pytest.raises(ValueError, match="Recipe"):
        variants.parse_variant("depth=3")


def test_stir_mnist(tmp_path):
    flags = "--scenario 1 --digits 1 --epochs 1 --widths 4 6 --train-frame 40 --scales 1 2 2"
    assert stir_mnist.main(words(flags + " --train-scales 1 2 2", tmp_path)) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["accuracy"]) == 48 and set(results["mean"]) == {"seen", "unseen", "all"}


def test_random_rescaling_keeps_the_range_of_pixels():
    images = np.random.default_rng(0).uniform(0, 255, (2, 16, 16, 1)).astype("float32")
    rescaled = random_rescaling(16, (1.0,), "edge")(images, np.int64(3))
    np.testing.assert_allclose(rescaled, images, atol=1e-2)


def test_surround(tmp_path, monkeypatch):
    monkeypatch.setattr(surround, "SURROUNDS", (0.0, 0.5))
    monkeypatch.setattr(surround, "SIZES", (2.0, 8.0))
    surround.main(words("--networks default_size1 --digits 50", tmp_path))
    results = json.loads((tmp_path / "results.json").read_text())
    plain, continued = (results[f"default_size1, {share}"] for share in ("0", "0.5"))
    assert plain["accuracy"]["8"] < continued["accuracy"]["8"] > 0.9
    assert len((tmp_path / "table.md").read_text().splitlines()) == 4


def test_roofline(tmp_path, monkeypatch):
    monkeypatch.setitem(roofline.WIDTHS, "large", (4, 4, 3))
    monkeypatch.setattr(roofline, "measure_limits", lambda: roofline.Limits(1e9, 1e9))
    roofline.main(words("--batch 4 --side 24 --steps 1", tmp_path))
    table = (tmp_path / "roofline.md").read_text()
    assert "| convolutions, forward |" in table and "| scheduling and waiting |" in table


def test_roofline_of_detection(tmp_path, monkeypatch):
    monkeypatch.setattr(roofline, "SHAPES", ((48, 64),))
    monkeypatch.setattr(roofline, "measure_limits", lambda: roofline.Limits(1e9, 1e30))
    roofline.main(words("--detection --steps 1", tmp_path))
    with open(tmp_path / "detection_roofline.csv", newline="") as stream:
        rows = {row["name"].removeprefix("roofline: "): row for row in csv.DictReader(stream)}
    for name in ("ours", "pyramid, octaves"):
        kinds = ("convolutions", "smoothing and sampling", "decoding")
        assert all(float(rows[f"{name}, {kind}"]["64x48"]) > 0 for kind in kinds)
    # Convolutions are counted even where others are fused with them.
    network = speed.detector_of(*speed.CONTESTANTS["ours"]).network
    costs = scale_channels_of(network).costs((48, 64, 3))
    bound = 2e-6 * sum(cost.mixing for cost in costs)  # ms at 1 Gflop/s
    assert float(rows["ours, convolutions"]["64x48 bound"]) == pytest.approx(bound, abs=0.01)


@pytest.mark.slow
def test_detectors(tmp_path, small_scenes):
    detectors_run.main(words("--only pyramid --epochs 1 --steps 1", tmp_path))
    assert "| pyramid |" in (tmp_path / "report.md").read_text()


def test_evaluate(tmp_path, small_scenes):
    evaluate.main(words(f"{DETECTOR} --scenes 2", tmp_path / "results.json"))
    assert json.loads((tmp_path / "results.json").read_text())["all"]["ap50"] > 0.9


def test_bfloat16(tmp_path, monkeypatch):
    monkeypatch.setattr(bfloat16, "RECIPE", {"validation": "0.5"})
    monkeypatch.setattr(picture_precision, "MAGNIFICATIONS", (1.0,))
    boxes = [("nucleus", x, y, x + 28, y + 28) for x in (10, 60) for y in (20, 80)]
    folder = write_voc(tmp_path / "pictures", (100, 128), p0=boxes, p1=boxes)
    bfloat16.main([str(folder), "--output", str(tmp_path / "results.csv")])
    with open(tmp_path / "results.csv", newline="") as stream:
        found = {row["name"]: float(row["ap50"]) for row in csv.DictReader(stream)}
    assert found == {"nuclei in float32": 1.0, "nuclei in bfloat16": 1.0}
    detector = Detector.from_preset("nuclei")
    bfloat16.to_bfloat16(detector)
    first, *_, last = scale_channels_of(detector).shared_layers
    assert (first.compute_dtype, last.compute_dtype) == ("bfloat16", "float32")


def test_pictures(tmp_path, monkeypatch):
    recipe = {"validation": "0.5", "widths": (4, 4, 4), "train_scales": (1.0, 2.0), "crop": 48}
    recipe |= {"sigmas": (1.0, 2.0, 2.0, 4.0), "batch_size": 1, "epochs": 1, "steps": 1}
    tests = {"all": ("", 1.0)}
    task = pictures.Task(recipe, tests, ranges=((16, 24), (24, 32)), stretch=(0.7, 1.0))
    monkeypatch.setattr(pictures, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    monkeypatch.setitem(pictures.TASKS, "road_signs", task)
    rows = {f"p{k}": [("cell", 8, 10, 34, 30), ("atom", 60, 20, 80, 40)] for k in range(2)}
    folder = write_voc(tmp_path / "pictures", (96, 64), **rows)
    flags = words(f"road_signs {folder} --only ours all_sizes", tmp_path / "out")
    for _ in range(2):  # what is there is not done again
        pictures.main(flags)
        with open(tmp_path / "out" / "results.csv", newline="") as stream:
            found = list(csv.DictReader(stream))
        # Two classes, of all sizes and in two ranges.
        names = [
            f"road_signs: {name}, {kind}"
            for name in ("ours", "all_sizes")
            for kind in ("atom", "cell")
            for _ in range(3)
        ]
        assert [row["name"] for row in found] == names
        assert [row["objects"] for row in found[:6]] == ["1", "1", "0", "1", "0", "1"]
        monkeypatch.setattr(pictures, "train", None)


def test_pictures_for_yolo(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())  # or the import chooses PyTorch
    from detectors import yolo

    rows = {f"p{k}": [("cell", 8, 10, 34, 30), ("atom", 60, 20 + k, 80, 40)] for k in range(2)}
    data = load_boxes(write_voc(tmp_path / "voc", (96, 64), **rows))
    parts = {"train": data.images[:1], "val": data.images[1:]}
    yolo.write_pictures(parts, data.class_names, tmp_path / "yolo")
    written = load_boxes(tmp_path / "yolo")
    assert written.kind == "YOLO" and written.class_names == data.class_names
    for image, given in zip(written.images, data.images, strict=True):
        np.testing.assert_allclose(image.boxes, given.boxes, atol=1e-3)
        np.testing.assert_array_equal(image.labels, given.labels)


@pytest.mark.slow
def test_speed(tmp_path):
    sizes = {"sides": (12, 24), "counts": (3, 5), "batches": (1, 2), "widths": {"tiny": (2, 2)}}
    batches = {"literal_batch": 1, "dense_batch": 1, "batch": 2, "memory_batch": 2}
    settings = Settings(
        nets=("tiny",), side=24, channels=3, rounds=1, turn=0, product_size=64, **sizes, **batches
    )
    run.write_results(run_suite(settings, Process), tmp_path, drawing=True)
    assert "| gdn_keras, matched | 2 |" in (tmp_path / "benchmark.md").read_text()
    assert (tmp_path / "growth.png").exists() and (tmp_path / "benchmark.json").exists()


@pytest.mark.slow
def test_startup_and_latency(tmp_path):
    startup.main(words("--turns 1", tmp_path))
    assert "| first prediction |" in (tmp_path / "startup.md").read_text()
    pytest.importorskip("tf2onnx")
    latency.main(words("--preset mnist --threads 1 --turns 1 --calls 3", tmp_path))
    assert "| LiteRT | 1 |" in (tmp_path / "latency.md").read_text()


@pytest.mark.slow
def test_several_processes(capsys):
    pytest.importorskip("jax")
    scaling.main(["--processes", "1", "2", "--batch", "4", "--side", "32", "--steps", "2"])
    assert "| 2 |" in capsys.readouterr().out
    pytest.importorskip("apache_beam")
    assert many_pictures.main(["--pictures", "9", "--corrupt", "2"]) == 0


def test_literal_keras_is_the_dense_network():
    widths, scales = (4, 5, 3), (0.7, 1.0, 1.4)
    images = np.random.default_rng(1).normal(size=(3, 30, 30, 1)).astype("float32")
    model = gaussian_derivative_network(
        (30, 30, 1), widths[:-1], widths[-1], scales, sampling="dense", truncation=1e-5
    )
    literal = LiteralNetwork(widths, scales, truncation=1e-5)
    literal(images)
    literal.copy_weights(scale_channels_of(model).network)
    np.testing.assert_allclose(literal(images), model(images), atol=1e-3)


def test_pyramid_is_the_maximum_of_plain_cnns_over_its_levels():
    images = np.random.default_rng(1).normal(size=(3, 32, 32, 1)).astype("float32")
    network = pyramid_cnn((32, 32, 1), (4, 6, 10), (0.5, 1.0), 32, "edge")
    levels = []
    for factor in (0.5, 1.0):
        levels.append(pyramid_cnn((32, 32, 1), (4, 6, 10), [factor], 32, "edge"))
        levels[-1].set_weights(network.get_weights())
    found = [keras.ops.convert_to_numpy(level(images)) for level in levels]
    np.testing.assert_allclose(network(images), np.max(found, axis=0), atol=1e-5)
    plain = plain_cnn((32, 32, 1), (4, 6, 10))
    plain.set_weights(network.get_weights())
    np.testing.assert_allclose(plain(images), found[1], atol=1e-5)
