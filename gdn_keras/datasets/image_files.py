"""Directories that users name, and the pictures in them."""

import contextlib
import functools
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MAX_PIXELS = 50_000_000
# Share of the pixels, in percent, that may lie outside of the range of a deep picture on each side,
# so that a few hot or dead pixels of a camera do not darken the rest.
_OUTLIERS = 0.01
# Pillow knows these by name only, or runs another program to read them.
_UNREADABLE = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}
_WHITE, _BLACK = 255, 0


def require_directory(directory: str | os.PathLike | None, content: str) -> Path:
    """`directory`, which must be there; `content` says what should be in it."""
    if directory is None or not Path(directory).expanduser().is_dir():
        raise FileNotFoundError(
            f"`directory` must be a folder with {content}. Received: directory={directory!r}"
        )
    return Path(directory).expanduser()


def read_picture(
    file: str | os.PathLike | Any, channels: int, resize: int | None = None
) -> np.ndarray:
    """A picture as uint8 `[height, width, channels]`, upright as its camera says.

    Training, detectors, classifiers and the demo all read pictures in this way. Any format that
    Pillow reads will do; of several frames, the first is taken.

    - Grey pictures become colour by repetition, colour ones grey by luminance.
    - Pictures of 16 or 32 bits and floats are stretched from their own range to 0..255: that of all
      pixels but the 0.01 % lowest and highest. Sensors of 12 bits fill a part of 16 only. Pictures
      of 8 bits keep their values.
    - Transparent pictures are laid on white if their opaque part is dark, else on black.

    Args:
        file: The file, by name or opened.
        channels: 1 for grey, 3 for colour.
        resize: Length of the longer side; as it is if `None`.

    Raises:
        ValueError: If it is damaged, no picture, or has more than 50 million pixels.
        OSError: If it is missing.
    """
    pillow = import_pillow()
    with open_picture(file) as picture:
        is_deep = _is_deep(picture)
        picture = pillow.ImageOps.exif_transpose(picture)
        if is_deep:
            picture = _stretched(picture)
        if picture.has_transparency_data:
            picture = _on_ground(picture)
        picture = picture.convert("L" if channels == 1 else "RGB")
        if resize is not None:
            picture = picture.resize(resized(picture.size, resize))
        pixels = np.asarray(picture)
    return pixels.reshape(*pixels.shape[:2], -1)


def _is_deep(picture: Any) -> bool:
    """Whether a file has more than 8 bits a value; Pillow keeps the upper 8 of those in colour."""
    if picture.mode.startswith(("I", "F")):
        return True
    # Without the last letter, it is 16 bits for three colours together.
    return any(re.search(";16[BLN]", str(tile[3])) for tile in picture.tile)


def _stretched(picture: Any) -> Any:
    """A picture of 8 bits, from the range of a deeper one; transparency stays as it is."""
    image = import_pillow().Image
    pixels = np.asarray(picture)
    values, alpha = pixels, None
    if picture.mode in ("LA", "RGBA"):
        values, alpha = pixels[..., :-1], pixels[..., -1:]
    values = values.astype("float64")
    finite = values[np.isfinite(values)]
    if not finite.size:
        return image.new("L", picture.size)
    low, high = np.percentile(finite, (_OUTLIERS, 100 - _OUTLIERS), method="nearest")
    values = np.nan_to_num(values, nan=low)
    values = np.clip((values - low) / ((high - low) or 1), 0, 1)
    values = np.rint(255 * values).astype("uint8")
    return image.fromarray(values if alpha is None else np.concatenate([values, alpha], axis=-1))


def _on_ground(picture: Any) -> Any:
    """A transparent picture on white or black, whichever its opaque part stands out from."""
    image = import_pillow().Image
    picture = picture.convert("RGBA")
    alpha = np.asarray(picture.getchannel("A"), "float32")
    grey = np.asarray(picture.convert("RGB").convert("L"), "float32")
    is_dark = (grey * alpha).sum() < (_WHITE + _BLACK) / 2 * alpha.sum()
    ground = _WHITE if is_dark else _BLACK
    behind = image.new("RGBA", picture.size, (ground, ground, ground, 255))
    return image.alpha_composite(behind, picture)


def resized(sides: tuple[int, int], resize: int) -> tuple[int, int]:
    """Both sides of a picture, in any order, once the longer one is `resize` pixels."""
    first, second = (max(1, round(side * resize / max(sides))) for side in sides)
    return first, second


@contextlib.contextmanager
def open_picture(file: str | os.PathLike | Any) -> Iterator[Any]:
    """A Pillow image of which the header has been read; errors name the file."""
    image = import_pillow().Image
    path = Path(file) if isinstance(file, str | os.PathLike) else None
    try:
        # A pipe would be waited for, and a device read for ever.
        if path and path.exists() and not path.is_file():
            raise ValueError("it is not a file")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", image.DecompressionBombWarning)  # the limit is below
            opened = image.open(file, formats=_formats())
        with opened as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise ValueError(
                    f"{picture.width} × {picture.height} is more than {MAX_PIXELS} pixels"
                )
            yield picture
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise ValueError(f"{path or 'this'} is not a picture that can be read: {error}") from error


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
