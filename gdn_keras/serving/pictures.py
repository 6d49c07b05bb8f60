"""Image files as the pixels that networks take."""

import os
from typing import Any

import numpy as np

from gdn_keras.datasets.image_files import read_picture
from gdn_keras.detection.pictures import light_on_dark

# Share of the frame that an object may fill: the largest training digits fill as much.
_FILL = 80 / 112
# Least contrast of an object to its background, in grey values of 255.
_MIN_CONTRAST = 16


def read_scene(file: str | os.PathLike | Any, channels: int) -> np.ndarray:
    """A picture as detectors take it, see `read_picture`.

    Grey pictures with a light edge are inverted, since objects are light on dark to a detector of
    grey values.
    """
    pixels = read_picture(file, channels)
    return light_on_dark(pixels)[0] if channels == 1 else pixels


def read_placed(file: str | os.PathLike | Any, channels: int, frame: tuple[int, int]) -> np.ndarray:
    """A picture as classifiers take it: as in `read_picture`, in the network's frame."""
    return place(read_picture(file, channels), frame)[0]


def place(pixels: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """A picture in the middle of a frame, its edge continued; shrunk only if it is larger.

    So a photograph is seen as a whole, whatever its resolution. The data set `folder` cuts out the
    middle of larger pictures instead, unless it is told to `resize` them.

    Args:
        pixels: uint8 `[height, width, channels]`.
        frame: Height and width.

    Returns:
        The framed picture, and by how much it was shrunk (1 if it fits).
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
    return np.pad(pixels, [*margins, (0, 0)], "edge"), shrink


def place_object(pixels: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """The one object of a grey picture, light on black, in the middle of a frame.

    The middle of an object is its centre of mass, as in MNIST. Objects that fit keep their size:
    the network takes them at any.

    Args:
        pixels: uint8 `[height, width, 1]`, an object on an even background.
        frame: Height and width.

    Returns:
        uint8 `[*frame, 1]`, and by how much the object was shrunk to fit (1 if it did).

    Raises:
        ValueError: If nothing stands out from the background.
    """
    from PIL import Image

    light = _on_black(pixels[..., 0])
    strong = np.where(light > light.max() / 4, light, 0)
    centers, shrink = [], 1.0
    for profile, length in zip((strong.sum(axis=1), strong.sum(axis=0)), frame, strict=True):
        center = float((np.arange(len(profile)) + 0.5) @ profile / profile.sum())
        inside = np.flatnonzero(profile)
        reach = max(center - inside[0], inside[-1] + 1 - center)
        centers.append(center)
        shrink = max(shrink, 2 * reach / (_FILL * length))
    height, width = (round(shrink * length) for length in frame)
    top, left = (round(c - n / 2) for c, n in zip(centers, (height, width), strict=True))
    # Beyond the edges, `crop` continues with zeros: the background.
    part = Image.fromarray(light).crop((left, top, left + width, top + height))
    part = np.asarray(part.resize(frame[::-1], Image.Resampling.BILINEAR))
    return np.uint8(np.rint(part * (255 / part.max())))[..., None], shrink


def _on_black(pixels: np.ndarray) -> np.ndarray:
    """Grey values above or below the background, which is what most of the border shows."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    contrast = np.float32(pixels) - np.float32(np.median(border))
    if -contrast.min() > contrast.max():
        contrast = -contrast
    if contrast.max() < _MIN_CONTRAST:
        raise ValueError("nothing stands out from the background")
    return np.maximum(contrast, 0)
