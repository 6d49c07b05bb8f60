import numpy as np
import pytest

from gdn_keras.datasets import TEST_SIZES, load_official_large_scale
from gdn_keras.layers import ArctanContrast

h5py = pytest.importorskip("h5py")

TRAIN = "mnist_large_scale_tr50000_vl10000_te10000_outsize112-112_sctr2p000_scte2p000.h5"
TEST = "mnist_large_scale_te10000_outsize112-112_scte0p595.h5"


@pytest.fixture
def directory(tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / TRAIN, "w") as file:
        for key, count in (("train", 12), ("val", 5), ("test", 6)):
            file[f"x_{key}"] = rng.uniform(-0.76, 0.76, (count, 8, 8, 1)).astype("float32")
            file[f"y_{key}"] = np.arange(count, dtype=float)[:, None] % 10
    with h5py.File(tmp_path / TEST, "w") as file:
        file["x_test"], file["y_test"] = rng.random((7, 8, 8, 1)), np.arange(7)
    return tmp_path


@pytest.mark.parametrize(("split", "count"), [("train", 12), ("validation", 5), ("test", 6)])
def test_splits(directory, split, count):
    images, labels = load_official_large_scale(directory, split, 2)
    assert images.shape == (count, 8, 8, 1) and len(images) == count
    np.testing.assert_array_equal(labels, np.arange(count) % 10)
    with h5py.File(directory / TRAIN) as file:
        published = file[{"validation": "x_val"}.get(split, f"x_{split}")][:]
    again = ArctanContrast(stretch=False)(np.asarray(images))
    assert images.dtype == np.uint8
    np.testing.assert_allclose(again, published, atol=0.0065)


def test_images_are_indexed_like_an_array(directory):
    images = load_official_large_scale(directory, "train", 2, count=10).images
    array = np.asarray(images)
    assert array.shape == (10, 8, 8, 1)
    for index in (3, -1, slice(2, 5), slice(None), slice(8, 20), slice(None, None, -2)):
        np.testing.assert_array_equal(images[index], array[index])
    for index in (np.array([5, 1, 1, 9]), np.array([[3, 2], [0, 0]]), array[:, 0, 0, 0] > 128):
        np.testing.assert_array_equal(images[index], array[index])
    with pytest.raises(IndexError):
        images[10]


def test_read_into_a_pipeline(directory):
    from gdn_keras.datasets import epoch_order, training_pipeline

    images, labels = load_official_large_scale(directory, "train", 2)
    x, _ = next(iter(training_pipeline(images, labels, batch_size=4)))
    np.testing.assert_array_equal(x, images[epoch_order(12, 0, 0)[:4]])


def test_size_rounded_or_not(directory):
    for size in (TEST_SIZES[1], 0.595):
        assert len(load_official_large_scale(directory, "test", size, count=3).labels) == 3


def test_missing_file_is_named(directory):
    with pytest.raises(FileNotFoundError, match=r"scte8p000.h5 not found .* on request"):
        load_official_large_scale(directory, "test", 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", 3), "`size` must be one of .* for split='train'. Received: size=3"),
        (("test", -1), "`size` must be a positive, finite number. Received: size=-1"),
        (("val", 2), "`split` must be one of .* Received: split='val'"),
        (("test", 2, 0), "`count` must be an integer >= 1. Received: count=0"),
    ],
)
def test_bad_input(directory, arguments, message):
    split, size, *count = arguments
    with pytest.raises(ValueError, match=message):
        load_official_large_scale(directory, split, size, count=(count or [None])[0])


def test_other_contents_are_explained(directory):
    with h5py.File(directory / TEST, "w") as file:
        file["images"] = np.zeros(3)
    with pytest.raises(ValueError, match=r"no x_test and no y_test. Received: keys \['images'\]"):
        load_official_large_scale(directory, "test", 0.595)
    with h5py.File(directory / TEST, "w") as file:
        file["x_test"], file["y_test"] = np.zeros((3, 8, 8)), np.zeros(4)
    with pytest.raises(ValueError, match=r"shapes \(3, 8, 8\) and \(4,\)"):
        load_official_large_scale(directory, "test", 0.595)
    (directory / TEST).write_bytes(b"not HDF5")
    with pytest.raises(ValueError, match="damaged or not an HDF5 file"):
        load_official_large_scale(directory, "test", 0.595)
