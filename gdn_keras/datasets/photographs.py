"""Pictures in frames of one size, at their own resolution or rescaled."""

import math
from collections.abc import Sequence

import numpy as np

from gdn_keras.datasets.frames import place_in_frame
from gdn_keras.datasets.image_data import LazyImages
from gdn_keras.datasets.transform import rescale_images

# What a pixel integrates over, about: the standard deviation of its blur, in pixels.
_PIXEL_BLUR = 0.5
_CHUNK = 1000  # photographs that are floats at a time


class FramedPictures(LazyImages):
    """Pictures of any sizes, placed in frames as they are read.

    Args:
        pictures: uint8 arrays `[h, w, channels]`.
        frame: Height and width of the frames.
        centers: Row and column of each picture about which a frame is cut out, see `crop_about`.
            If `None`, frames show whole pictures, see `place_in_frame`.
    """

    def __init__(
        self,
        pictures: Sequence[np.ndarray],
        frame: int,
        centers: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        super().__init__((len(pictures), frame, frame, pictures[0].shape[2]), pictures[0].dtype)
        self._pictures = pictures
        self._centers = centers

    def read(self, indices: np.ndarray) -> np.ndarray:
        images = np.empty((len(indices), *self.shape[1:]), self.dtype)
        for image, i in zip(images, indices, strict=True):
            if self._centers is None:
                image[...], _ = place_in_frame(self._pictures[i], (self.shape[1], self.shape[2]))
            else:
                image[...] = crop_about(self._pictures[i], self.shape[1], self._centers[i])
        return images


def crop_about(picture: np.ndarray, frame: int, center: tuple[float, float]) -> np.ndarray:
    """A square about one point of a picture; beyond the picture its edge pixels are continued.

    Pixels stay what they are: what is large in the picture is as large in the frame.

    Args:
        picture: Array `[h, w, …]`.
        frame: Height and width of the square.
        center: Row and column of the point, to the nearest half pixel.
    """
    rows, columns = (
        np.clip(np.arange(frame) + math.floor(middle - (frame - 1) / 2 + 0.5), 0, length - 1)
        for middle, length in zip(center, picture.shape[:2], strict=True)
    )
    return picture[rows[:, None], columns]


def rescale_photographs(
    images: np.ndarray,
    size: float,
    frame: int | tuple[int, int],
    boundary: str = "symmetric",
) -> np.ndarray:
    """Photographs rescaled about their middle, in raw pixels.

    By cubic splines, smoothed by `shrink_smoothing(size)`.

    Args:
        images: uint8 `[n, h, w, channels]`.
        size: Positive scale factor; 1 leaves all pixels as they are.
        frame: Height and width of the result, as one number if they are equal.
        boundary: What lies beyond the photograph, as in `rescale_images`.

    Returns:
        uint8 `[n, height, width, channels]`.
    """
    shape = (frame, frame) if isinstance(frame, int) else frame
    options = {"smoothing": shrink_smoothing(size), "boundary": boundary, "peak": None}
    result = np.empty((len(images), *shape, images.shape[3]), "uint8")
    for start in range(0, len(images), _CHUNK):
        part = slice(start, start + _CHUNK)
        rescaled = rescale_images(images[part], size, shape, **options)
        result[part] = np.clip(np.rint(rescaled, out=rescaled), 0, 255)
    return result


def shrink_smoothing(size: float) -> float:
    """Standard deviation of the smoothing that a picture rescaled by `size` needs, in its pixels.

    A pixel is blurred by about half its width. Smaller pictures are smoothed by what they lack of
    that, `0.5 sqrt(1 / size² - 1)`; larger ones are not.
    """
    return _PIXEL_BLUR * math.sqrt(1 / size**2 - 1) if size < 1 else 0.0
