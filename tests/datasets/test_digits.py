import gzip
import hashlib
import urllib.error

import numpy as np
import pytest

from gdn_keras.datasets import digits as digits_module
from gdn_keras.datasets import load_embedded_digits, load_mnist_directory, load_mnist_tfds
from tests.datasets.idx_files import NAMES, idx_bytes, write_idx_files


def small_arrays():
    rng = np.random.default_rng(0)
    return tuple(
        rng.integers(0, 10, shape, "uint8") for shape in ((30, 28, 28), (30,), (20, 28, 28), (20,))
    )


def test_embedded_digits_are_balanced_and_distinct(digits):
    assert digits.x_train.shape == (4000, 28, 28) and digits.x_test.shape == (1000, 28, 28)
    for labels in (digits.y_train, digits.y_test):
        assert (np.sort(labels.reshape(-1, 10), axis=1) == np.arange(10)).all()
    assert all(array.dtype == np.uint8 for array in digits)
    everything = np.concatenate([digits.x_train, digits.x_test]).reshape(5000, -1)
    assert len(np.unique(everything, axis=0)) == 5000


@pytest.mark.slow
def test_embedded_digits_are_the_first_of_each_class(digits, mnist):
    for (x, y), (all_x, all_y), count in (
        (digits[:2], mnist[:2], 400),
        (digits[2:], mnist[2:], 100),  # MNIST's own test digits: no network was trained on them
    ):
        for label in range(10):
            expected = all_x[all_y == label][:count]
            np.testing.assert_array_equal(x[y == label], expected)


def test_damaged_package_file(monkeypatch):
    monkeypatch.setattr(digits_module, "EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(ValueError, match=r"embedded_digits.npz .* sha256 should be 000"):
        load_embedded_digits()


@pytest.mark.parametrize("compress", [True, False])
def test_directory(tmp_path, compress):
    arrays = small_arrays()
    write_idx_files(tmp_path, arrays, compress)
    for read, written in zip(load_mnist_directory(tmp_path, verify=False), arrays, strict=True):
        np.testing.assert_array_equal(read, written)


@pytest.mark.slow
def test_directory_of_mnist(mnist):
    assert mnist.x_train.shape == (60000, 28, 28) and mnist.y_test.shape == (10000,)
    assert mnist.y_train[:5].tolist() == [5, 0, 4, 1, 9]


def test_foreign_files_are_refused(tmp_path):
    write_idx_files(tmp_path, small_arrays())
    message = r"train-images-idx3-ubyte.gz is not the canonical MNIST file: .* sha256 ba891046"
    with pytest.raises(ValueError, match=message):
        load_mnist_directory(tmp_path)


def test_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`directory` must be a folder.*nowhere"):
        load_mnist_directory(tmp_path / "nowhere")


def test_missing_file(tmp_path):
    write_idx_files(tmp_path, small_arrays())
    (tmp_path / f"{NAMES[2]}.gz").unlink()
    with pytest.raises(FileNotFoundError, match=f"Neither {NAMES[2]} nor {NAMES[2]}.gz"):
        load_mnist_directory(tmp_path, verify=False)


WHOLE = idx_bytes(np.zeros((30, 28, 28), "uint8"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (f"{NAMES[0]}.gz", gzip.compress(WHOLE, mtime=0)[:-20], "truncated or not a gzip file"),
        (f"{NAMES[0]}.gz", WHOLE, "truncated or not a gzip file"),
        (f"{NAMES[0]}.gz", b"", "should begin with the bytes 00 00 08 03"),
        (NAMES[0], WHOLE[:-1], r"truncated or damaged: shape \(30, 28, 28\) .* 23536 bytes"),
        (NAMES[0], WHOLE + b"!", "truncated or damaged"),
        (NAMES[0], WHOLE[:9], "truncated or damaged"),
        (NAMES[0], b"", "Received: an empty file"),
        (NAMES[0], b"<html>404</html>", "should begin with the bytes 00 00 08 03"),
        (NAMES[0], idx_bytes(np.zeros(5, "uint8")), "is not an idx file of rank 3"),
    ],
)
def test_bad_file_is_named(tmp_path, name, content, message):
    write_idx_files(tmp_path, small_arrays())
    (tmp_path / f"{NAMES[0]}.gz").unlink()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} .*{message}"):
        load_mnist_directory(tmp_path, verify=False)


def test_labels_of_another_length(tmp_path):
    arrays = list(small_arrays())
    arrays[3] = arrays[3][:-1]
    write_idx_files(tmp_path, arrays)
    with pytest.raises(ValueError, match="20 images and 19 labels"):
        load_mnist_directory(tmp_path, verify=False)


def test_tfds_without_a_network(tmp_path, monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")

    def unreachable(*_, **__):
        raise urllib.error.URLError("Name or service not known")

    def hang(*_, **__):
        pytest.fail("TFDS was asked to download")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", hang)
    with pytest.raises(ConnectionError, match=r"cannot be reached .* load_embedded_digits"):
        load_mnist_tfds(tmp_path)
    assert not list(tmp_path.iterdir())


def test_tfds_digits_come_in_the_original_order(tmp_path, monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")
    from tensorflow_datasets.image_classification import mnist as tfds_mnist

    arrays = small_arrays()
    write_idx_files(tmp_path, arrays)
    monkeypatch.setattr(tfds_mnist, "_TRAIN_EXAMPLES", 30)
    monkeypatch.setattr(tfds_mnist, "_TEST_EXAMPLES", 20)
    # The files are not MNIST's, which TFDS would find.
    manager = tfds.download.DownloadManager
    monkeypatch.setattr(manager, "_register_or_validate_checksums", lambda *_, **__: None)
    config = tfds.download.DownloadConfig(manual_dir=tmp_path)
    builder = tfds.builder("mnist", data_dir=tmp_path / "tfds")
    builder.download_and_prepare(download_config=config)
    with pytest.raises(ValueError, match="not those of MNIST in the original order"):
        load_mnist_tfds(tmp_path / "tfds")
    for part, array in (("train", arrays[0]), ("test", arrays[2])):
        sums = digits_module._TFDS_SHA256
        monkeypatch.setitem(sums, part, hashlib.sha256(array.tobytes()).hexdigest())
    for read, written in zip(load_mnist_tfds(tmp_path / "tfds"), arrays, strict=True):
        np.testing.assert_array_equal(read, written)
