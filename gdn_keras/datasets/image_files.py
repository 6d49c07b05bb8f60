"""Directories that users name, and the pictures in them."""

import contextlib
import functools
import itertools
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

MAX_PIXELS = 50_000_000
MAX_PIXELS_OF_PAGE = 175_000_000  # Pillow's own limit is a little above
# Share of the pixels, in percent, that may lie outside of the range of a deep picture on each side,
# so that a few hot or dead pixels of a camera do not darken the rest.
_OUTLIERS = 0.01
# Pillow knows these by name only, or runs another program to read them.
_UNREADABLE = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}
_STRIP = 1024  # rows
_GREY_MODES = ("1", "L", "LA", "I", "F")
_ORIENTATION = 0x0112  # a tag of EXIF: how cameras say which side is up
TURNED = (5, 6, 7, 8)  # its values for pictures whose width is shown as their height
_SUBFILE_TYPE, _IS_THUMBNAIL = 254, 1  # a tag of TIFF and a bit of it


def require_directory(directory: str | os.PathLike | None, content: str) -> Path:
    """`directory`, which must be there; `content` says what should be in it."""
    if directory is None or not Path(directory).expanduser().is_dir():
        text = f"`directory` must be a folder with {content}."
        raise FileNotFoundError(f"{text} Received: directory={directory!r}")
    return Path(directory).expanduser()


class Page(NamedTuple):
    """A picture of a file; `number` counts from 1 on, in a file of several pages.

    `stretched` is the range of a deep picture that became 0 to 255; `None` for one of 8 bits.
    """

    pixels: np.ndarray
    number: int | None
    stretched: tuple[float, float] | None


class Header(NamedTuple):
    """What a file says of its picture, which is `height` times `width` when it is upright."""

    height: int
    width: int
    channels: int
    orientation: int


def read_header(file: Path) -> Header:
    """Height, width and channels of a picture, without its pixels."""
    with open_picture(file) as picture:
        channels = 1 if picture.mode.split(";")[0] in _GREY_MODES else 3
        orientation = picture.getexif().get(_ORIENTATION, 1)
        width, height = picture.size[::-1] if orientation in TURNED else picture.size
    return Header(height, width, channels, orientation)


def read_picture(
    file: str | os.PathLike | Any, channels: int, resize: int | None = None
) -> np.ndarray:
    """A picture as uint8 `[height, width, channels]`, upright as its camera says.

    Training, detectors, classifiers and the demo all read pictures in this way. Any format that
    Pillow reads will do; of several frames, the first is taken.

    - Grey pictures become color by repetition, color ones grey by luminance.
    - Pictures of 16 or 32 bits and floats are stretched from their own range to 0..255: that of all
      pixels but the 0.01 % lowest and highest. Sensors of 12 bits fill a part of 16 only. Pictures
      of 8 bits keep their values.
    - Transparent pictures are laid on white if their opaque part is dark, else on black.

    Args:
        file: The file, by name or opened.
        channels: 1 for grey, 3 for color.
        resize: Length of the longer side; unchanged if `None`.

    Raises:
        ValueError: If it is damaged, no picture, or has more than 50 million pixels.
        OSError: If it is missing.
    """
    with open_picture(file) as picture:
        return _as_pixels(picture, channels, resize)[0]


def read_pages(file: str | os.PathLike | Any, channels: int) -> Iterator[Page]:
    """The pages of a TIFF but for its thumbnails, or the first frame of anything else.

    As `read_picture`, for pages of up to 175 million pixels.
    """
    with open_picture(file, MAX_PIXELS_OF_PAGE) as picture:
        has_pages = picture.format == "TIFF" and picture.is_animated
        for number in itertools.count():
            try:
                picture.seek(number)
            except EOFError:
                return
            if number == 0 or not picture.tag_v2.get(_SUBFILE_TYPE, 0) & _IS_THUMBNAIL:
                _check_pixels(picture, MAX_PIXELS_OF_PAGE)
                pixels, stretched = _as_pixels(picture, channels)
                yield Page(pixels, number + 1 if has_pages else None, stretched)
            if not has_pages:
                return


