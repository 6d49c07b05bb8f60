import gc

import keras
import numpy as np
import pytest

from gdn_keras.models import gaussian_derivative_network
from gdn_keras.training import on_one_device

IMAGES = np.random.default_rng(0).normal(size=(8, 16, 16, 1)).astype("float32")
LABELS = np.eye(3, dtype="float32")[np.arange(8) % 3]


def fitted(optimizer, **options):
    keras.utils.set_random_seed(0)
    model = gaussian_derivative_network((16, 16, 1), (4, 4), 3, (1.0, 2.0))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False, **options)
    model.fit(IMAGES, LABELS, batch_size=4, epochs=2, verbose=0)
    return model


def graphs_left_behind():
    keras.backend.clear_session()
    gc.collect()
    return sum(type(x).__name__ == "FuncGraph" for x in gc.get_objects())


@pytest.mark.parametrize("scaled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_no_graph_stays_behind_after_fit(scaled):
    counts = []
    for _ in range(3):
        optimizer = keras.optimizers.Adam(0.01)
        if scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        fitted(on_one_device(optimizer))
        counts.append(graphs_left_behind())
    # The first may leave the one that holds the gradient of the convolutions.
    assert counts[1] == counts[2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.01, clipnorm=0.1),
        lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2, use_ema=True),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), 16.0),
    ],
)
def test_steps_are_those_of_the_optimizer(make):
    stock, ours = fitted(make()), fitted(on_one_device(make()))
    for a, b in zip(
        [*stock.variables, *stock.optimizer.variables],
        [*ours.variables, *ours.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_several_steps_at_once_and_replicas():
    import tensorflow as tf

    expected = fitted(keras.optimizers.Adam(0.01)).get_weights()
    together = fitted(on_one_device(keras.optimizers.Adam(0.01)), steps_per_execution=2)
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        replica = fitted(on_one_device(keras.optimizers.Adam(0.01)))
    for model in (together, replica):
        for a, b in zip(expected, model.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_files_are_those_of_the_optimizer(tmp_path):
    model = fitted(on_one_device(keras.optimizers.Adam(0.01)))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is keras.optimizers.Adam
    for a, b in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)
