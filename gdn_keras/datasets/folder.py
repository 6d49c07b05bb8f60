"""A folder of pictures, one sub-folder for each class, and scale channels for them."""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import numpy as np
from numpy.typing import ArrayLike

from gdn_keras.checks import check_integer, check_positive, check_share, check_sizes, require
from gdn_keras.datasets.frames import place_in_frame, shrink_to_fit
from gdn_keras.datasets.image_data import (
    ImageData,
    LabelledImages,
    LazyImages,
    hold_out,
    register_dataset,
)
from gdn_keras.datasets.image_files import (
    picture_endings,
    read_header,
    read_picture,
    require_directory,
)
from gdn_keras.datasets.transform import rescale_photographs

FACTORS = tuple(2.0 ** (k / 2) for k in range(-4, 5))
LARGEST_FRAME = 224  # unless another one is asked for

# Height of an object over the standard deviation of all smoothing in the channel that it selects.
_HEIGHT = 3.46
_FINEST = -2  # 2^(-2/2): a Gaussian of less than half a pixel is hardly sampled
_SMALLEST_PICTURE = 16  # pixels; what is smaller shows nothing


@register_dataset("folder")
def folder(
    directory: str | os.PathLike | None = None,
    *,
    frame: int | None = None,
    color: bool | None = None,
    validation_share: float = 0.2,
    test_sizes: Sequence[float] | None = None,
    seed: int = 0,
) -> ImageData:
    """Your own pictures, such as `directory/cat/1.jpg` and `directory/dog/7.png`.

    Pictures keep their pixels: each is placed in the middle of a frame, and its edge is continued.
    Resizing them to one size would change the very thing that a network for all sizes is about.
    Only a picture that is larger than the frame is shrunk until all of it fits, as in prediction.
    Values of more than 8 bits and transparent parts become pixels as in `read_picture`.

    The test images are the held-out pictures, rescaled.

    Args:
        directory: With at least two folders of pictures in any format that Pillow reads, whose
            names are the class names. A warning counts other files, and folders in these folders.
        frame: Height and width of all images; the longest side of a picture if `None`, but not
            more than 224.
        color: Whether images have three channels, or one. If `None`, one if all pictures are grey;
            otherwise three, and grey pictures are repeated in each.
        validation_share: The share of each class that is held out.
        test_sizes: Factors of the test images. If `None`, 1 and those of 1/4, 1/2√2, … 4 by which
            the median picture gets no smaller than 16 pixels and no larger than the frame.
        seed: Of the choice of what is held out.
    """
    classes = find_pictures(directory)
    _warn_of_others(classes)
    train, held_out = _split(classes, validation_share, seed)
    headers = [read_header(file) for files in classes.values() for file in files]
    sides = [max(header.height, header.width) for header in headers]
    frame = check_integer("frame", min(max(sides), LARGEST_FRAME) if frame is None else frame)
    if test_sizes is None:
        median = float(np.median(np.minimum(sides, frame)))
        test_sizes = [f for f in FACTORS if f == 1 or _SMALLEST_PICTURE <= f * median <= frame]
    check_sizes("test_sizes", test_sizes, minimum=0)
    if color is None:
        color = any(header.channels == 3 for header in headers)
    channels = 3 if color else 1
    labels = {file: k for k, files in enumerate(classes.values()) for file in files}

    def load(files: Sequence[Path], size: float | None = None) -> LabelledImages:
        pictures = [shrink_to_fit(read_picture(f, channels), (frame, frame))[0] for f in files]
        framed = framed_pictures(pictures, frame)
        images = framed if size is None else _rescaled(pictures, size, frame)
        return LabelledImages(images, np.array([labels[file] for file in files]))

    return ImageData(
        name="folder",
        train=load(train),
        validation=load(held_out),
        test=lambda size: load(held_out, size),
        test_sizes=tuple(test_sizes),
        class_names=tuple(classes),
        preprocessor=keras.layers.Rescaling(1 / 127.5, offset=-1),
        size_name="size, relative to the picture",
        train_sizes=(1.0,),
    )


def find_pictures(directory: str | os.PathLike | None) -> dict[str, list[Path]]:
    """The pictures of each class, in the order of their names."""
    directory = require_directory(directory, "one folder of pictures for each class")
    folders = sorted(path for path in _visible(directory) if path.is_dir())
    if len(folders) < 2:
        text = f"{directory} must hold a folder for each of two or more classes."
        raise ValueError(f"{text} Received: {[folder.name for folder in folders]}")
    classes = {}
    for folder in folders:
        pictures = sorted(p for p in _visible(folder) if _is_picture(p))
        if len(pictures) < 2:
            text = "two or more pictures, such as .png or .jpg, one of them to validate with"
            raise ValueError(f"{folder} must hold {text}. Received: {len(pictures)}")
        classes[folder.name] = pictures
    return classes


