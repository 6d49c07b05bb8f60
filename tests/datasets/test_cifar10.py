import io
import tarfile

import numpy as np
import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.datasets.catalogue.cifar10 import CIFAR10_SIZES

BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (4, 3072), "uint8"), rng.integers(0, 10, 4).tolist()


def binary_content(seed):
    pixels, labels = batch(seed)
    return np.concatenate([np.array(labels, "uint8")[:, None], pixels], axis=1).tobytes()


def binary_files():
    return {f"{name}.bin": binary_content(seed) for seed, name in enumerate(BATCHES)}


FOLDER = "cifar-10-batches-bin"


def write_archive(directory, files=None):
    with tarfile.open(directory / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in (files or binary_files()).items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_folder(directory):
    (directory / FOLDER).mkdir()
    for name, content in binary_files().items():
        (directory / FOLDER / name).write_bytes(content)


@pytest.mark.parametrize("write", [write_archive, write_folder])
def test_published_files(tmp_path, write):
    write(tmp_path)
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
    write_folder(tmp_path)
    data = load_dataset("cifar10", tmp_path / FOLDER)
    assert data.train.images.shape == (18, 64, 64, 3)


def test_rescaled(tmp_path):
    write_archive(tmp_path)
    options = {"train_sizes": (1, 2), "train_frame": 48, "count": 5, "test_count": 3}
    data = load_dataset("cifar10", tmp_path, **options)
    assert data.train.images.shape == (10, 48, 48, 3)
    assert data.validation.images.shape == (2, 48, 48, 3)
    assert data.test_sizes == CIFAR10_SIZES and len(CIFAR10_SIZES) == 9
    assert data.test(CIFAR10_SIZES[0]).images.shape == (3, 64, 64, 3)
    original = batch(0)[0][0].reshape(3, 32, 32).transpose(1, 2, 0)
    mirrored = np.pad(original, ((8, 8), (8, 8), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(data.train.images[0], mirrored)
    assert data.train_sizes == (1, 2)


def test_validation_images_to_test_with(tmp_path):
    write_archive(tmp_path)
    data = load_dataset("cifar10", tmp_path, test_split="validation")
    np.testing.assert_array_equal(data.test(1).images, data.validation.images)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary_content(0)[:-1], "3073 bytes for each image.*12291"),
        (b"", "3073 bytes for each image.* 0 bytes"),
        (bytes([11] * 3073), "labels from 0 to 9.* 11"),
    ],
)
def test_bad_batch(tmp_path, content, message):
    write_archive(tmp_path, {**binary_files(), "test_batch.bin": content})
    with pytest.raises(ValueError, match=f"cifar-10-binary.tar.gz .*{message}"):
        load_dataset("cifar10", tmp_path)


def test_truncated_archive(tmp_path):
    write_archive(tmp_path)
    file = tmp_path / "cifar-10-binary.tar.gz"
    file.write_bytes(file.read_bytes()[:-5000])
    with pytest.raises(ValueError, match="is truncated or damaged"):
        load_dataset("cifar10", tmp_path)


def test_incomplete_archive(tmp_path):
    write_archive(tmp_path, {"data_batch_1.bin": binary_content(0)})
    with pytest.raises(ValueError, match=r"must hold cifar-10-batches-bin/data_batch_2.bin, "):
        load_dataset("cifar10", tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Neither cifar-10-binary.tar.gz .*nor"):
        load_dataset("cifar10", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"archive of CIFAR-10.* Received: directory=None"):
        load_dataset("cifar10")


def test_more_than_there_is(tmp_path):
    write_archive(tmp_path)
    with pytest.raises(ValueError, match=r"`count` must be between 1 and 18.* count=19"):
        load_dataset("cifar10", tmp_path, count=19)


@pytest.mark.parametrize("name", ["train_sizes", "test_sizes"])
def test_sizes_that_are_no_sequence(name):
    with pytest.raises(ValueError, match=rf"`{name}` must be a sequence .* Received: {name}=2"):
        load_dataset("cifar10", **{name: 2})
