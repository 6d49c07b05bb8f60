"""The same batches give the same weights on one device, on several, and in several processes."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from gdn_keras.datasets import (
    ImageData,
    LabelledImages,
    RandomAffine,
    evaluation_pipeline,
    steps_per_epoch,
    training_pipeline,
)
from gdn_keras.training import Classification, Recipe, distribution
from gdn_keras.training.command_line import recipe_parser, run_command
from gdn_keras.training.fitting import build
from tests.layers.networks import on_tensorflow
from tests.training.conftest import read_history

ROOT = Path(__file__).parents[2]
RECIPE = Recipe(widths=(4,), scales=(1.0, 2.0), batch_size=8, learning_rate=0.1)
THREE_DEVICES = SimpleNamespace(num_replicas_in_sync=3, num_model_replicas=3)
ONE_DEVICE = SimpleNamespace(scope=contextlib.nullcontext)
IMAGES = 20  # so that the last batch of an epoch is smaller

UPDATE = """
import json, os, sys
file, devices, cluster = json.loads(sys.argv[1])
if os.environ["KERAS_BACKEND"] == "tensorflow":
    import tensorflow as tf
    logical = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
import dataclasses
import numpy as np
from gdn_keras.training import distribution
if cluster is not None:
    distribution.join(*cluster)
from tests.training.test_distribution import RECIPE, updated_weights
recipe = dataclasses.replace(RECIPE, distribute=True)
assert distribution.device_count(recipe) == devices
weights = updated_weights(recipe)
distribution.leave()
np.savez(file, *weights)
"""


def darken(images, seed):
    """By a factor that the seed tells, on any backend; random numbers are the backend's own."""
    return images * (1 - 0.1 * keras.ops.cast(seed[1] % 5, "float32"))


def blank_data(images, labels):
    part = LabelledImages(images, labels)
    return ImageData("blank", part, part, lambda size: part, (1.0,), tuple("0123456789"))


def updated_weights(recipe):
    """Weights and moving statistics after two epochs of gradient descent."""
    rng = np.random.default_rng(0)
    contrast = np.linspace(0.2, 2, IMAGES)[:, None, None, None]  # the devices' shares differ
    images = (contrast * rng.normal(size=(IMAGES, 20, 20, 1))).astype("float32")
    labels = rng.integers(0, 10, IMAGES)
    strategy = distribution.training_strategy() if recipe.distribute else ONE_DEVICE
    with strategy.scope():
        model = build(Classification(recipe, blank_data(images, labels)))
        model.set_weights([rng.uniform(0.5, 1.0, w.shape) for w in model.get_weights()])
        model.compile(
            keras.optimizers.SGD(recipe.learning_rate),
            keras.losses.BinaryCrossentropy(from_logits=True),
        )
        augment = [RandomAffine(0.0, 0.0, 0.0), darken]
        batches = training_pipeline(images, labels, batch_size=recipe.batch_size, augment=augment)
        model.fit(
            distribution.shared_out(batches, distribution.device_count(recipe))
            if recipe.distribute
            else batches,
            steps_per_epoch=steps_per_epoch(IMAGES, recipe.batch_size),
            epochs=2,
            shuffle=False,
            verbose=0,
        )
    return model.get_weights()


@pytest.fixture(scope="module")
def on_one_device():
    return updated_weights(RECIPE)


