"""Drawings and photographs as a detector of light objects takes them."""

from typing import TYPE_CHECKING

import numpy as np

from gdn_keras.checks import check_positive

if TYPE_CHECKING:
    from PIL.Image import Image

_MIDDLE = 128


def light_on_dark(pixels: np.ndarray) -> tuple[np.ndarray, bool]:
    """Grey pixels with light objects on a dark ground, and whether they had to be inverted.

    The ground is the median of the picture's edge, which objects touch less than its middle.

    Args:
        pixels: uint8 `[height, width, 1]`.
    """
    inverted = bool(_ground(pixels)[0] > _MIDDLE)
    return (255 - pixels if inverted else pixels), inverted


def place_in_frame(pixels: np.ndarray, shape: tuple[int, int], factor: float = 1.0) -> np.ndarray:
    """A picture, rescaled about its centre, in a frame of the colour of the picture's edge.

    At a factor of 1, a picture that is larger than the frame is reduced to fit. What lies outside
    of the frame at a larger factor is cut off.

    Args:
        pixels: uint8 `[height, width, channels]`.
        shape: Height and width of the frame.
        factor: Positive.

    Returns:
        uint8 `[*shape, channels]`.

    Raises:
        ImportError: Without Pillow.
    """
    from PIL import Image

    height, width = shape
    fit = min(1.0, height / pixels.shape[0], width / pixels.shape[1])
    scale = fit * check_positive("factor", factor)
    # The part of the picture that the frame shows, in the picture's pixels.
    part = np.minimum(np.array(pixels.shape[1::-1]), np.array([width, height]) / scale)
    size = np.maximum(np.rint(part * scale), 1).astype(int)
    corner = (np.array(pixels.shape[1::-1]) - part) / 2
    frame = np.empty((*shape, pixels.shape[2]), "uint8")
    frame[:] = _ground(pixels)
    left, top = (np.array([width, height]) - size) // 2
    image = _image(pixels).resize(size, Image.Resampling.BICUBIC, (*corner, *(corner + part)))
    rescaled = np.asarray(image).reshape(*size[::-1], -1)
    frame[top : top + size[1], left : left + size[0]] = rescaled
    return frame


def _image(pixels: np.ndarray) -> "Image":
    from PIL import Image

    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def _ground(pixels: np.ndarray) -> np.ndarray:
    """The median of the edge, for each colour."""
    edge = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    return np.median(np.concatenate(edge), axis=0).astype("uint8")
