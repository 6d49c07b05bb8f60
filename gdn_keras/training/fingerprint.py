"""What a run knows its images by: counts, shapes and checksums."""

import math
import zlib
from typing import Any

import numpy as np

from gdn_keras.datasets import ImageData, LabelledImages

_CHUNK_BYTES = 2**24  # images that are in memory at a time, to be summed up


def images_at(data: ImageData, size: float | None) -> LabelledImages:
    """Test images of one size; of data without sizes, which have none, the validation images."""
    return data.validation if size is None else data.test(size)


def sizes_of(data: ImageData) -> tuple[float | None, ...]:
    """The sizes to test at, in increasing order; `None` for data without sizes."""
    return tuple(sorted(data.test_sizes)) or (None,)


def image_shape(data: ImageData) -> tuple[int, int, int]:
    """Height, width and channels of test images, which a finished network is for."""
    _, height, width, channels = images_at(data, sizes_of(data)[0]).images.shape
    return height, width, channels


def describe_data(data: ImageData) -> dict[str, Any]:
    """The data as plain values, by which a run knows them again."""
    images, tested = data.train.images, images_at(data, sizes_of(data)[0])
    return {
        "data": data.name,
        "class_names": list(data.class_names),
        "training_images": len(data.train.labels),
        "training_frame": list(images.shape[1:]),
        "training_checksum": _checksum(data.train),
        "validation_checksum": _checksum(data.validation),
        "train_sizes": list(data.train_sizes),
        "test_sizes": list(data.test_sizes),
        "test_images": len(tested.labels),
        "test_checksum": _checksum(tested),
    }


def _checksum(part: LabelledImages) -> int:
    """Of all labels and images, which may be on disk."""
    images = part.images
    size = np.dtype(images.dtype).itemsize * math.prod(images.shape[1:])
    count = max(1, _CHUNK_BYTES // max(1, size))
    checksum = zlib.crc32(part.labels.tobytes())
    for start in range(0, len(part.labels), count):
        chunk = np.ascontiguousarray(images[start : start + count])
        checksum = zlib.crc32(chunk.data, checksum)
    return checksum
