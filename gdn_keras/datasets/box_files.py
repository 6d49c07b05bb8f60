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

# In a YAML file: commas outside of quotes, and a dash or the number of a class before its name.
_COMMA = r""",(?=(?:[^'"]|'[^']*'|"[^"]*")*$)"""
_ITEM = r"""(?s)\s*(?:-\s|['"]?(\d+)['"]?\s*:)?(.*)"""


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
    return [_read_xml(file) for file in files if file.suffix.lower() == ".xml"], None


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
    if text is None or not text.strip():
        raise ValueError(f"{path} is missing")
    return text.strip()


def read_coco(files: Sequence[Path]) -> Annotations:
    """COCO: .json files with "images", "annotations" and "categories"."""
    annotations: list[Annotation] = []
    numbers: dict[str, Any] = {}
    for file in (file for file in files if file.suffix.lower() == ".json"):
        try:
            content = json.loads(file.read_bytes())
            if isinstance(content, dict) and {"images", "annotations", "categories"} <= {*content}:
                categories = {row["id"]: str(row["name"]) for row in content["categories"]}
                annotations += _coco_images(file, content, categories)
                numbers |= {name: number for number, name in categories.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is not a COCO file of boxes ({error!r})") from error
    return annotations, sorted(numbers, key=lambda name: (str(type(numbers[name])), numbers[name]))


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
        Annotation(file, (str(row["file_name"]),), (row["height"], row["width"]), rows[row["id"]])
        for row in content["images"]
    ]


def read_yolo(files: Sequence[Path]) -> Annotations:
    """YOLO: a .txt file for each picture, beside it or in a folder "labels"."""
    texts = [f for f in files if f.suffix.lower() == ".txt" and f.name.lower() != "classes.txt"]
    beside = {file.with_suffix("") for file in {*files}.difference(texts)}
    texts = [f for f in texts if f.with_suffix("") in beside or "labels" in map(str.lower, f.parts)]
    lists = {file: names for file in files if texts and (names := _class_names(file))}
    if len({tuple(names) for names in lists.values()}) > 1:
        received = ", ".join(map(str, lists))
        raise ValueError(f"Class names must be the same in all files. Received: {received}")
    names = next(iter(lists.values()), None)
    return [_read_text(file, names) for file in texts], names


def _read_text(file: Path, names: Sequence[str] | None) -> Annotation:
    rows = []
    for number, line in enumerate(file.read_text("utf-8-sig").splitlines(), start=1):
        try:
            kind, x, y, width, height = map(float, line.split())
            if kind < 0 or kind % 1 or max(x, y, width, height) > 2:  # boxes may reach outside
                raise ValueError
            name = str(int(kind)) if names is None else names[int(kind)]
        except (ValueError, IndexError):
            if not line.strip():
                continue
            known = "" if names is None else f" from 0 to {len(names) - 1}"
            text = f"must be the number of a class{known} and four numbers for its box, as shares"
            received = f"Received: {line.strip()[:80]!r}"
            raise ValueError(f"{file}, line {number} {text}. {received}") from None
        rows.append((name, [x - width / 2, y - height / 2, x + width / 2, y + height / 2]))
    return Annotation(file, (file.stem,), None, rows)


def _class_names(file: Path) -> list[str] | None:
    """The names in classes.txt, obj.names or a YAML file with `names`, or `None`."""
    if file.name.lower() == "classes.txt" or file.suffix.lower() == ".names":
        parts = [("", line) for line in file.read_text("utf-8-sig").splitlines()]
    elif file.suffix.lower() in (".yaml", ".yml"):
        # A list in brackets or braces, or the indented or dashed lines that follow.
        text = re.sub(r"(^|\s)#.*", "", file.read_text("utf-8-sig"))
        found = re.search(r"^names\s*:\s*(?:[\[{]([^\]}]*)|\n((?:[ \t-].*\n?)*))", text, re.M)
        flow, block = found.groups("") if found else ("", "")
        items = re.split(_COMMA, flow) if flow else block.splitlines()
        parts = [m.groups() for item in items if item.strip() and (m := re.fullmatch(_ITEM, item))]
        parts.sort(key=lambda part: int(part[0] or 0))
    else:
        return None
    names = [name.strip().strip("'\"").strip() for _, name in parts if name.strip()]
    numbers = [int(number) for number, _ in parts if number]
    if len({*names}) < len(names) or numbers not in ([], [*range(len(names))]):
        text = "must name classes that differ, in a list or numbered from 0 on without gaps"
        raise ValueError(f"{file} {text}. Received: {', '.join(names)} {numbers or ''}")
    return names


FORMATS = {"Pascal VOC": read_voc, "COCO": read_coco, "YOLO": read_yolo}
