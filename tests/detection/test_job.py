"""The whole job with a tiny network: train, stop, go on, measure, export, report."""

import dataclasses
import json
import sys

import keras
import numpy as np
import pytest

from gdn_keras.detection import Detector
from gdn_keras.detection.job import AVERAGE_PRECISION, FILES, run_detection, summary
from gdn_keras.detection.settings import DetectorSettings
from gdn_keras.detection.training import CLASSES, train_detector
from gdn_keras.training.fitting import TrainingStopped
from tests.detection.networks import tiny_network

pytest.importorskip("pycocotools")

SETTINGS = DetectorSettings(
    scales=(1.0, 2.0, 4.0),
    train_scales=(1.0, 2.0),
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


def build(settings, scales):
    return tiny_network(CLASSES, scales=scales)


def test_a_run_leaves_everything_in_its_folder(tmp_path, capsys):
    results = run_detection(SETTINGS, tmp_path / "run", build)
    assert [row["size"] for row in results["sizes"]] == [1, 2]
    assert "at every size from 1" in summary(results)
    for name in FILES:
        assert (tmp_path / "run" / name).exists(), name
    assert json.loads((tmp_path / "run" / AVERAGE_PRECISION).read_text()) == results
    detector = keras.saving.load_model(tmp_path / "run" / "model.keras")
    assert isinstance(detector, Detector)
    assert len(detector.network.layers[-1].scales) == 3
    assert run_detection(SETTINGS, tmp_path / "run", build) == results
    assert "epoch 2/2" in capsys.readouterr().out


def test_a_stopped_training_ends_as_one_that_was_not(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = train_detector(SETTINGS, tmp_path / "a", build)

    fit = Detector.fit

    def interrupted(self, *args, epochs, **kwargs):
        fit(self, *args, epochs=1, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Detector, "fit", interrupted)
        with pytest.raises(TrainingStopped, match=r"after epoch 1\. The same command") as stop:
            train_detector(SETTINGS, tmp_path / "b", build)
    assert stop.value.interrupted
    resumed = train_detector(SETTINGS, tmp_path / "b", build)
    for one, two in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_other_settings_need_another_folder(tmp_path):
    run_detection(SETTINGS, tmp_path, build)
    with pytest.raises(ValueError, match="steps is 3 there and 4 now"):
        run_detection(dataclasses.replace(SETTINGS, steps=4), tmp_path, build)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("pycocotools.coco", r"needs pycocotools: pip install gdn_keras\[detection\]"),
        ("PIL", r"need Pillow: pip install gdn_keras\[plots\]"),
    ],
)
def test_what_is_not_installed_is_missed_before_the_training(
    tmp_path, monkeypatch, module, message
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        run_detection(SETTINGS, tmp_path / "run", build)
    assert not (tmp_path / "run").exists()


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
        dataclasses.replace(SETTINGS, **changes)


@pytest.mark.parametrize("name", ["scales", "train_scales", "train_sizes", "test_sizes"])
def test_numbers_in_place_of_lists_are_refused(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a sequence of numbers. Received: "):
        DetectorSettings(**{name: 1.0})
