"""MNIST and MNIST Large Scale as `ImageData`."""

import keras
import numpy as np
import pytest

from gdn_keras.datasets import TEST_SIZES, load_dataset, load_large_scale, mnist
from gdn_keras.layers import ArctanContrast
from tests.datasets.idx_files import write_idx_files

SMALL = {"count": 30, "test_count": 20, "frame": 40}


@pytest.fixture(autouse=True)
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_CACHE", str(tmp_path / "cache"))


def test_mnist(digits):
    data = load_dataset("mnist", count=30)
    np.testing.assert_array_equal(data.train.images[..., 0], digits.x_train[:30])
    assert data.train.images.dtype == np.uint8
    assert len(data.validation.labels) == 400 and len(data.test(1).labels) == 1000
    assert data.test_sizes == (1.0,) and data.class_names == tuple("0123456789")
    assert isinstance(data.preprocessor, keras.layers.Rescaling)
    assert float(np.max(data.preprocessor(data.train.images))) == 1


def test_large_scale():
    data = load_dataset("mnist_large_scale", train_frame=30, **SMALL)
    expected = load_large_scale("train", 2, count=30, output_shape=(30, 30), verbose=False)
    np.testing.assert_array_equal(data.train.images, expected.images)
    assert data.validation.images.shape == (400, 30, 30, 1)
    assert data.test_sizes == TEST_SIZES
    expected = load_large_scale("test", 4, count=20, output_shape=(40, 40), cache=False)
    np.testing.assert_array_equal(data.test(4).images, expected.images)
    assert isinstance(data.preprocessor, ArctanContrast)


@pytest.mark.parametrize("source", [None, "official"])
@pytest.mark.parametrize("name", ["train_sizes", "test_sizes"])
def test_sizes_that_are_no_sequence_are_named(name, source):
    with pytest.raises(ValueError, match=f"`{name}`"):
        load_dataset("mnist_large_scale", source=source, **{name: 2})


def test_several_training_sizes():
    data = load_dataset("mnist_large_scale", train_sizes=(1, 2), **SMALL)
    for size, part in ((1, slice(0, 30)), (2, slice(30, 60))):
        expected = load_large_scale("train", size, count=30, output_shape=(40, 40), verbose=False)
        np.testing.assert_array_equal(data.train.images[part], expected.images)
        np.testing.assert_array_equal(data.train.labels[part], expected.labels)
    some = np.array([3, 33, 59, 3])
    np.testing.assert_array_equal(data.train.images[some], np.asarray(data.train.images)[some])


@pytest.mark.parametrize("name", ["mnist", "mnist_large_scale"])
def test_validation_images_to_test_with(name):
    options = SMALL if name == "mnist_large_scale" else {}
    data = load_dataset(name, test_split="validation", **{**options, "test_count": 20})
    np.testing.assert_array_equal(data.test(1).labels, data.validation.labels[:20])
    np.testing.assert_array_equal(
        data.test(data.train_sizes[0]).images, data.validation.images[:20]
    )
    with pytest.raises(ValueError, match="`test_split`"):
        load_dataset(name, test_split="train")


def test_tests_are_checked_before_the_training():
    with pytest.raises(ValueError, match="1000"):
        load_dataset("mnist_large_scale", test_count=1001)


def test_directory_of_idx_files(digits, tmp_path):
    write_idx_files(tmp_path, [array[:20] for array in digits])
    with pytest.raises(ValueError, match="canonical"):
        load_dataset("mnist", tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": "web"}, ValueError, "`source`"),
        ({"source": "idx"}, FileNotFoundError, "`directory`"),
        ({"directory": "nowhere"}, FileNotFoundError, "nowhere"),
        ({"directory": "x", "source": "embedded"}, ValueError, "`directory`"),
    ],
)
def test_bad_sources(options, error, message):
    with pytest.raises(error, match=message):
        load_dataset("mnist", **options)


def write_official(file, **counts):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as content:
        for key, count in counts.items():
            content[f"x_{key}"] = np.zeros((count, 112, 112, 1), "float32")
            content[f"y_{key}"] = np.arange(count) % 10


def test_official(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "VALIDATION_IMAGES", 5)
    prefix, shape = "mnist_large_scale_", "te10000_outsize112-112"
    training = tmp_path / f"{prefix}tr50000_vl10000_{shape}_sctr2p000_scte2p000.h5"
    write_official(training, train=12, val=5, test=6)
    for size in (1, 4):
        write_official(tmp_path / f"{prefix}{shape}_scte{size}p000.h5", test=6)
    data = load_dataset(
        "mnist_large_scale", tmp_path, source="official", test_sizes=(1, 2, 4), test_count=3
    )
    assert data.train.images.shape[1:] == data.test(4).images.shape[1:] == (112, 112, 1)
    assert len(data.test(1).labels) == 3
    with pytest.raises(FileNotFoundError, match="scte8p000"):
        load_dataset("mnist_large_scale", tmp_path, source="official", test_sizes=(1, 8))
    with pytest.raises(ValueError, match="112"):
        load_dataset("mnist_large_scale", tmp_path, source="official", frame=64)
