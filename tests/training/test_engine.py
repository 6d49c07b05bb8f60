import csv
import json
import shutil
import sys

import keras
import numpy as np
import pytest

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.models import scale_channels_of
from gdn_keras.training import Classification, Run, TrainingStopped, run
from tests.training.conftest import tiny_data


def test_what_a_run_leaves_behind(finished):
    folder, _ = finished
    names = {f.relative_to(folder).as_posix() for f in folder.glob("*")}
    assert names == {
        "settings.json",
        "model.keras",
        "best.keras",
        "last.keras",
        "saved_model",
        "history.csv",
        "logs",
        "accuracy.csv",
        "accuracy.json",
        "pictures",
        "report.md",
    }
    assert list((folder / "logs").rglob("events*"))
    assert (folder / "saved_model" / "saved_model.pb").exists()
    assert {f.name for f in (folder / "pictures").iterdir()} == {
        "scale_generalization.png",
        "scale_selection.png",
        "receptive_fields.png",
        "confusion.png",
    }


def test_only_the_finished_network_continues_images(finished):
    folder, _ = finished
    networks = [keras.saving.load_model(folder / f"{name}.keras") for name in ("model", "last")]
    assert [scale_channels_of(network).surround for network in networks] == [0.25, 0]


def test_results_are_those_of_the_model(finished, tiny, data):
    folder, results = finished
    model = keras.saving.load_model(folder / "model.keras")
    expected = accuracy_by_size(model, data)
    assert {row["size"]: row["accuracy"] for row in results["sizes"]} == expected
    assert results == json.loads((folder / "accuracy.json").read_text())
    with open(folder / "accuracy.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {float(row["size"]): float(row["accuracy"]) for row in rows} == expected
    for row in results["sizes"]:
        assert np.sum(row["confusion"]) == np.sum(row["selected"]) == row["images"] == 30
        assert np.trace(row["confusion"]) / 30 == pytest.approx(row["accuracy"])
    low, high = results["effective_training_scales"]
    assert low <= high and {low, high} <= set(tiny.scales)
    assert results["settings"]["training_images"] == 200


def test_the_best_epoch_is_kept(finished, data):
    folder, _ = finished
    with open(folder / "history.csv", newline="") as stream:
        best = max(float(row["val_accuracy"]) for row in csv.DictReader(stream))
    model = keras.saving.load_model(folder / "best.keras", compile=False)
    images, labels = data.validation
    found = np.mean(model.predict(images.astype("float32"), verbose=0).argmax(1) == labels)
    assert found == pytest.approx(best, abs=1e-6)


def test_report(finished):
    folder, results = finished
    text = (folder / "report.md").read_text()
    assert "![" in text and "(pictures/scale_generalization.png)" in text
    accuracy = 100 * results["sizes"][0]["accuracy"]
    assert f"| 1 (trained) | {accuracy:.2f} |" in text
    assert "| widths | 4, 6 |" in text and "Trained on size 1 only" in text


def test_a_finished_run_is_drawn_again_but_not_trained(finished, tiny, data, monkeypatch):
    folder, results = finished
    before = (folder / "model.keras").stat().st_mtime_ns
    (folder / "pictures" / "confusion.png").unlink()
    monkeypatch.setattr(keras.Model, "fit", None)
    again = Run(Classification(tiny, data), folder)
    assert again.finished and again.complete() == results
    assert (folder / "pictures" / "confusion.png").exists()
    assert (folder / "model.keras").stat().st_mtime_ns == before


def test_other_runs_are_drawn_beside(finished, tiny, data, tmp_path):
    folder, _ = finished
    run(Classification(tiny, data), folder, {"the other": folder})
    text = (folder / "report.md").read_text()
    assert "| size | 2 scale channels, % | the other, % |" in text
    with pytest.raises(ValueError, match="no finished run"):
        Run(Classification(tiny, data), tmp_path / "new", {"the other": tmp_path})
    assert not (tmp_path / "new").exists()


def test_without_matplotlib_the_report_says_so_once(finished, tiny, data, monkeypatch, capsys):
    folder, _ = finished
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run(Classification(tiny, data), folder)
    text = (folder / "report.md").read_text()
    assert "![" not in text and text.count("pip install gdn_keras[plots]") == 1
    assert capsys.readouterr().out.count("left out") == 1


def test_ctrl_c_after_the_training(finished, tiny, data, monkeypatch, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    (folder / "accuracy.json").unlink()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Classification, "evaluate", interrupted)
    with pytest.raises(TrainingStopped, match="after the training") as stop:
        run(Classification(tiny, data), folder)
    assert stop.value.interrupted


def test_nothing_is_left_behind_by_a_network_that_cannot_be_built(tiny, data, tmp_path):
    class Broken(Classification):
        def network(self):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        Run(Broken(tiny, data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_data_in_the_same_folder_are_refused(finished, tiny):
    with pytest.raises(ValueError, match="training_images is 200 there and 100 now"):
        Run(Classification(tiny, tiny_data(count=100)), finished[0])


def test_a_trained_network_takes_raw_pixels_and_knows_its_classes(finished):
    model = keras.saving.load_model(finished[0] / "model.keras", compile=False)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 1)).astype("uint8")
    images = (
        2 / np.pi * np.arctan(0.02 * (pixels * (255 / pixels.max((1, 2, 3), keepdims=True)) - 128))
    )
    expected = model.network.predict(np.float32(images), verbose=0)
    np.testing.assert_allclose(model.predict(pixels, verbose=0), expected, atol=1e-4)
    assert model.class_names == tuple("0123456789")


def test_the_summary_leaves_extreme_sizes_to_the_table(tiny, data):
    summary = Classification(tiny, data).summary

    def results(accuracies):
        rows = [{"size": size, "accuracy": accuracy} for size, accuracy in accuracies.items()]
        return {"sizes": rows, "settings": {"train_sizes": [2.0]}}

    sizes = [2 ** (k / 4) for k in range(-4, 13)]
    accuracies = dict.fromkeys(sizes, 0.99) | {0.5: 0.1, 8.0: 0.2}
    text = summary(results(accuracies))
    assert "Trained on size 2 only (99.00 % at size 2)" in text
    assert "at least 99.00 % at every test size from 0.707 to 4" in text
    assert "at least 10.00 % at every" in summary(results({0.5: 0.1, 1.0: 0.9}))
    assert summary(results({1.0: 0.9})) == "90.00 % of the test images recognised."
