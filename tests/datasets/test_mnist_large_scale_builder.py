"""TFDS's own checks of a builder: registration, checksums, features, determinism."""

from typing import ClassVar

import pytest

from tests.datasets.idx_files import write_idx_files

pytest.importorskip("dill", reason="tensorflow_datasets.testing needs dill")
tfds = pytest.importorskip("tensorflow_datasets")
mnist_large_scale = pytest.importorskip("gdn_keras.datasets.mnist_large_scale")


@pytest.fixture(scope="class", autouse=True)
def dummy_data(request, digits, tmp_path_factory):
    """Fourteen digits as MNIST's files, in place of a directory of dummy data."""
    directory = tmp_path_factory.mktemp("dummy_data")
    arrays = digits.x_train[:10], digits.y_train[:10], digits.x_test[:4], digits.y_test[:4]
    write_idx_files(directory, arrays)
    request.cls.EXAMPLE_DIR = str(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist_large_scale.Builder, "VERIFY", False)
        yield


class TestMnistLargeScale(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = mnist_large_scale.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = ("size2",)
    SPLITS: ClassVar = {"train": 9, "validation": 1, "test": 4}
