"""MNIST Large Scale as a TensorFlow Datasets builder, with one config for each size."""

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds

from gdn_keras.datasets.digits import (
    MNIST_FILES,
    SPLITS,
    find_idx,
    load_idx_files,
    require_reachable,
    select_split,
)
from gdn_keras.datasets.large_scale import rescaled_chunks
from gdn_keras.datasets.transform import TEST_SIZES, TRAIN_SIZES

_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"


def config_name(size: float) -> str:
    """`size1` for 1 and `size0p595` for 2^(-3/4), as in the names of the official files."""
    return "size" + f"{size:.3f}".replace(".", "p").removesuffix("p000")


_SIZES = {config_name(size): size for size in TEST_SIZES}


class Builder(tfds.core.GeneratorBasedBuilder):
    """MNIST rescaled by factors from 1/2 to 8, in images of 112×112."""

    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES: ClassVar = {"2.0.0": "Pixels of 0 to 255.", "1.0.0": "Initial release."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Optional: the four MNIST files, such as train-images-idx3-ubyte.gz, gzipped or not. "
        "What is not there is downloaded."
    )
    BUILDER_CONFIGS: ClassVar = [
        tfds.core.BuilderConfig(name=name, description=f"Digits at {size:.3f} times their size.")
        for name, size in _SIZES.items()
    ]
    VERIFY = True  # that the files are MNIST's own

    def _info(self) -> tfds.core.DatasetInfo:
        image = tfds.features.Image(shape=(112, 112, 1), dtype=np.uint8)
        label = tfds.features.ClassLabel(num_classes=10)
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict({"image": image, "label": label}),
            supervised_keys=("image", "label"),
            homepage="https://zenodo.org/records/3820247",
            disable_shuffling=True,  # the first images are then the first of MNIST
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        digits = load_idx_files(_mnist_files(dl_manager), verify=self.VERIFY)
        size = _SIZES[self.builder_config.name]
        return {
            split: self._generate_examples(*select_split(digits, split), size)
            for split in (SPLITS if size in TRAIN_SIZES else ("test",))  # as it is published
        }

    def _generate_examples(
        self, digits: np.ndarray, labels: np.ndarray, size: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        images = itertools.chain.from_iterable(rescaled_chunks(digits, size))
        for index, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield index, {"image": image, "label": int(label)}


def _mnist_files(dl_manager: tfds.download.DownloadManager) -> list:
    try:
        return [find_idx(dl_manager.manual_dir, name) for name in MNIST_FILES]
    except (AssertionError, FileNotFoundError):
        pass  # no such directory, which TFDS asserts, or not all four: both are allowed
    urls = [f"{_URL}{name}.gz" for name in MNIST_FILES]
    if not any(dl_manager.download_dir.glob("*train-images-idx3*")):
        require_reachable(urls[0], "The four MNIST files are not in TFDS's manual_dir")
    return dl_manager.download(urls)
