"""Directories that users name, and the pictures in them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

# On mid-grey, black and white objects both stand out.
MID_GREY = 128


def require_directory(directory: str | os.PathLike | None, content: str) -> Path:
    """`directory`, which must be there; `content` says what should be in it."""
    if directory is None or not Path(directory).expanduser().is_dir():
        raise FileNotFoundError(
            f"`directory` must be a folder with {content}. Received: directory={directory!r}"
        )
    return Path(directory).expanduser()


def read_photograph(
    file: Path, *, colour: bool, resize: int | None = None, backdrop: int = MID_GREY
) -> np.ndarray:
    """A picture as uint8 `[height, width, channels]`, upright as its camera says.

    Args:
        file: The file.
        colour: Whether to give three channels, or one; see `convert_picture`.
        resize: Length of the longer side; as it is if `None`.
        backdrop: Grey value behind transparent parts.

    Raises:
        ValueError: If the file is damaged or no picture.
    """
    pillow = import_pillow()
    with open_picture(file) as picture:
        picture = convert_picture(pillow.ImageOps.exif_transpose(picture), colour, backdrop)
        if resize is not None:
            picture = picture.resize(resized(picture.size, resize))
        pixels = np.asarray(picture)
    return pixels if colour else pixels[..., None]


def convert_picture(picture: Any, colour: bool, backdrop: int) -> Any:
    """A Pillow image of any mode in that of the network, "RGB" or "L".

    Grey ones become colour by repetition, colour ones grey by luminance. Transparent ones are laid
    on `backdrop`, and of 16 bits the upper 8 are kept. `examples/predict.py`, which runs without
    this package, does the same.
    """
    image = import_pillow().Image
    if picture.mode.startswith("I"):
        picture = image.fromarray((np.asarray(picture) >> 8).astype("uint8"))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        behind = image.new("RGBA", picture.size, (backdrop, backdrop, backdrop, 255))
        picture = image.alpha_composite(behind, picture)
    return picture.convert("RGB" if colour else "L")


def resized(sides: tuple[int, int], resize: int) -> tuple[int, int]:
    """Both sides of a picture, in any order, once the longer one is `resize` pixels."""
    first, second = (max(1, round(side * resize / max(sides))) for side in sides)
    return first, second


@contextlib.contextmanager
def open_picture(file: Path) -> Iterator[Any]:
    """A Pillow image of which the header has been read; errors name the file."""
    image = import_pillow().Image
    try:
        with image.open(file) as picture:
            yield picture
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise ValueError(f"{file} is not a picture that can be read: {error}") from error


def import_pillow() -> ModuleType:
    """PIL with the parts of it that are used here."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError("Reading pictures needs Pillow: pip install gdn_keras[data]") from error
    return PIL