def start(file, backend, devices, cluster=None, **environment):
    """A process that trains on so many devices, its own ones or those of two processes."""
    own = devices if cluster is None else devices // 2
    # Compiles faster with level 1. Not 0: XLA's code for it then gives NaN on several devices.
    flags = f"--xla_force_host_platform_device_count={own} --xla_backend_optimization_level=1"
    return subprocess.Popen(
        [sys.executable, "-c", UPDATE, json.dumps([str(file), devices, cluster])],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend, "XLA_FLAGS": flags, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def check_equal(processes, files, expected):
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
    for file in files:
        with np.load(file) as weights:
            for name, value in zip(weights, expected, strict=True):
                np.testing.assert_allclose(weights[name], value, atol=1e-5, rtol=0)


@on_tensorflow
def test_two_devices_of_this_process(two_devices, on_one_device, monkeypatch):
    recipe = dataclasses.replace(RECIPE, distribute=True)
    assert distribution.device_count(recipe) == 2
    monkeypatch.setattr(distribution, "training_strategy", lambda: two_devices)
    for value, expected in zip(updated_weights(recipe), on_one_device, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "devices"), [("tensorflow", 4), ("jax", 2)])
def test_devices(backend, devices, on_one_device, tmp_path):
    file = tmp_path / "weights.npz"
    check_equal([start(file, backend, devices)], [file], on_one_device)


MEETING = """
import sys
from types import SimpleNamespace
from gdn_keras.training import distribution
address, process = sys.argv[1], int(sys.argv[2])
distribution.join(address, 2, process)
assert (distribution.process_count(), distribution.process_index()) == (2, process)
assert distribution.agreed(process + 7.0) == 7
runs = [SimpleNamespace(settings={"seed": 1})]
assert distribution.prepare_together(lambda: runs) == runs
try:
    distribution.prepare_together(lambda: runs if process else 1 / 0)
except (ValueError, ZeroDivisionError) as error:
    print(error)
distribution.leave()
"""


def test_two_processes_meet_and_agree():
    """What they train then, and the loss of one, is in the slow tests."""
    address, environment = f"127.0.0.1:{free_port()}", {**os.environ, "KERAS_BACKEND": "jax"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEETING, address, str(process)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert "division" in said[0][0] and "Process 0 could not begin" in said[1][0]


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_two_processes(devices, on_one_device, tmp_path):
    files = [tmp_path / f"weights{i}.npz" for i in range(2)]
    address = f"127.0.0.1:{free_port()}"
    processes = [start(file, "jax", devices, [address, 2, i]) for i, file in enumerate(files)]
    check_equal(processes, files, on_one_device)


@pytest.mark.slow
def test_two_processes_of_a_slurm_job(on_one_device, tmp_path):
    files = [tmp_path / f"weights{i}.npz" for i in range(2)]
    job = {"SLURM_JOB_ID": str(free_port()), "SLURM_STEP_NODELIST": "localhost"}
    job |= {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_NODES": "1"}
    processes = [
        start(file, "jax", 2, [], **job, SLURM_PROCID=i, SLURM_LOCALID=i)
        for i, file in zip("01", files, strict=True)
    ]
    check_equal(processes, files, on_one_device)


def test_shares_are_equal_and_together_the_batch(monkeypatch):
    images = np.arange(7, dtype="float32")[:, None, None] * np.ones((1, 3, 3), "float32")
    batches = evaluation_pipeline(images, np.arange(7), batch_size=4)
    monkeypatch.setattr(distribution, "process_count", lambda: 2)
    shares = []
    for process in range(2):
        monkeypatch.setattr(distribution, "process_index", lambda process=process: process)
        share = list(distribution.shared_out(batches, devices=4).as_numpy_iterator())
        for x, y in share:
            np.testing.assert_array_equal(x[:, 0, 0, 0], y)
        shares.append([y.tolist() for _, y in share])
    # The last batch has three images, and four devices get one each.
    assert shares == [[[0, 1], [4, 5]], [[2, 3], [6, 4]]]
    assert distribution.shared_out(batches, devices=1) is batches


def test_mistakes(monkeypatch):
    with pytest.raises(ValueError, match=r"number of devices, 3\. Received: batch_size=8"):
        monkeypatch.setattr(distribution, "training_strategy", lambda: THREE_DEVICES)
        distribution.device_count(dataclasses.replace(RECIPE, distribute=True))
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(ValueError, match=r"TensorFlow or JAX\. Received: distribute=True"):
        distribution.device_count(dataclasses.replace(RECIPE, distribute=True))
    with pytest.raises(ValueError, match=r"KERAS_BACKEND=jax\. Received: backend='torch'"):
        distribution.join()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"`process` must lie .* Received: process=2, processes=2"):
        distribution.join("127.0.0.1:1234", 2, 2)


@pytest.mark.parametrize("values", ["127.0.0.1:1234", "127.0.0.1:1234 2 first", "1 2 3 4"])
def test_a_cluster_takes_nothing_or_three_values(values, capsys):
    parser = recipe_parser("Trains.", "nowhere", Recipe)
    assert run_command(parser, lambda options: {}, ["--cluster", *values.split()]) == 2
    assert f"or nothing. Received: {values}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([[0, 7], [1, 0], [0, 7]], "Process 1 could not begin"),
        ([[0, 7], [0, 7], [0, 8]], "same settings. Received: others in process 2"),
    ],
)
def test_no_process_begins_alone(states, message, monkeypatch):
    monkeypatch.setattr(distribution, "_from_all", lambda _: np.array(states))
    with pytest.raises(ValueError, match=message):
        distribution.prepare_together(list)
    with pytest.raises(OSError, match="mine"):
        distribution.prepare_together(lambda: (_ for _ in ()).throw(OSError("mine")))


