import functools
import itertools

import keras
import numpy as np
import pytest

from gdn_keras.datasets import (
    epoch_order,
    evaluation_pipeline,
    rescale_images,
    steps_per_epoch,
    training_pipeline,
)

COUNT = 23
IMAGES = np.arange(COUNT, dtype="float16")[:, None, None, None] * np.ones((1, 4, 5, 1), "float16")
LABELS = np.arange(COUNT) % 10


def indices(batches):
    """Which images the batches hold; every image is its index."""
    return np.concatenate([x[:, 0, 0, 0] for x, _ in batches]).astype(int)


def take(pipeline, count):
    return list(itertools.islice(pipeline.as_numpy_iterator(), count))


def test_an_epoch_holds_every_image_once():
    batches = take(training_pipeline(IMAGES, LABELS, batch_size=5), 5)
    assert [len(x) for x, _ in batches] == [5, 5, 5, 5, 3]
    assert sorted(indices(batches)) == list(range(COUNT))
    for x, y in batches:
        assert x.dtype == np.float32 and x.shape[1:] == (4, 5, 1)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y, np.eye(10)[x[:, 0, 0, 0].astype(int) % 10])


def test_epochs_differ_and_can_be_repeated():
    epochs = take(training_pipeline(IMAGES, LABELS, batch_size=5, seed=3), 10)
    assert list(indices(epochs[:5])) != list(indices(epochs[5:]))
    again = take(training_pipeline(IMAGES, LABELS, batch_size=5, seed=3), 10)
    np.testing.assert_array_equal(indices(epochs), indices(again))
    other = take(training_pipeline(IMAGES, LABELS, batch_size=5, seed=4), 10)
    assert list(indices(epochs)) != list(indices(other))


def test_training_resumes_at_an_epoch():
    epochs = take(training_pipeline(IMAGES, LABELS, batch_size=5), 15)
    resumed = take(training_pipeline(IMAGES, LABELS, batch_size=5, initial_epoch=2), 5)
    np.testing.assert_array_equal(indices(resumed), indices(epochs[10:]))
    np.testing.assert_array_equal(indices(resumed), epoch_order(COUNT, 0, 2))


class Recorder(keras.Model):
    """Notes which images each training step sees."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(10)
        self.seen = []

    def call(self, x):
        return self.dense(keras.ops.mean(x, axis=(1, 2)))

    def train_step(self, data):
        self.seen.extend(np.asarray(data[0][:, 0, 0, 0]).astype(int))
        return super().train_step(data)


def test_fit_sees_each_epoch_in_its_order():
    model = Recorder()
    model.compile("sgd", "mse", run_eagerly=True)
    pipeline = training_pipeline(IMAGES, LABELS, batch_size=5)
    steps = steps_per_epoch(COUNT, 5)
    model.fit(pipeline, steps_per_epoch=steps, epochs=2, shuffle=False, verbose=0)
    expected = np.concatenate([epoch_order(COUNT, 0, epoch) for epoch in range(2)])
    np.testing.assert_array_equal(model.seen, expected)


def test_evaluation_keeps_the_order():
    pipeline = evaluation_pipeline(IMAGES, LABELS, batch_size=10)
    assert pipeline.cardinality() == 3
    batches = take(pipeline, 9)
    np.testing.assert_array_equal(indices(batches), np.arange(COUNT))
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), LABELS)
    ((_, one_hot), *_) = take(evaluation_pipeline(IMAGES, LABELS, num_classes=10), 1)
    np.testing.assert_array_equal(one_hot, np.eye(10)[LABELS])


def test_transform_on_the_fly(digits):
    images, labels = digits.x_test[:8], digits.y_test[:8]
    transform = functools.partial(rescale_images, size=2, output_shape=(50, 50))
    pipeline = evaluation_pipeline(images, labels, batch_size=8, transform=transform)
    ((x, _),) = take(pipeline, 2)
    np.testing.assert_allclose(x[..., 0], rescale_images(images, 2, (50, 50)), atol=1e-3)


def test_grey_images_without_a_channel_get_one(digits):
    ((x, _),) = take(evaluation_pipeline(digits.x_test[:3], digits.y_test[:3]), 2)
    assert x.shape == (3, 28, 28, 1) and x.dtype == np.float32
    np.testing.assert_array_equal(x[..., 0], digits.x_test[:3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": LABELS[:-1]}, r"one for each of the 23 images. Received: shape \(22,\)"),
        ({"labels": LABELS.astype(float)}, r"`labels` must be integers"),
        ({"labels": LABELS + 5}, r"`labels` must lie in \[0, 10\).*Received: labels from 5 to 14"),
        ({"labels": LABELS - 1}, r"`labels` must lie in \[0, 10\)"),
        ({"images": IMAGES[..., 0, 0]}, r"`images` must be numbers .* shape \(23, 4\)"),
        ({"images": IMAGES.astype(str)}, r"`images` must be numbers"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, r"at least one image"),
        ({"batch_size": 0}, r"`batch_size` must be an integer >= 1. Received: batch_size=0"),
        ({"seed": -1}, r"`seed` must be an integer >= 0. Received: seed=-1"),
        ({"initial_epoch": -1}, r"`initial_epoch` must be an integer >= 0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        training_pipeline(**({"images": IMAGES, "labels": LABELS} | arguments))
