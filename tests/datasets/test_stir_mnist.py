"""STIR-MNIST against the recipe written out with SciPy, one digit at a time."""

import math

import numpy as np
import pytest
from scipy import ndimage

from gdn_keras.datasets import load_dataset
from gdn_keras.datasets.catalogue.stir_mnist import FRAME, SCENARIOS, render_digits


def scipy_digit(digit: np.ndarray, size: int, row: int, column: int) -> np.ndarray:
    image = digit.astype(float)
    if size < 28:
        image = ndimage.gaussian_filter(image, (28 / size - 1) / 2)
    image = ndimage.zoom(image, size / 28, order=3, mode="mirror", grid_mode=True)
    frame = np.zeros((64, 64))
    frame[row : row + size, column : column + size] = image.clip(0, 255)
    frame = ndimage.gaussian_filter(frame, 7 / 8 * size / 28, mode="nearest")
    frame = np.array([[2 / math.pi * math.atan(0.02 * (v - 128)) for v in row] for row in frame])
    return 255 * (frame - frame.min()) / (frame.max() - frame.min())


@pytest.mark.parametrize("size", [17, 28, 41, 64])
def test_rendering(digits, size):
    images = render_digits(digits.x_test[:4], size, np.random.default_rng(3))
    places = np.random.default_rng(3).integers(0, FRAME - size + 1, (4, 2))
    assert images.shape == (4, 64, 64, 1) and images.dtype == np.uint8
    for image, digit, place in zip(images, digits.x_test[:4], places, strict=True):
        error = image[..., 0] - scipy_digit(digit, size, *place)
        assert np.sqrt(np.mean(error**2)) < 1.5  # of 255


def test_digits_fill_their_frames(digits):
    """The size of what is drawn grows with the size asked for."""
    extents = []
    for size in (20, 40):
        images = render_digits(digits.x_test[:20], size, np.random.default_rng(0))[..., 0]
        extents.append(np.mean([np.sum(image > 128) for image in images]))
    assert extents[1] / extents[0] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("scenario", [1, 4])
def test_every_training_digit_at_every_training_size(scenario):
    data = load_dataset("stir_mnist", scenario=scenario, count=3)
    sizes = SCENARIOS[scenario]
    assert data.train_sizes == sizes and data.test_sizes == tuple(range(17, 65))
    assert len(data.train.labels) == 30 * len(sizes)
    np.testing.assert_array_equal(np.bincount(data.train.labels), [3 * len(sizes)] * 10)
    np.testing.assert_array_equal(np.bincount(data.validation.labels), [3] * 10)
    for k in range(len(sizes)):
        labels = data.train.labels[30 * k : 30 * k + 30]
        np.testing.assert_array_equal(labels, data.train.labels[:30])


def test_training_frames_of_another_size():
    data, usual = (
        load_dataset("stir_mnist", scenario=1, count=2, **o) for o in ({"train_frame": 40}, {})
    )
    assert data.train.images.shape == (320, 40, 40, 1)
    assert data.validation.images.shape == (20, 40, 40, 1)
    assert data.test(20).images.shape == (20, 64, 64, 1)
    np.testing.assert_array_equal(data.test(20).images, usual.test(20).images)
    light = [
        np.sum(np.asarray(part.train.images[:]) > 128, axis=(1, 2, 3)) for part in (data, usual)
    ]
    np.testing.assert_array_equal(*light)  # the same digits at the same sizes, in other places


def test_splits_share_no_digit(digits, monkeypatch):
    """By images that are plain numbers: which digit it was can be read from its pixels."""
    from gdn_keras.datasets.catalogue import stir_mnist

    numbered = digits._replace(
        x_train=np.arange(4000)[:, None, None], x_test=-1 - np.arange(1000)[:, None, None]
    )
    monkeypatch.setattr(stir_mnist, "load_digits", lambda *args: numbered)
    monkeypatch.setattr(stir_mnist, "render_digits", lambda x, size, rng, frame: x[..., None])
    data = load_dataset("stir_mnist", count=4)
    train, validation = (set(np.ravel(part.images)) for part in (data.train, data.validation))
    assert len(train) == len(validation) == 40 and not train & validation
    assert len(set(np.ravel(data.test(20).images))) == 40
    assert np.max(data.test(20).images) < 0 <= min(train | validation)
    assert set(np.ravel(load_dataset("stir_mnist", count=4, seed=1).train.images)) != train
    watched = load_dataset("stir_mnist", count=4, test_split="validation")
    assert set(np.ravel(watched.test(20).images)) == validation


def test_same_seed_same_images():
    first, again, other = (load_dataset("stir_mnist", count=1, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.test(30).images, again.test(30).images)
    assert np.any(first.test(30).images != other.test(30).images)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": 5}, "`scenario` must be one of 1, 2, 3, 4. Received: scenario=5"),
        ({"test_sizes": (16,)}, "`test_sizes` must be one of 17"),
        ({"count": 101}, "`count` must be between 1 and 100"),
        ({"seed": -1}, "`seed`"),
        ({"train_frame": 47}, "`train_frame` must be an integer >= 48. Received: train_frame=47"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        load_dataset("stir_mnist", **options)
