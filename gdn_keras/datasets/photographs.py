"""Pictures in frames of one size, at their own resolution or rescaled."""

import math
from collections.abc import Sequence

import numpy as np

from gdn_keras.datasets.image_data import LazyImages
from gdn_keras.datasets.transform import rescale_images

# What a pixel integrates over, about: the standard deviation of its blur, in pixels.
_PIXEL_BLUR = 0.5
_CHUNK = 1000  # photographs that are floats at a time


class FramedPictures(LazyImages):
    """Pictures of any sizes, each in a frame of its own, pixel by pixel; see `place_in_frame`.

    Args:
        pictures: Arrays `[h, w, channels]` of one type.
        frame: Height and width of the frames.
        centres: Row and column of each picture that lie in the middle of its frame; the middle of
            the picture if `None`.
    """

    def __init__(
        self,
        pictures: Sequence[np.ndarray],
        frame: int,
        centers: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        super().__init__((len(pictures), frame, frame, pictures[0].shape[2]), pictures[0].dtype)
        self._pictures = pictures
        self._centers = centers or [None] * len(pictures)

    def read(self, indices: np.ndarray) -> np.ndarray:
        images = np.empty((len(indices), *self.shape[1:]), self.dtype)
        for image, i in zip(images, indices, strict=True):
            image[...] = place_in_frame(self._pictures[i], self.shape[1], self._centers[i])
        return images


def place_in_frame(
    picture: np.ndarray, frame: int, center: tuple[float, float] | None = None
) -> np.ndarray:
    """A square about one point of a picture; beyond the picture its edge pixels are continued.

    Pixels stay what they are: what is large in the picture is as large in the frame.

    Args:
        picture: Array `[h, w, …]`.
        frame: Height and width of the square.
        centre: Row and column of the point, to the nearest half pixel; the middle if `None`.
    """
    middles = [(n - 1) / 2 for n in picture.shape[:2]] if center is None else center
    rows, columns = (
        np.clip(np.arange(frame) + math.floor(middle - (frame - 1) / 2 + 0.5), 0, length - 1)
        for middle, length in zip(middles, picture.shape[:2], strict=True)
    )
    return picture[rows[:, None], columns]


def rescale_photographs(
    images: np.ndarray, size: float, frame: int, boundary: str = "symmetric"
) -> np.ndarray:
    """Photographs rescaled about their middle, in raw pixels.

    By cubic splines, smoothed by `shrink_smoothing(size)`.

    Args:
        images: uint8 `[n, h, w, channels]`.
        size: Positive scale factor; 1 leaves all pixels as they are.
        frame: Height and width of the result.
        boundary: What lies beyond the photograph, as in `rescale_images`.

    Returns:
        uint8 `[n, frame, frame, channels]`.
    """
    options = {"smoothing": shrink_smoothing(size), "boundary": boundary, "peak": None}
    result = np.empty((len(images), frame, frame, images.shape[3]), "uint8")
    for start in range(0, len(images), _CHUNK):
        part = slice(start, start + _CHUNK)
        rescaled = rescale_images(images[part], size, (frame, frame), **options)
        result[part] = np.clip(np.rint(rescaled, out=rescaled), 0, 255)
    return result


def shrink_smoothing(size: float) -> float:
    """Standard deviation of the smoothing that a picture rescaled by `size` needs, in its pixels.

    A pixel is blurred by about half its width. Smaller pictures are smoothed by what they lack of
    that, `0.5 sqrt(1 / size² - 1)`; larger ones are not.
    """
    return _PIXEL_BLUR * math.sqrt(1 / size**2 - 1) if size < 1 else 0.0
