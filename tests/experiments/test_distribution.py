"""The same batches give the same weights on one device, on several, and in several processes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from gdn_keras.datasets import random_affine, steps_per_epoch, training_pipeline
from gdn_keras.experiments import distribution
from gdn_keras.experiments.settings import Settings
from gdn_keras.experiments.training import build_network

ROOT = Path(__file__).parents[2]
SETTINGS = Settings(widths=(4,), scales=(1.0, 2.0), frame=20, batch_size=8, learning_rate=0.1)
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
from gdn_keras.experiments import distribution
if cluster is not None:
    distribution.join(*cluster)
from tests.experiments.test_distribution import SETTINGS, updated_weights
settings = dataclasses.replace(SETTINGS, distribute=True)
assert distribution.device_count(settings) == devices
weights = updated_weights(settings)
distribution.leave()
np.savez(file, *weights)
"""


def updated_weights(settings):
    """Weights and moving statistics after two epochs of gradient descent."""
    rng = np.random.default_rng(0)
    contrast = np.linspace(0.2, 2, IMAGES)[:, None, None, None]  # the devices' shares differ
    images = (contrast * rng.normal(size=(IMAGES, 20, 20, 1))).astype("float32")
    labels = rng.integers(0, 10, IMAGES)
    with distribution.training_strategy(settings).scope():
        model = build_network(settings)
        model.set_weights([rng.uniform(0.5, 1.0, w.shape) for w in model.get_weights()])
        model.compile(
            keras.optimizers.SGD(settings.learning_rate),
            keras.losses.BinaryCrossentropy(from_logits=True),
        )
        batches = training_pipeline(
            images, labels, batch_size=settings.batch_size, augment=random_affine(1.0)
        )
        model.fit(
            distribution.shared_out(batches, distribution.device_count(settings)),
            steps_per_epoch=steps_per_epoch(IMAGES, settings.batch_size),
            epochs=2,
            shuffle=False,
            verbose=0,
        )
    return model.get_weights()


@pytest.fixture(scope="module")
def on_one_device():
    return updated_weights(SETTINGS)


def start(file, backend, devices, cluster=None, **environment):
    """A process that trains on so many devices, its own ones or those of two processes."""
    own = devices if cluster is None else devices // 2
    flags = f"--xla_force_host_platform_device_count={own} --xla_backend_optimization_level=0"
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


@pytest.mark.parametrize(
    ("backend", "devices"),
    [
        ("tensorflow", 2),
        pytest.param("tensorflow", 4, marks=pytest.mark.slow),
        pytest.param("jax", 2, marks=pytest.mark.slow),
    ],
)
def test_devices(backend, devices, on_one_device, tmp_path):
    file = tmp_path / "weights.npz"
    check_equal([start(file, backend, devices)], [file], on_one_device)


@pytest.mark.parametrize("devices", [4, pytest.param(2, marks=pytest.mark.slow)])
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
