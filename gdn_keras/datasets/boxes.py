"""Pictures with boxes: folders in the layouts of Pascal VOC, COCO and YOLO."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gdn_keras.checks import check_positive
from gdn_keras.datasets.box_files import FORMATS, Annotation
from gdn_keras.datasets.image_data import hold_out
from gdn_keras.datasets.image_files import (
    TURNED,
    picture_endings,
    read_header,
    read_picture,
    require_directory,
    resized,
)


class BoxedImage(NamedTuple):
    """An image file and the objects in it.

    Attributes:
        file: The image.
        shape: Its height and width in pixels.
        boxes: float32 `[n, 4]`, (x1, y1, x2, y2); the first pixel covers [0, 1] × [0, 1].
        labels: int32 `[n]`, places in the list of class names.
        channels: 1 for grey, 3 for color.
    """

    file: Path
    shape: tuple[int, int]
    boxes: np.ndarray
    labels: np.ndarray
    channels: int = 3


class BoxedImages(NamedTuple):
    """Annotated pictures of a `kind` such as "COCO"; those `skipped` have no annotation."""

    images: list[BoxedImage]
    class_names: list[str]
    kind: str
    skipped: list[Path]


def load_boxes(
    directory: str | os.PathLike, split: str | None = None, class_names: Sequence[str] | None = None
) -> BoxedImages:
    """Annotated pictures of a folder, whose format is recognized.

    - Pascal VOC: an .xml file for each picture, beside it or in a folder of its own.
    - COCO: .json files with "images", "annotations" and "categories". Crowds are left out.
    - YOLO: a .txt file for each picture, beside it or in a folder "labels", and names of classes in
      classes.txt, obj.names or data.yaml.

    A picture belongs to the annotation that has its name and is nearest to it. An annotation
    without objects says that there are none; pictures without one are skipped.

    Args:
        directory: The folder, with everything in its sub-folders.
        split: Name of a list in ImageSets/Main of Pascal VOC, without its ending; all if `None`.
        class_names: Names of the classes in the order of their labels; those that occur if `None`,
            in the order of the files or, where these have none, of the alphabet.

    Raises:
        ValueError, OSError: If there is no annotation or more than one format, or if a file is
            wrong or missing; the message names it.
    """
    folder = require_directory(directory, "pictures and their boxes")
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )
    found = {kind: read(files) for kind, read in FORMATS.items()}
    found = {kind: annotations for kind, annotations in found.items() if annotations[0]}
    if len(found) != 1:
        text = f"{folder} must hold annotations of one format: {', '.join(FORMATS)}."
        raise ValueError(f"{text} Received: {' and '.join(found) or 'none'}")
    [(kind, (annotations, order))] = found.items()
    occurring = {name for annotation in annotations for name, _ in annotation.rows}
    if class_names is None:
        class_names = [n for n in order if n in occurring] if order else sorted(occurring)
    pictures = [file for file in files if file.suffix.lower() in picture_endings()]
    by_name: dict[str, list[Path]] = defaultdict(list)
    for picture in pictures:
        by_name[picture.name].append(picture)
        by_name[picture.stem].append(picture)
    sources: dict[Path, Path] = {}
    images = []
    for annotation in annotations:
        picture = _picture_of(annotation, by_name)
        if picture in sources:
            two = f"{sources[picture]} and {annotation.source}"
            raise ValueError(f"{picture} must have one annotation. Received: {two}")
        sources[picture] = annotation.source
        images.append(_boxed(picture, annotation, list(class_names)))
    folders = {picture.parent for picture in sources}
    skipped = [p for p in pictures if p.parent in folders and p not in sources]
    if split is not None:
        images, skipped = _named(images, folder / "ImageSets" / "Main" / f"{split}.txt"), []
    return BoxedImages(images, list(class_names), kind, skipped)


def split_boxes(
    images: Sequence[BoxedImage], validation: float | str = 0.15, group: str | None = None
) -> tuple[list[BoxedImage], list[BoxedImage]]:
    """Images for training and for validation; the same ones each time.

    Args:
        images: From `load_boxes`.
        validation: The share that is held out, or a text file with names of pictures.
        group: A regular expression. Pictures in whose names it matches the same text belong
            together, and are not divided: its first group, if it has one, or all of the match.
    """
    groups: dict[str, list[BoxedImage]] = defaultdict(list)
    for image in images:
        groups[_group_of(image.file, group)].append(image)
    try:
        share = float(validation)
    except ValueError:
        chosen = {image.file for image in _named(images, Path(str(validation)).expanduser())}
        held_out = {key for key, mine in groups.items() if any(i.file in chosen for i in mine)}
    else:
        if not 0 < share < 1 or len(groups) < 2:
            text = "be a share between 0 and 1 of two or more pictures or groups, or a text file"
            raise ValueError(f"`validation` must {text}. Received: {validation} of {len(groups)}")
        held_out = hold_out(sorted(groups), share, np.random.default_rng(0))
    parts: tuple[list[BoxedImage], list[BoxedImage]] = ([], [])
    for key, mine in groups.items():
        parts[key in held_out].extend(mine)
    if not all(any(len(image.labels) for image in part) for part in parts):
        text = "pictures for training and for validation must both have boxes. Received:"
        raise ValueError(f"{text} {len(parts[0])} and {len(parts[1])} pictures by {validation}")
    return parts


def read_boxed_image(
    image: BoxedImage, resolution: float = 1.0, channels: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels `[height, width, channels]` and boxes `[n, 4]` in them, at a resolution.

    Arguments and errors are those of `read_boxed_images`.
    """
    check_positive("resolution", resolution)
    height, width = image.shape
    longer = max(1, round(max(height, width) * resolution))
    rows, columns = resized((height, width), longer)
    pixels = read_picture(image.file, channels, resize=None if resolution == 1 else longer)
    # Boxes of another shape, such as that before the camera's rotation, would be distorted.
    _check_shape(image.file, (rows, columns), pixels.shape[:2])
    ratio = np.tile([columns / width, rows / height], 2)
    return pixels, (image.boxes * ratio).astype("float32")