def _as_pixels(
    picture: Any, channels: int, resize: int | None = None
) -> tuple[np.ndarray, tuple[float, float] | None]:
    """Pixels of an open picture, and the range that they were stretched from."""
    stretched, is_deep = None, picture.mode.startswith(("I", "F"))
    # Colors of 16 bits, as Pillow keeps their upper 8; ";16" alone is 16 bits for three of them.
    is_deep = is_deep or any(re.search(";16[BLN]", str(tile[3])) for tile in picture.tile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is wrong beside the pixels
        import_pillow().ImageOps.exif_transpose(picture, in_place=True)
        if is_deep:
            picture, stretched = _stretched(picture)
        if picture.has_transparency_data:
            picture = _on_ground(picture)
        mode, (width, height) = "L" if channels == 1 else "RGB", picture.size
        if resize is not None:
            (width, height), picture = resized(picture.size, resize), picture.convert(mode)
            picture = picture.resize((width, height))
        pixels = np.empty((height, width, channels), "uint8")
        for top in range(0, height, _STRIP):  # Pillow's copies of a large picture are several
            strip = picture.crop((0, top, width, min(height, top + _STRIP))).convert(mode)
            pixels[top : top + _STRIP] = np.asarray(strip).reshape(-1, width, channels)
    return pixels, stretched


def _stretched(picture: Any) -> tuple[Any, tuple[float, float]]:
    """A picture of 8 bits, and the range of the deeper one; transparency is unchanged."""
    pixels = np.asarray(picture)
    values = pixels.reshape(*pixels.shape[:2], -1)
    count = values.shape[2] - (picture.mode in ("LA", "RGBA"))
    finite = values[..., :count][np.isfinite(values[..., :count])]
    shares = (_OUTLIERS, 100 - _OUTLIERS)
    if not finite.size:
        raise ValueError("none of its pixels is a number")
    low, high = map(float, np.percentile(finite, shares, method="nearest"))
    result = np.empty(values.shape, "uint8")
    # Row by row: all of a large picture as floats would take too much memory.
    for source, target in zip(values, result, strict=True):
        row = np.nan_to_num(source[:, :count].astype("float64"), nan=low)
        target[:, :count] = np.rint(255 * np.clip((row - low) / ((high - low) or 1), 0, 1))
        target[:, count:] = source[:, count:]
    unit = 256 if pixels.dtype == np.uint8 else 1  # Pillow's upper half of 16 bits
    picture = import_pillow().Image.fromarray(result.reshape(pixels.shape))
    return picture, (unit * low, unit * high)


def _on_ground(picture: Any) -> Any:
    """A transparent picture on white or black, whichever its opaque part stands out from."""
    image = import_pillow().Image
    picture = picture.convert("RGBA")
    alpha = np.asarray(picture.getchannel("A"))
    grey = np.asarray(picture.convert("RGB").convert("L"))
    light = np.multiply(grey, alpha, dtype="uint16").sum(dtype="uint64")
    is_dark = light < 255 / 2 * alpha.sum(dtype="uint64")
    ground = image.new("RGBA", picture.size, "white" if is_dark else "black")
    return image.alpha_composite(ground, picture)


def resized(sides: tuple[int, int], resize: int) -> tuple[int, int]:
    """Both sides of a picture, in any order, once the longer one is `resize` pixels."""
    first, second = (max(1, round(side * resize / max(sides))) for side in sides)
    return first, second


def resize_pixels(pixels: np.ndarray, height: int, width: int, resampling: str) -> np.ndarray:
    """uint8 pixels `[h, w, channels]` at another height and width, by a filter of Pillow."""
    image = import_pillow().Image
    picture = image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture = picture.resize((width, height), image.Resampling[resampling])
    return np.asarray(picture).reshape(height, width, -1)


@contextlib.contextmanager
def open_picture(file: str | os.PathLike | Any, max_pixels: int = MAX_PIXELS) -> Iterator[Any]:
    """A Pillow image of which the header has been read; errors name the file."""
    image = import_pillow().Image
    path = Path(file) if isinstance(file, str | os.PathLike) else None
    try:
        # A pipe would be waited for, and a device read for ever.
        if path and path.exists() and not path.is_file():
            raise ValueError("it is not a file")
        with contextlib.ExitStack() as stack:
            # Pillow maps files that it opens itself into memory, and scrambles turned TIFFs by it.
            stream = file if path is None else stack.enter_context(path.open("rb"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", image.DecompressionBombWarning)  # checked below
                picture = stack.enter_context(image.open(stream, formats=_formats()))
            _check_pixels(picture, max_pixels)
            yield picture
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise ValueError(f"{path or 'this'} is not a picture that can be read: {error}") from error


def _check_pixels(picture: Any, max_pixels: int) -> None:
    if picture.width * picture.height > max_pixels:
        raise ValueError(f"{picture.width} × {picture.height} is more than {max_pixels} pixels")


@functools.cache
def picture_endings() -> frozenset[str]:
    """The endings, such as ".png", of files that can be read."""
    known = import_pillow().Image.registered_extensions()
    return frozenset(ending for ending, name in known.items() if name in _formats())


@functools.cache
def _formats() -> tuple[str, ...]:
    image = import_pillow().Image
    image.init()
    return tuple(name for name in image.OPEN if name not in _UNREADABLE)


def import_pillow() -> ModuleType:
    """PIL with the parts of it that are used here."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError("Reading pictures needs Pillow: pip install gdn_keras[data]") from error
    return PIL
