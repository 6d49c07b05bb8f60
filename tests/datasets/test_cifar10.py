import io
import os
import pickle
import tarfile
from typing import ClassVar

import numpy as np
import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.datasets.catalogue.cifar10 import TEST_SIZES

BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


class Python2Pickler(pickle._Pickler):
    """Writes strings as the Python 2 that made the published files did."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        value = value.encode("ascii") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + len(value).to_bytes(4, "little") + value)
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_string


def python2_pickle(value) -> bytes:
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"numpy._core", b"numpy.core")


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (4, 3072), "uint8"), rng.integers(0, 10, 4).tolist()


def python_content(seed):
    pixels, labels = batch(seed)
    return python2_pickle({b"data": pixels, b"labels": labels, b"batch_label": b"testing"})


def binary_content(seed):
    pixels, labels = batch(seed)
    return np.concatenate([np.array(labels, "uint8")[:, None], pixels], axis=1).tobytes()


def python_files():
    return {name: python_content(seed) for seed, name in enumerate(BATCHES)}


def binary_files():
    return {f"{name}.bin": binary_content(seed) for seed, name in enumerate(BATCHES)}


KINDS = {
    "python": ("cifar-10-batches-py", python_files),
    "binary": ("cifar-10-batches-bin", binary_files),
}


def write_archive(directory, kind, files=None):
    folder, make = KINDS[kind]
    with tarfile.open(directory / f"cifar-10-{kind}.tar.gz", "w:gz") as archive:
        for name, content in (files or make()).items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_folder(directory, kind):
    folder, make = KINDS[kind]
    (directory / folder).mkdir()
    for name, content in make().items():
        (directory / folder / name).write_bytes(content)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [write_archive, write_folder])
def test_published_files(tmp_path, kind, write):
    write(tmp_path, kind)
    data = load_dataset("cifar10", tmp_path, frame=32)
    images = [batch(seed)[0].reshape(4, 3, 32, 32).transpose(0, 2, 3, 1) for seed in range(6)]
    labels = [batch(seed)[1] for seed in range(6)]
    np.testing.assert_array_equal(data.train.images, np.concatenate(images[:5])[:18])
    np.testing.assert_array_equal(data.validation.images, images[4][2:])
    np.testing.assert_array_equal(data.test(1).images, images[5])
    np.testing.assert_array_equal(data.train.labels, np.concatenate(labels[:5])[:18])
    np.testing.assert_array_equal(data.test(1).labels, labels[5])
    assert data.class_names[3] == "cat"


def test_the_folder_itself(tmp_path):
    write_folder(tmp_path, "python")
    data = load_dataset("cifar10", tmp_path / "cifar-10-batches-py")
    assert data.train.images.shape == (18, 64, 64, 3)


def test_rescaled(tmp_path):
    write_archive(tmp_path, "binary")
    options = {"train_sizes": (1, 2), "train_frame": 48, "count": 5, "test_count": 3}
    data = load_dataset("cifar10", tmp_path, **options)
    assert data.train.images.shape == (10, 48, 48, 3)
    assert data.validation.images.shape == (2, 48, 48, 3)
    assert data.test_sizes == TEST_SIZES and len(TEST_SIZES) == 9
    assert data.test(TEST_SIZES[0]).images.shape == (3, 64, 64, 3)
    original = batch(0)[0][0].reshape(3, 32, 32).transpose(1, 2, 0)
    mirrored = np.pad(original, ((8, 8), (8, 8), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(data.train.images[0], mirrored)
    assert data.train_sizes == (1, 2)


def test_validation_images_to_test_with(tmp_path):
    write_archive(tmp_path, "binary")
    data = load_dataset("cifar10", tmp_path, test_split="validation")
    np.testing.assert_array_equal(data.test(1).images, data.validation.images)


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def test_nothing_in_a_pickle_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps({b"data": Evil(), b"labels": []})
    write_archive(tmp_path, "python", {**python_files(), "data_batch_2": content})
    with pytest.raises(ValueError, match=r"cifar-10-python.tar.gz .* asks for posix.system"):
        load_dataset("cifar10", tmp_path)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("kind", "name", "content", "message"),
    [
        ("python", "test_batch", b"", "is not a batch of CIFAR-10: EOFError"),
        ("python", "test_batch", python_content(0)[:-900], "is not a batch of CIFAR-10"),
        ("python", "test_batch", python2_pickle({b"data": 1}), "is not a batch.*KeyError"),
        (
            "python",
            "test_batch",
            python2_pickle({b"data": np.zeros((2, 3072), "uint8"), b"labels": [0, 10]}),
            "labels from 0 to 9",
        ),
        (
            "python",
            "test_batch",
            python2_pickle({b"data": np.zeros((2, 3072)), b"labels": [0, 1]}),
            r"Received: float64 \(2, 3072\)",
        ),
        ("binary", "test_batch.bin", binary_content(0)[:-1], "3073 bytes for each image.*12291"),
        ("binary", "test_batch.bin", bytes([11] * 3073), "labels from 0 to 9"),
    ],
)
def test_bad_batch(tmp_path, kind, name, content, message):
    write_archive(tmp_path, kind, {**KINDS[kind][1](), name: content})
    with pytest.raises(ValueError, match=f"cifar-10-{kind}.tar.gz .*{message}"):
        load_dataset("cifar10", tmp_path)


def test_truncated_archive(tmp_path):
    write_archive(tmp_path, "python")
    file = tmp_path / "cifar-10-python.tar.gz"
    file.write_bytes(file.read_bytes()[:-5000])
    with pytest.raises(ValueError, match="is truncated or damaged"):
        load_dataset("cifar10", tmp_path)


def test_incomplete_archive(tmp_path):
    write_archive(tmp_path, "binary", {"data_batch_1.bin": binary_content(0)})
    with pytest.raises(ValueError, match=r"must hold cifar-10-batches-bin/data_batch_2.bin, "):
        load_dataset("cifar10", tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Neither cifar-10-python.tar.gz nor"):
        load_dataset("cifar10", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"archive of CIFAR-10.* Received: directory=None"):
        load_dataset("cifar10")


def test_more_than_there_is(tmp_path):
    write_archive(tmp_path, "binary")
    with pytest.raises(ValueError, match=r"`count` must be between 1 and 18.* count=19"):
        load_dataset("cifar10", tmp_path, count=19)
