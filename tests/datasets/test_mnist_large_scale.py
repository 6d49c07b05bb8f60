import numpy as np
import pytest

from gdn_keras.datasets import Digits, load_large_scale
from tests.datasets.idx_files import write_idx_files

tfds = pytest.importorskip("tensorflow_datasets")
mnist_large_scale = pytest.importorskip("gdn_keras.datasets.mnist_large_scale")

SPLITS = {"train": 9, "validation": 1, "test": 4}


@pytest.fixture(scope="module")
def source(digits) -> Digits:
    return Digits(digits.x_train[:10], digits.y_train[:10], digits.x_test[:4], digits.y_test[:4])


@pytest.fixture(scope="module")
def dummy_data(source, tmp_path_factory):
    directory = tmp_path_factory.mktemp("dummy_data")
    write_idx_files(directory, source)
    return directory


@pytest.fixture
def unverified(monkeypatch):
    monkeypatch.setattr(mnist_large_scale.Builder, "VERIFY", False)


def load(directory, dummy_data, config, **options):
    config_of_download = tfds.download.DownloadConfig(manual_dir=dummy_data)
    return tfds.load(
        f"mnist_large_scale/{config}",
        data_dir=directory,
        download_and_prepare_kwargs={"download_config": config_of_download},
        **options,
    )


def test_a_config_for_each_size():
    names = [config.name for config in mnist_large_scale.Builder.BUILDER_CONFIGS]
    assert len(names) == 17
    assert names[:5] == ["size0p500", "size0p595", "size0p707", "size0p841", "size1"]
    assert "size2" in names and "size4" in names and names[-1] == "size8"


def test_load_by_name(tmp_path, dummy_data, source, unverified):
    data, info = load(tmp_path, dummy_data, "size2", with_info=True, as_supervised=True)
    assert {name: split.num_examples for name, split in info.splits.items()} == SPLITS
    for split in SPLITS:
        expected = load_large_scale(split, 2, source=source, cache=False)
        images, labels = zip(*data[split].as_numpy_iterator(), strict=True)
        assert images[0].dtype == np.uint8
        np.testing.assert_array_equal(images, expected.images)
        np.testing.assert_array_equal(labels, expected.labels)


def test_other_sizes_have_test_images_only(tmp_path, dummy_data, unverified):
    _, info = load(tmp_path, dummy_data, "size0p595", with_info=True)
    assert list(info.splits) == ["test"]


def test_foreign_files_are_refused(tmp_path, dummy_data):
    with pytest.raises(ValueError, match="is not the canonical MNIST file"):
        load(tmp_path, dummy_data, "size2")


def test_without_files_and_network(tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        load(tmp_path, tmp_path / "nothing", "size2")
    assert not list(tmp_path.rglob("*.tfrecord*"))
