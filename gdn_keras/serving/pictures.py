"""Image files as the pixels that networks take."""

import os
import warnings
from typing import Any

import numpy as np

from gdn_keras.datasets.files import MID_GREY, convert_picture
from gdn_keras.detection.pictures import light_on_dark

MAX_PIXELS = 50_000_000


def read_picture(
    file: str | os.PathLike | Any, channels: int, backdrop: int = MID_GREY
) -> np.ndarray:
    """A PNG or JPEG file as uint8 `[height, width, channels]`, the right way up.

    Grey values, colours, 16 bits and transparency are as in the training on files.

    Args:
        file: The file, by name or opened.
        channels: 1 for grey, 3 for colour.
        backdrop: Grey value behind transparent parts.

    Raises:
        ValueError, OSError: If it is not such a file, or is damaged.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("Image files need Pillow: pip install gdn_keras[detection]") from error
    with warnings.catch_warnings(), Image.open(file, formats=("PNG", "JPEG")) as image:
        # Pillow only warns of decompression bombs up to twice its limit.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"{image.width} × {image.height} is more than {MAX_PIXELS} pixels")
        image.load()
        image = ImageOps.exif_transpose(image)
    pixels = np.asarray(convert_picture(image, channels != 1, backdrop))
    return pixels.reshape(*pixels.shape[:2], -1)


def read_scene(file: str | os.PathLike | Any, channels: int) -> np.ndarray:
    """A picture as detectors take it: as in `read_picture`, on black.

    Grey pictures with a light edge are inverted, since objects are light on dark to a detector of
    grey values.
    """
    pixels = read_picture(file, channels, backdrop=0)
    return light_on_dark(pixels)[0] if channels == 1 else pixels


def read_placed(file: str | os.PathLike | Any, channels: int, frame: tuple[int, int]) -> np.ndarray:
    """A picture as classifiers take it: as in `read_picture`, in the network's frame."""
    return place(read_picture(file, channels), frame)


def place(pixels: np.ndarray, frame: tuple[int, int]) -> np.ndarray:
    """A picture in the middle of a frame, its edge continued; shrunk only if it is larger.

    So a photograph is seen as a whole, whatever its resolution. The data set `folder` cuts out the
    middle of larger pictures instead, unless it is told to `resize` them.
    `examples/predict.py`, which runs without this package, does the same as this function.

    Args:
        pixels: uint8 `[height, width, channels]`.
        frame: Height and width.
    """
    from PIL import Image

    shrink = max(1.0, *(n / m for n, m in zip(pixels.shape, frame, strict=False)))
    if shrink > 1:
        height, width = (max(1, round(n / shrink)) for n in pixels.shape[:2])
        image = Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
        pixels = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
        pixels = pixels.reshape(height, width, -1)
    margins = [
        ((m - n) // 2, m - n - (m - n) // 2) for n, m in zip(pixels.shape, frame, strict=False)
    ]
    return np.pad(pixels, [*margins, (0, 0)], "edge")