def run_in_two_processes(folder, *flags, kill=None):
    """The training command in two processes; `kill` is killed after an epoch. Exit codes, logs."""
    quick = "--widths 4 --scales 1 2 2 --frame 32 --train-size 1 --test-sizes 1 2 --digits 60 "
    quick += "--test-digits 20 --batch-size 20 --epochs 4"
    address, logs = f"127.0.0.1:{free_port()}", [folder.with_suffix(f".{i}") for i in range(2)]
    processes = []
    for i, log in enumerate(logs):
        command = [sys.executable, "examples/train_large_scale.py", *quick.split(), *flags]
        command += ["--output", str(folder), "--cluster", address, "2", str(i)]
        with open(log, "w") as stream:
            environment = {**os.environ, "KERAS_BACKEND": "jax"}
            environment["XLA_FLAGS"] = "--xla_backend_optimization_level=1"
            processes.append(
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=stream)
            )
    if kill is not None:
        before = len(read_history(folder))
        while len(read_history(folder)) == before and processes[kill].poll() is None:
            time.sleep(0.1)
        processes[kill].kill()
    codes = [process.wait(timeout=600) for process in processes]
    return codes, [log.read_text() for log in logs]


@pytest.mark.slow
def test_a_run_survives_the_loss_of_a_process(tmp_path):
    for kill in (1, 0):
        codes, logs = run_in_two_processes(tmp_path / "run", kill=kill)
        assert codes[kill] == -signal.SIGKILL and codes[1 - kill] == 1, logs
        assert "The same commands go on from there" in logs[1 - kill]
        assert "Traceback" not in logs[1 - kill]
    for name in ("run", "whole"):
        codes, logs = run_in_two_processes(tmp_path / name)
        assert codes == [0, 0], logs
        assert ("Going on after epoch" in logs[0]) == (name == "run")
    histories = [read_history(tmp_path / name) for name in ("run", "whole")]
    assert [row["epoch"] for row in histories[0]] == [1, 2, 3, 4]
    for ours, right in zip(*histories, strict=True):
        assert ours == pytest.approx(right, rel=1e-4)
    assert (tmp_path / "run" / "saved_model" / "saved_model.pb").exists()
    assert (tmp_path / "run" / "report.md").exists()


@pytest.mark.slow
def test_a_refusal_by_the_first_process_ends_both(tmp_path):
    (tmp_path / "file").write_text("")
    codes, logs = run_in_two_processes(tmp_path / "file")
    assert codes == [2, 2], logs
    assert "cannot be written to" in logs[0] and "Process 0 could not begin" in logs[1]