def _visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in picture_endings() and not path.is_dir()


def _warn_of_others(classes: Mapping[str, Sequence[Path]]) -> None:
    """Tells how much of a folder is not used, so that nobody trains on less than they think."""
    folders = [files[0].parent for files in classes.values()]
    top = folders[0].parent
    others = [p for p in _visible(top) if not p.is_dir()]
    others += [p for folder in folders for p in _visible(folder) if not _is_picture(p)]
    nested = sum(path.is_dir() for path in others)
    if others:
        text = f"{top}: skipped {len(others) - nested} files that are not pictures and {nested}"
        text += f" folders inside of class folders, such as {others[-1].relative_to(top)}."
        warnings.warn(text, stacklevel=4)


def _split(
    classes: Mapping[str, Sequence[Path]], share: float, seed: int
) -> tuple[list[Path], list[Path]]:
    """What is left of each class, and what is held out."""
    name = "validation_share"
    require(0 < check_share(name, share) < 1, name, "lie strictly between 0 and 1", share)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    held_out = set().union(*(hold_out(files, share, rng) for files in classes.values()))
    files = [file for files in classes.values() for file in files]
    return [f for f in files if f not in held_out], [f for f in files if f in held_out]


def picture_heights(directory: str | os.PathLike, frame: int) -> np.ndarray:
    """Heights of all pictures of a folder in their frames, in pixels, for `suggest_scales`.

    Args:
        directory: As in `folder`.
        frame: Height and width of the images.
    """
    classes = find_pictures(directory)
    headers = [read_header(file) for files in classes.values() for file in files]
    shrinks = [max(1.0, header.height / frame, header.width / frame) for header in headers]
    return np.array([header.height for header in headers]) / shrinks


def framed_pictures(pictures: Sequence[np.ndarray], frame: int) -> LazyImages:
    """Pictures `[h, w, channels]` of any sizes, each placed in a frame as it is read."""
    shape = (len(pictures), frame, frame, pictures[0].shape[2])

    def read(indices: np.ndarray) -> np.ndarray:
        images = np.empty((len(indices), *shape[1:]), "uint8")
        for image, i in zip(images, indices, strict=True):
            image[...], _ = place_in_frame(pictures[i], (frame, frame))
        return images

    return LazyImages(shape, read)


def _rescaled(pictures: Sequence[np.ndarray], size: float, frame: int) -> np.ndarray:
    """Pictures of any shapes at another size, those of one shape together."""
    if check_positive("size", size) == 1:
        return np.asarray(framed_pictures(pictures, frame))
    images = np.empty((len(pictures), frame, frame, pictures[0].shape[2]), "uint8")
    for shape in {picture.shape for picture in pictures}:
        alike = [i for i, picture in enumerate(pictures) if picture.shape == shape]
        stack = np.stack([pictures[i] for i in alike])
        images[alike] = rescale_photographs(stack, size, frame, boundary="edge")
    return images


def suggest_scales(
    heights: ArrayLike, *, layers: int = 6, scale_ratio: float = 1.25
) -> tuple[float, ...]:
    """sigma_0 of the scale channels for objects of these heights: about height / 17, and beside.

    Measured on MNIST Large Scale, whose digits are 20 pixels high at size 1: the mean sigma_0 that
    the four classifiers of digits in `saved_models` select is height / 16.5 to height / 17.8, see
    accuracy.json beside each. That is an object as high as three and a half standard deviations of
    the whole cascade, `sigma_0 sqrt(sum_k scale_ratio^(2k))`, for other numbers of layers too.

    Channels lie at powers of √2, as in the paper, with one more on either side: neighbors are
    selected for one image in five.

    Example:

    >>> tuple(round(scale, 2) for scale in suggest_scales(40))
    (1.41, 2.0, 2.83)
    >>> tuple(round(scale, 2) for scale in suggest_scales([28, 112]))
    (1.0, 1.41, 2.0, 2.83, 4.0, 5.66, 8.0)

    Args:
        heights: Height of the objects in pixels, or several, of which the least and the largest
            count.
        layers: Gaussian derivative layers of the network, the last one included.
        scale_ratio: Of sigma from one layer to the next.

    Returns:
        Increasing values sigma_0, none of them less than 1/2.
    """
    found = [check_positive("heights", height) for height in np.ravel(heights)]
    if not found:
        raise ValueError("`heights` must hold a number. Received: none")
    check_positive("scale_ratio", scale_ratio)
    reach = math.sqrt(sum(scale_ratio ** (2 * k) for k in range(check_integer("layers", layers))))
    ends = (min(found), max(found))
    first, last = (round(2 * math.log2(height / (_HEIGHT * reach))) for height in ends)
    first = max(first - 1, _FINEST)
    return tuple(2 ** (i / 2) for i in range(first, max(last + 1, first) + 1))
