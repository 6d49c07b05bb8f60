"""MNIST-Scale: the interpolation against its formula, the splits against each other."""

import numpy as np
import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.datasets.catalogue import mnist_scale
from gdn_keras.datasets.catalogue.mnist_scale import rescale

pytest.importorskip("PIL")


def bicubic(x: float) -> float:
    """Keys's kernel with a = -1, which Pillow has in affine transforms."""
    x = abs(x)
    if x < 1:
        return x**3 - 2 * x**2 + 1
    return -(x**3) + 5 * x**2 - 8 * x + 4 if x < 2 else 0.0


@pytest.mark.parametrize("factor", [0.3, 0.71, 1.0])
def test_shrinking_is_bicubic_about_the_middle(digits, factor):
    digit = digits.x_test[1]
    centers = (np.arange(28) - 13.5) / factor + 13.5
    matrix = np.array([[bicubic(center - j) for j in range(28)] for center in centers])
    expected = (matrix @ digit @ matrix.T).clip(0, 255)
    assert np.abs(rescale(digit, factor) - expected).max() < 1.01  # rounded twice


def test_enlarged(digits):
    assert rescale(digits.x_test[0], 1.0, 2).shape == (56, 56)
    small = rescale(digits.x_test[0], 0.5).astype(float).sum()
    large = rescale(digits.x_test[0], 0.5, 2).astype(float).sum()
    assert large / small == pytest.approx(4, rel=0.1)


def test_splits_share_no_digit(digits, monkeypatch):
    numbered = digits._replace(
        x_train=np.arange(4000)[:, None, None], x_test=4000 + np.arange(1000)[:, None, None]
    )
    monkeypatch.setattr(mnist_scale, "load_digits", lambda *args: numbered)
    monkeypatch.setattr(mnist_scale, "rescale", lambda x, factor=1.0, enlarge=1: x)
    data = load_dataset("mnist_scale")
    parts = [set(np.ravel(p.images)) for p in (data.train, data.validation, data.test(1))]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 5000
    for part, share in zip((data.train, data.validation, data.test(1)), (10, 2, 50), strict=True):
        counts = np.bincount(part.labels)
        np.testing.assert_allclose(counts, 500 * share / 62, atol=1)
    other = load_dataset("mnist_scale", seed=1)
    assert set(np.ravel(other.train.images)) != parts[0]
    watched = load_dataset("mnist_scale", test_split="validation")
    assert set(np.ravel(watched.test(1).images)) == parts[1]


def test_shares_of_all_of_mnist():
    labels = np.repeat(np.arange(10), 7000)
    parts = mnist_scale._split(labels, np.random.default_rng(0))
    assert {name: len(part) for name, part in parts.items()} == mnist_scale.COUNTS


def test_data():
    data = load_dataset("mnist_scale", enlarge=2, count=20, test_count=30)
    assert data.train.images.shape == (20, 56, 56, 1) and data.train.images.dtype == np.uint8
    assert len(data.test(1).labels) == 30 and data.test_sizes == (1.0,)
    with pytest.raises(ValueError, match="`count` must be between 1 and"):
        load_dataset("mnist_scale", count=100_000)
    with pytest.raises(ValueError, match="`enlarge`"):
        load_dataset("mnist_scale", enlarge=0)


def test_copies_are_the_training_digits_at_other_factors():
    plain, copied = (load_dataset("mnist_scale", enlarge=2, count=40, copies=n) for n in (1, 3))
    first, *others = np.split(np.asarray(copied.train.images, "float32"), 3)
    np.testing.assert_array_equal(first, plain.train.images)
    np.testing.assert_array_equal(copied.train.labels, np.tile(plain.train.labels, 3))
    for part in ("validation", "test"):
        pair = [getattr(data, part) for data in (plain, copied)]
        pair = [data(1) if callable(data) else data for data in pair]
        np.testing.assert_array_equal(pair[0].images, pair[1].images)
    areas = [part.sum(axis=(1, 2, 3)) / first.sum(axis=(1, 2, 3)) for part in others]
    assert all(area.min() < 0.5 and area.max() > 2 for area in areas)
    assert np.abs(areas[0] - areas[1]).max() > 1
    with pytest.raises(ValueError, match="`copies`"):
        load_dataset("mnist_scale", copies=0)