def read_boxed_images(
    images: Sequence[BoxedImage], resolution: float = 1.0
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Images of one shape as an array, with boxes and labels as `Detector.fit` takes them.

    >>> data = load_boxes("PICTURES")  # doctest: +SKIP
    >>> detector.fit(*read_boxed_images(data.images, 0.5), batch_size=4)  # doctest: +SKIP

    Args:
        images: From `load_boxes`.
        resolution: Factor on height and width; the images are smoothed accordingly.

    Returns:
        uint8 array `[n, height, width, 3]`, and a dictionary of float32 "boxes" `[n, most, 4]`,
        (x1, y1, x2, y2) in its pixels, and int32 "labels" `[n, most]`, padded by -1.
    """
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        text = f"{len(images)} images of {len(shapes)} shapes, {sorted(shapes)[:3]}"
        raise ValueError(f"`images` must be all of one height and width. Received: {text}")
    pixels, boxes = zip(*(read_boxed_image(image, resolution) for image in images), strict=True)
    return np.stack(pixels), pad_boxes(boxes, [image.labels for image in images])


def longer_sides(boxes: Sequence[np.ndarray]) -> np.ndarray:
    """The longer side of each box of several images, in pixels."""
    return np.concatenate([(b[:, 2:] - b[:, :2]).max(axis=1, initial=0) for b in boxes])


def pad_boxes(
    boxes: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    least: int = 0,
    **numbers: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
    """Boxes, labels and numbers of several images in arrays, padded to `least` or more of each.

    Labels are padded by -1, everything else by zeros.
    """
    shape = (len(labels), max(least, *map(len, labels)))
    result = {"boxes": np.zeros((*shape, 4), "float32"), "labels": np.full(shape, -1, "int32")}
    result |= {name: np.zeros(shape, "float32") for name in numbers}
    for name, values in {"boxes": boxes, "labels": labels, **numbers}.items():
        for row, some in zip(result[name], values, strict=True):
            row[: len(some)] = some
    return result


def _picture_of(annotation: Annotation, pictures: Mapping[str, list[Path]]) -> Path:
    """The picture of an annotation: the one of its name that shares most folders with it."""
    paths = [Path(name.replace("\\", "/")) for name in annotation.pictures]
    for path in paths:
        if candidates := pictures.get(path.name) or pictures.get(path.stem):
            known = {*annotation.source.parts, *path.parts}
            ranks = [(len(known & {*c.parts}), -len(c.parts)) for c in candidates]
            nearest = [c for c, r in zip(candidates, ranks, strict=True) if r == max(ranks)]
            if len(nearest) > 1:
                text = f"{annotation.source} must belong to one picture."
                raise ValueError(f"{text} Received: {nearest[0]} and {nearest[1]}")
            return nearest[0]
    name = paths[0].name or paths[-1].name
    raise FileNotFoundError(f"{annotation.source}: its picture, {name}, is missing")


def _named(images: Sequence[BoxedImage], file: Path) -> list[BoxedImage]:
    """The pictures that a text file names, with or without their endings, in its order."""
    known = [(name, i) for i in images for name in {i.file.name, i.file.stem}]
    named = []
    for line in filter(None, map(str.strip, file.read_text("utf-8-sig").splitlines())):
        *folders, name = Path(line).parts
        found, start = [i for one, i in known if one == name], -1 - len(folders)
        if len(found) > 1:  # in several folders
            found = [i for i in found if [*i.file.absolute().parts[start:-1]] == folders]
        if len(found) != 1:
            raise ValueError(f"{file} must name annotated pictures, one a line. Received: {line!r}")
        named += found
    return named


def _group_of(file: Path, pattern: str | None) -> str:
    if pattern is None:
        return str(file)
    try:
        match = re.search(pattern, file.name)
    except re.error as error:
        text = f"`group` must be a regular expression ({error})."
        raise ValueError(f"{text} Received: group={pattern!r}") from error
    if match is None:
        text = f"match in the name of each picture, and not so in {file}"
        raise ValueError(f"`group` must {text}. Received: group={pattern!r}")
    return match[1] if match.re.groups else match[0]


def _boxed(file: Path, annotation: Annotation, names: list[str]) -> BoxedImage:
    """The picture with its boxes, once the file is found to be as it is annotated."""
    header = read_header(file)
    height, width = shape = header.height, header.width
    _check_shape(file, annotation.shape or shape, shape)
    # Only the shape of an annotation tells whether its boxes are in the upright picture.
    is_unknown = annotation.shape is None or height == width
    if header.orientation in (2, 3, 4) or (header.orientation in TURNED and is_unknown):
        raise ValueError(
            f"{file} must be stored upright, since nothing says whether its boxes are in the "
            "picture as it is stored or as it is shown. "
            f"Received: EXIF orientation {header.orientation}"
        )
    if unknown := {name for name, _ in annotation.rows} - set(names):
        text = f"`class_names` must hold all classes that occur. Missing: {sorted(unknown)}"
        raise ValueError(f"{file}: {text}")
    sides = np.array([width, height, width, height])
    boxes = np.array([box for _, box in annotation.rows], "float64").reshape(-1, 4)
    boxes = boxes * sides if annotation.shape is None else boxes
    inside = np.clip(boxes, 0, sides)
    is_right = np.isfinite(boxes).all(axis=1) & (inside[:, 2:] > inside[:, :2]).all(axis=1)
    if not is_right.all():
        text = f"{file}: boxes must lie in the image, {width} pixels wide and {height} high."
        outside = tuple(boxes[~is_right][0].tolist())
        raise ValueError(f"{text} Received: (x1, y1, x2, y2) = {outside}")
    labels = np.array([names.index(name) for name, _ in annotation.rows], "int32")
    return BoxedImage(file, shape, inside.astype("float32"), labels, header.channels)


def _check_shape(file: Path, annotated: tuple[int, int], actual: Sequence[int]) -> None:
    if annotated != tuple(actual):
        text = f"{file} must be {annotated[1]} pixels wide and {annotated[0]} high at this"
        text += " resolution, as its annotation says."
        raise ValueError(f"{text} Received: {actual[1]} wide and {actual[0]} high")
