"""Images with rectangles from Pascal VOC and COCO files."""

import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gdn_keras.checks import check_positive
from gdn_keras.datasets.image_files import read_picture, resized


class BoxedImage(NamedTuple):
    """An image file and the objects in it.

    Attributes:
        file: The image.
        shape: Its height and width in pixels.
        boxes: float32 `[n, 4]`, (x1, y1, x2, y2); the first pixel covers [0, 1] × [0, 1].
        labels: int32 `[n]`, places in the list of class names.
    """

    file: Path
    shape: tuple[int, int]
    boxes: np.ndarray
    labels: np.ndarray


def load_pascal_voc(
    folder: str | os.PathLike, split: str = "train", class_names: Sequence[str] | None = None
) -> tuple[list[BoxedImage], list[str]]:
    """Images and rectangles of a folder in the layout of Pascal VOC.

    The folder holds Annotations/*.xml, JPEGImages/* and ImageSets/Main/SPLIT.txt.

    Args:
        folder: The folder.
        split: Name of a file in ImageSets/Main, without its ending.
        class_names: Names of the classes, in the order of their labels; those that occur in the
            split, in alphabetical order, if `None`.

    Returns:
        The images, in the order of the split, and the class names.

    Raises:
        ValueError: If a file says what cannot be, with its name.
        OSError: If a file is missing.
    """
    folder = Path(folder)
    stems = (folder / "ImageSets" / "Main" / f"{split}.txt").read_text().split()
    read = [_read_voc(folder / "Annotations" / f"{stem}.xml") for stem in stems]
    found = {name for _, _, rows in read for name, _ in rows}
    names = sorted(found) if class_names is None else list(class_names)
    images = [
        _boxed(folder / "JPEGImages" / file, shape, rows, names) for file, shape, rows in read
    ]
    return images, names


def load_coco(
    annotations: str | os.PathLike, images: str | os.PathLike
) -> tuple[list[BoxedImage], list[str]]:
    """Images and rectangles of a COCO file.

    Args:
        annotations: JSON file with "images", "annotations" and "categories". Crowds are left out.
        images: Folder of the image files.

    Returns:
        The images, in the order of the file, and the class names, in the order of their ids.

    Raises:
        ValueError: If the file says what cannot be.
        OSError: If it is missing.
    """
    try:
        content = json.loads(Path(annotations).read_text())
        categories = {row["id"]: row["name"] for row in content["categories"]}
        names = [categories[k] for k in sorted(categories)]
        rows: dict[int, list[tuple[str, list[float]]]] = {
            row["id"]: [] for row in content["images"]
        }
        for row in content["annotations"]:
            if not row.get("iscrowd"):
                x, y, width, height = row["bbox"]
                box = [x, y, x + width, y + height]
                rows[row["image_id"]].append((categories[row["category_id"]], box))
        return [
            _boxed(
                Path(images) / row["file_name"],
                (row["height"], row["width"]),
                rows[row["id"]],
                names,
            )
            for row in content["images"]
        ], names
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{annotations} is not a COCO file of boxes ({error!r})") from error


def read_boxed_images(
    images: Sequence[BoxedImage], resolution: float = 1.0
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Images of one shape as an array, with boxes and labels as `Detector.fit` takes them.

    >>> images, class_names = load_pascal_voc("VOC")  # doctest: +SKIP
    >>> detector.fit(*read_boxed_images(images, 0.5), batch_size=4)  # doctest: +SKIP

    Args:
        images: From `load_pascal_voc` or `load_coco`.
        resolution: By which height and width are multiplied; the images are smoothed accordingly.

    Returns:
        uint8 array `[n, height, width, 3]`, and a dictionary of float32 "boxes" `[n, most, 4]`,
        (x1, y1, x2, y2) in its pixels, and int32 "labels" `[n, most]`, padded by -1.

    Raises:
        ValueError: If there is no image, if they differ in shape, if a file is no image, or if it
            is not as wide and high as its annotation says.
        OSError: If a file is missing.
    """
    check_positive("resolution", resolution)
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise ValueError(
            "`images` must be at least one, and all of one height and width. "
            f"Received: {len(images)} images of {len(shapes)} shapes, {sorted(shapes)[:3]}"
        )
    most = max(len(image.labels) for image in images)
    boxes = np.zeros((len(images), most, 4), "float32")
    labels = np.full((len(images), most), -1, "int32")
    height, width = shapes.pop()
    longer = max(1, round(max(height, width) * resolution))
    rows, columns = resized((height, width), longer)
    resize = None if resolution == 1 else longer
    pixels = [_read_pixels(image.file, (rows, columns), resize) for image in images]
    ratio = np.tile([columns / width, rows / height], 2)
    for k, image in enumerate(images):
        boxes[k, : len(image.boxes)] = image.boxes * ratio
        labels[k, : len(image.labels)] = image.labels
    return np.stack(pixels), {"boxes": boxes, "labels": labels}


def _read_pixels(file: Path, shape: tuple[int, int], resize: int | None) -> np.ndarray:
    pixels = read_picture(file, channels=3, resize=resize)
    # Boxes of another shape, such as that before the camera's rotation, would be distorted.
    if pixels.shape[:2] != shape:
        raise ValueError(
            f"{file} must be {shape[1]} pixels wide and {shape[0]} high at this resolution, as its "
            f"annotation says. Received: {pixels.shape[1]} wide and {pixels.shape[0]} high"
        )
    return pixels


def _read_voc(file: Path) -> tuple[str, tuple[int, int], list[tuple[str, list[float]]]]:
    """Name of the image, its height and width, and the name and box of each object."""
    try:
        root = ElementTree.fromstring(file.read_text())
        height, width = (int(_text(root, f"size/{name}")) for name in ("height", "width"))
        rows = []
        for entry in root.iter("object"):
            box = [float(_text(entry, f"bndbox/{k}")) for k in ("xmin", "ymin", "xmax", "ymax")]
            # Pixels are counted from 1, and the last one is part of the box.
            rows.append((_text(entry, "name"), [box[0] - 1, box[1] - 1, *box[2:]]))
        return _text(root, "filename"), (height, width), rows
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{file} is not a Pascal VOC annotation ({error})") from error


def _text(entry: ElementTree.Element, path: str) -> str:
    text = entry.findtext(path)
    if text is None:
        raise ValueError(f"{path} is missing")
    return text


def _boxed(
    file: Path, shape: tuple[int, int], rows: list[tuple[str, list[float]]], names: list[str]
) -> BoxedImage:
    unknown = {name for name, _ in rows} - set(names)
    if unknown:
        raise ValueError(
            f"{file}: `class_names` must hold all classes that occur. Missing: {sorted(unknown)}"
        )
    boxes = np.array([box for _, box in rows], "float32").reshape(-1, 4)
    height, width = shape
    inside = np.clip(boxes, 0, [width, height, width, height])
    empty = (inside[:, 2:] <= inside[:, :2]).any(axis=1)
    if empty.any():
        raise ValueError(
            f"{file}: boxes must lie in the image, {width} pixels wide and {height} high. "
            f"Received: (x1, y1, x2, y2) = {tuple(boxes[empty][0].tolist())}"
        )
    labels = np.array([names.index(name) for name, _ in rows], "int32")
    return BoxedImage(file, (height, width), inside, labels)
