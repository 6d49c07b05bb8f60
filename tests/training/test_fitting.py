import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from gdn_keras.datasets import (
    ImageData,
    LabelledImages,
    load_embedded_digits,
    load_large_scale,
)
from gdn_keras.models import scale_channels_of
from gdn_keras.reporting import Reporter
from gdn_keras.training import Classification, Recipe, Run, TrainingStopped, run
from gdn_keras.training.fitting import ProgressLine, build, train
from gdn_keras.training.run_folder import Checkpoints
from tests.training.conftest import read_history, tiny_data

ROOT = Path(__file__).parents[2]


def trained(recipe, data, folder):
    """The network after its training, for training images."""
    task = Classification(recipe, data)
    model = build(task)
    train(model, task, folder, Reporter(io.StringIO()))
    return model


def weights_equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.get_weights(), b.get_weights(), strict=True))


def test_it_learned(finished, tiny):
    _, results = finished
    assert results["sizes"][0]["accuracy"] > 0.2
    history = read_history(finished[0])
    assert [row["epoch"] for row in history] == [1, 2, 3]
    assert history[-1]["loss"] < 0.9 * history[0]["loss"]
    assert history[-1]["learning_rate"] == pytest.approx(tiny.final_learning_rate)


@pytest.fixture
def heard_interrupts():
    """Ctrl-C as in a terminal; shells start background jobs with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
def test_ctrl_c_and_going_on_equals_uninterrupted(finished, tiny, data, tmp_path, monkeypatch):
    """Kills are in tests/reliability/test_faults.py; here there is dropout too."""
    end, seen = ProgressLine.on_train_batch_end, []

    def interrupt(self, batch, logs):
        end(self, batch, logs)
        seen.append(batch)
        if len(seen) == self.steps + 4:  # in the middle of the second epoch
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "on_train_batch_end", interrupt)
        with pytest.raises(TrainingStopped, match="holds the network after epoch 1") as stop:
            run(Classification(tiny, data), tmp_path)
    assert stop.value.interrupted and "same command" in str(stop.value)
    assert keras.saving.load_model(tmp_path / "last.keras").input_shape == (None, 32, 32, 1)
    assert not (tmp_path / "model.keras").exists()

    Run(Classification(tiny, data), tmp_path).train()
    folder, _ = finished
    assert (tmp_path / "history.csv").read_bytes() == (folder / "history.csv").read_bytes()
    for name in ("model", "last"):
        models = [keras.saving.load_model(f / f"{name}.keras") for f in (folder, tmp_path)]
        assert weights_equal(*models)


def test_seeds_give_weights(tiny, data):
    same = [build(Classification(dataclasses.replace(tiny, seed=seed), data)) for seed in (1, 1, 2)]
    assert weights_equal(same[0], same[1]) and not weights_equal(same[0], same[2])


@pytest.mark.parametrize(
    ("changes", "terms"), [({}, 5), ({"zero_order": True}, 6), ({"order": 1}, 2), ({"order": 3}, 9)]
)
def test_terms_of_the_jet(tiny, data, changes, terms):
    network = build(Classification(dataclasses.replace(tiny, **changes), data))
    assert scale_channels_of(network).network.layers[0].kernel.shape[0] == terms


def test_residual_blocks_and_scale_dropout(tiny, data):
    recipe = dataclasses.replace(tiny, widths=(4, 4, 4), residual=True, scale_dropout=0.25)
    network = build(Classification(recipe, data))
    layers = scale_channels_of(network).network.layers
    assert any(isinstance(layer, keras.layers.Add) for layer in layers)
    assert network.network.get_layer("scale_pooling").dropout == 0.25


def test_a_loss_that_is_not_finite_stops_before_anything_is_kept(tiny, tmp_path):
    tiny, data = dataclasses.replace(tiny, epochs=1, scales=(1.0,)), tiny_data(count=40)
    broken = np.array(data.train.images, "float32")
    broken[30] = np.nan
    data = dataclasses.replace(data, train=LabelledImages(broken, data.train.labels))
    with pytest.raises(TrainingStopped, match="because the loss became nan") as stop:
        trained(tiny, data, tmp_path)
    assert not stop.value.interrupted and "`learning_rate` (it was 0.01)" in str(stop.value)
    assert not (tmp_path / "last.keras").exists()


def test_train_small_use_large(tiny, tmp_path):
    recipe = dataclasses.replace(tiny, train_scales=(1.0,), epochs=1, scales=(1.0, 2.0, 3.0))
    Run(Classification(recipe, tiny_data(train_frame=28, count=40)), tmp_path).train()
    model = keras.saving.load_model(tmp_path / "model.keras")
    assert model.input_shape == (None, 32, 32, 1)
    assert scale_channels_of(model).scales == (1.0, 2.0, 3.0)
    last = keras.saving.load_model(tmp_path / "last.keras")
    assert last.input_shape == (None, 28, 28, 1)
    assert weights_equal(model, last)


@pytest.mark.parametrize("precision", ["float16", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_mixed_precision(tiny, tmp_path, precision):
    recipe = dataclasses.replace(tiny, precision=precision, epochs=1, scales=(1.0,))
    data = tiny_data(count=40)
    model = trained(recipe, data, tmp_path)
    assert scale_channels_of(model).network.layers[0].compute_dtype == precision
    assert keras.config.dtype_policy().name == "float32"
    assert np.isfinite(read_history(tmp_path)[-1]["loss"])
    again = build(Classification(recipe, data))
    assert isinstance(again.optimizer, keras.optimizers.LossScaleOptimizer) == (
        precision == "float16"
    )
    assert Checkpoints(tmp_path, Reporter()).restore(again) == 1
    assert weights_equal(again, model)


def test_loss_and_schedule(tiny, data):
    for loss, kind in (
        ("binary", keras.losses.BinaryCrossentropy),
        ("softmax", keras.losses.CategoricalCrossentropy),
    ):
        model = build(Classification(dataclasses.replace(tiny, loss=loss), data))
        assert isinstance(model.loss, kind) and not model.jit_compile
    for step, rate in ((0, 0.01), (15, (0.01 + 5e-5) / 2), (30, 5e-5)):  # three epochs of ten
        model.optimizer.iterations.assign(step)
        assert float(model.optimizer.learning_rate) == pytest.approx(rate)


# On a machine without GPUs, two CPU devices stand for them.
DISTRIBUTED_RUN = """
import json, sys
from pathlib import Path
import tensorflow as tf
devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
from gdn_keras.training import Recipe
from gdn_keras.training.distribution import training_strategy
from tests.training.conftest import tiny_data
from tests.training.test_fitting import trained
recipe = Recipe(**json.loads(sys.argv[1]))
assert training_strategy().num_replicas_in_sync == 2
trained(recipe, tiny_data(count=40), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_two_devices_train_as_one(tiny, tmp_path):
    one = dataclasses.replace(tiny, widths=(4,), scales=(1.0,), epochs=1)
    two = json.dumps(dataclasses.replace(one, distribute=True).as_dict())
    command = [sys.executable, "-c", DISTRIBUTED_RUN, two, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "one").mkdir()
    trained(one, tiny_data(count=40), tmp_path / "one")
    losses = [read_history(f)[0]["loss"] for f in (tmp_path, tmp_path / "one")]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def light_rows(images):
    """Number of rows in which each image changes."""
    return (np.ptp(images, axis=(2, 3)) > 0.1).sum(axis=1)


def augmented(images, pixels=False, **recipe):
    """Images as `Classification` shows them in training."""
    part = LabelledImages(images, np.zeros(len(images), int))
    names, preprocessor = tuple("01"), keras.layers.Rescaling(1 / 255) if pixels else None
    data = ImageData(
        "some", part, part, lambda size: part, (1.0,), names, preprocessor=preprocessor
    )
    for layer in Classification(Recipe(**recipe), data).augmentation():
        images = layer(images, seed=(0, 1))
    return np.asarray(images)


def digits():
    return load_embedded_digits().x_test[:60, ..., None].astype("float32") / 255


@pytest.mark.parametrize("sizes", [(2.0,), (1.0, 2.0)])
def test_augmentation_moves_all_digits_and_loses_none(sizes):
    images = load_large_scale("test", sizes[-1], count=60, cache=False).images.astype("float32")
    images = images.reshape(60, 112, 112, 1)
    changed = augmented(images, augment=tuple(28 * size for size in (sizes[0], sizes[-1])))
    assert np.abs(changed - images).max(axis=(1, 2, 3)).min() > 0.1
    # A frame shows at least the middle 14 of 28 rows of a digit, which is at least half of it.
    assert (light_rows(changed) > 0.45 * light_rows(images)).all()
    edges = np.ptp(changed[:, 0], axis=(1, 2)) > 0.1  # strokes that go on to the edge
    assert 3 < edges.sum() < 40


def test_original_digits_are_not_framed_and_nothing_is_done_without_augmentation(data):
    changed = augmented(digits(), augment=(28, 28))
    assert np.abs(changed - digits()).max() > 0.5
    assert np.ptp(changed[:, 0], axis=(1, 2)).max() < 0.1
    assert not Classification(Recipe(), data).augmentation()


def test_photographs_differ_in_light_and_focus_and_stay_pixels():
    photographs = np.random.default_rng(0).uniform(0, 255, (20, 12, 12, 1)).astype("float32")
    changed = augmented(photographs, pixels=True, light=True)
    assert changed.min() >= 0 and changed.max() <= 255
    means, edges = (
        [np.ptp(f(images)) for images in (photographs, changed)]
        for f in (
            lambda images: images.mean(axis=(1, 2, 3)),
            lambda images: np.abs(np.diff(images, axis=1)).mean(axis=(1, 2, 3)),
        )
    )
    assert means[1] > 2 * means[0] and edges[1] > 2 * edges[0]


def test_light_is_changed_after_the_places_of_things():
    changes = Classification(Recipe(augment=(28, 28), light=True), tiny_data()).augmentation()
    names = [type(change).__name__ for change in changes]
    assert names[0] == "RandomAffine" and names[-2:] == ["RandomLight", "RandomBlur"]
