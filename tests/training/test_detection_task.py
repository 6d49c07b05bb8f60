"""The whole job with a tiny network: train, stop, go on, measure, export, report."""

import dataclasses
import json
import sys

import keras
import numpy as np
import pytest

from gdn_keras.detection import Detector
from gdn_keras.training import Run, TrainingStopped, run
from gdn_keras.training.detection_task import AVERAGE_PRECISION
from gdn_keras.training.digit_detection import (
    CLASSES,
    DigitDetection,
    DigitRecipe,
)
from tests.detection.networks import tiny_network

pytest.importorskip("pycocotools")

RECIPE = DigitRecipe(
    scales=(0.5, 1.0, 2.0),
    train_scales=(0.5, 1.0),
    train_frame=48,
    train_count=(1, 2),
    batch_size=2,
    steps=3,
    epochs=2,
    test_sizes=(1.0, 2.0),
    test_shape=(64, 96),
    test_count=(1, 3),
    test_scenes=4,
)


def task(recipe=RECIPE):
    return DigitDetection(recipe, lambda _, scales, *__: tiny_network(CLASSES, scales=scales))


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
@pytest.mark.usefixtures("eager")
def test_a_run_leaves_everything_in_its_folder(tmp_path, capsys):
    results = run(task(), tmp_path / "run")
    assert [row["size"] for row in results["sizes"]] == [1, 2]
    assert "at every size from 1" in task().summary(results)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "settings.json",
        "last.keras",
        "model.keras",
        "saved_model",
        "history.csv",
        "logs",
        "average_precision.json",
        "pictures",
        "report.md",
    }
    pictures = {path.name for path in (tmp_path / "run" / "pictures").iterdir()}
    assert pictures == {"average_precision.png", "detections.png"}
    assert json.loads((tmp_path / "run" / AVERAGE_PRECISION).read_text()) == results
    detector = keras.saving.load_model(tmp_path / "run" / "model.keras")
    assert isinstance(detector, Detector)
    assert len(detector.network.layers[-1].scales) == 3
    assert Run(task(), tmp_path / "run").finished
    assert "epoch 2/2" in capsys.readouterr().out


def test_a_stopped_training_ends_as_one_that_was_not(tmp_path, monkeypatch):
    Run(task(), tmp_path / "a").train()
    fit = Detector.fit

    def interrupted(self, *args, epochs, **kwargs):
        fit(self, *args, epochs=1, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Detector, "fit", interrupted)
        with pytest.raises(TrainingStopped, match="after epoch 1") as stop:
            Run(task(), tmp_path / "b").train()
    assert stop.value.interrupted
    Run(task(), tmp_path / "b").train()
    models = [keras.saving.load_model(tmp_path / name / "model.keras") for name in "ab"]
    for one, two in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_other_settings_need_another_folder(tmp_path):
    Run(task(), tmp_path)
    with pytest.raises(ValueError, match="steps is 3 there and 4 now"):
        Run(task(dataclasses.replace(RECIPE, steps=4)), tmp_path)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("pycocotools.coco", r"gdn_keras\[detection\]"),
        ("PIL", r"gdn_keras\[plots\]"),
    ],
)
def test_what_is_not_installed_is_missed_before_the_training(monkeypatch, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        task()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_frame": 16}, "`shape` must have room"),
        ({"test_sizes": (9.0,)}, "`shape` must have room"),
        ({"background": "sky"}, "`background` must be one of"),
        ({"scales": (2.0, 1.0)}, "`scales` must hold at least one value"),
        ({"scales": (1.0, 2.0, 3.0)}, "`scales` of a detector must be in geometric"),
        ({"train_scales": (1.0, 2.0, 3.0)}, "`train_scales` of a detector must be in geometric"),
        ({"learning_rate": 1e-5}, "`final_learning_rate` must be at most `learning_rate`"),
        ({"epochs": 0}, "`epochs` must be an integer"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(RECIPE, **changes)


@pytest.mark.parametrize("name", ["scales", "train_scales", "train_sizes", "test_sizes"])
def test_numbers_in_place_of_lists_are_refused(name):
    with pytest.raises(ValueError, match=name):
        DigitRecipe(**{name: 1.0})
