"""Annotation files with boxes: Pascal VOC, COCO and YOLO.

Each reader takes all files of a folder, looks for its own, and gives their annotations, and the
class names in the order of the files; `None` where there is no order.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Annotation(NamedTuple):
    """What a file says of one picture.

    Attributes:
        source: The file that says it.
        pictures: Names that the picture may have, the likelier first, with or without an ending.
        shape: Height and width; `None` if it does not say. Boxes are shares of both then.
        rows: Class name and (x1, y1, x2, y2) of each object.
    """

    source: Path
    pictures: tuple[str, ...]
    shape: tuple[int, int] | None
    rows: list[tuple[str, list[float]]]


Annotations = tuple[list[Annotation], list[str] | None]


def read_voc(files: Sequence[Path]) -> Annotations:
    """Pascal VOC: an .xml file for each picture."""
    return [_read_xml(file) for file in files if file.suffix == ".xml"], None


def _read_xml(file: Path) -> Annotation:
    try:
        root = ElementTree.fromstring(file.read_bytes())
        height, width = (int(_text(root, f"size/{name}")) for name in ("height", "width"))
        rows = []
        for entry in root.iter("object"):
            box = [float(_text(entry, f"bndbox/{k}")) for k in ("xmin", "ymin", "xmax", "ymax")]
            # Pixels are counted from 1, and the last one is part of the box.
            rows.append((_text(entry, "name"), [box[0] - 1, box[1] - 1, *box[2:]]))
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{file} is not a Pascal VOC annotation ({error})") from error
    names = (root.findtext("filename", ""), file.stem)
    return Annotation(file, names, (height, width), rows)


def _text(entry: ElementTree.Element, path: str) -> str:
    text = entry.findtext(path)
    if text is None:
        raise ValueError(f"{path} is missing")
    return text.strip()


def read_coco(files: Sequence[Path]) -> Annotations:
    """COCO: .json files with "images", "annotations" and "categories"."""
    annotations: list[Annotation] = []
    numbers: dict[str, Any] = {}
    for file in (file for file in files if file.suffix == ".json"):
        try:
            content = json.loads(file.read_bytes())
            if isinstance(content, dict) and {"images", "annotations", "categories"} <= {*content}:
                categories = {row["id"]: row["name"] for row in content["categories"]}
                annotations += _coco_images(file, content, categories)
                numbers |= {name: number for number, name in categories.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is not a COCO file of boxes ({error!r})") from error
    return annotations, sorted(numbers, key=lambda name: numbers[name])


def _coco_images(
    file: Path, content: dict[str, Any], categories: dict[Any, str]
) -> list[Annotation]:
    rows: dict[Any, list] = {row["id"]: [] for row in content["images"]}
    for row in content["annotations"]:
        if row["category_id"] not in categories or row["image_id"] not in rows:
            raise ValueError(f"category_id or image_id of annotation {row.get('id')} is unknown")
        if not row.get("iscrowd"):
            x, y, width, height = map(float, row["bbox"])
            box = [x, y, x + width, y + height]
            rows[row["image_id"]].append((categories[row["category_id"]], box))
    return [
        Annotation(file, (row["file_name"],), (row["height"], row["width"]), rows[row["id"]])
        for row in content["images"]
    ]


def read_yolo(files: Sequence[Path]) -> Annotations:
    """YOLO: a .txt file for each picture, beside it or in a folder "labels"."""
    texts = [file for file in files if file.suffix == ".txt" and file.name != "classes.txt"]
    beside = {file.with_suffix(".txt") for file in files if file.suffix != ".txt"}
    texts = [f for f in texts if f in beside or "labels" in map(str.lower, f.parts[:-1])]
    lists = {file: names for file in files if texts and (names := _class_names(file))}
    if len({tuple(names) for names in lists.values()}) > 1:
        received = ", ".join(map(str, lists))
        raise ValueError(f"Class names must be the same in all files. Received: {received}")
    names = next(iter(lists.values()), None)
    return [_read_text(file, names) for file in texts], names


def _read_text(file: Path, names: Sequence[str] | None) -> Annotation:
    rows = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            kind, x, y, width, height = map(float, line.split())
            if kind < 0 or kind % 1:
                raise ValueError
            name = str(int(kind)) if names is None else names[int(kind)]
        except (ValueError, IndexError):
            if not line.strip():
                continue
            known = "" if names is None else f" from 0 to {len(names) - 1}"
            text = f"must be the number of a class{known} and four numbers for its box"
            received = f"Received: {line.strip()[:80]!r}"
            raise ValueError(f"{file}, line {number} {text}. {received}") from None
        rows.append((name, [x - width / 2, y - height / 2, x + width / 2, y + height / 2]))
    return Annotation(file, (file.stem,), None, rows)


def _class_names(file: Path) -> list[str] | None:
    """The names in classes.txt, obj.names or a YAML file with `names`, or `None`."""
    if file.name == "classes.txt" or file.suffix == ".names":
        items = file.read_text().splitlines()
    elif file.suffix in (".yaml", ".yml"):
        # A list in brackets or braces, or the indented or dashed lines that follow.
        text = re.sub(r"(^|\s)#.*", "", file.read_text())
        found = re.search(r"^names\s*:\s*(?:[\[{]([^\]}]*)|\n((?:[ \t-].*\n?)*))", text, re.M)
        items = re.split(r"[,\n]", found[1] or found[2] or "") if found else []
        items = [re.sub(r"^\s*(-\s|\d+\s*:)", "", item).strip().strip("'\"") for item in items]
    else:
        return None
    return [item.strip() for item in items if item.strip()]


FORMATS = {"Pascal VOC": read_voc, "COCO": read_coco, "YOLO": read_yolo}
