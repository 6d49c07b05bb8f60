"""Finds objects in image files with a trained detector.

    python examples/detect.py runs/detector/model.keras picture.png photo.jpg

    file         label  confidence        x1      y1      x2      y2    size
    picture.png      7       98.1%      12.0    40.5    40.3    68.8    28.3

The model is a .keras file or the folder of a SavedModel that examples/train_detector.py wrote. One
from elsewhere will do too: nothing in it is run but a network. The files are in any format that
Pillow reads, of any size, grey or color; each page of a TIFF is a picture. Boxes and sizes, their
longer sides, are in pixels of the file; `--pixel-size 0.65` adds sizes in micrometers. The first
line on stderr is the range of sizes that the detector finds; `--enlarge 2` halves it. A detector of
light objects on a dark ground needs `--invert` for dark ones. Pictures of more than 8 bits are
stretched from their own range, which is said on stderr.

Beside each file, NAME_boxes.png shows it with boxes; `--output FOLDER` puts it elsewhere. Where
there is such a file, it is left alone and the new one is NAME_boxes_2.png; the last lines say where
pictures are. `--csv FILE` writes a row for each object, `--counts FILE` one for each picture. With
`--json`, there is one line a picture instead of the table, and no pictures with boxes:

    {"file": "picture.png", "detections": [{"label": "7", "confidence": 0.9812, "box": [...], ...}]}

A file that cannot be used gets a line that says why, the others go on, and the exit code is 1. It
takes about ten seconds, most of them for TensorFlow to start.
"""

import argparse
import collections
import contextlib
import csv
import itertools
import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdn_keras.serving import Picture, Predictor

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

EDGES = ("x1", "y1", "x2", "y2")


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("model", type=Path, help=".keras file or folder of a SavedModel")
    flags.add_argument("images", type=Path, nargs="+", help="image files")
    flags.add_argument("--json", action="store_true", help="one line of JSON a picture, no table")
    flags.add_argument("--output", type=Path, metavar="FOLDER", help="for pictures with boxes")
    flags.add_argument("--csv", type=Path, metavar="FILE", help="a new table of objects")
    flags.add_argument("--counts", type=Path, metavar="FILE", help="a new table of pictures")
    text = "micrometers a pixel, for sizes in these too"
    flags.add_argument("--pixel-size", type=positive(float), metavar="UM", help=text)
    text = "enlarge pictures by a whole number, for smaller objects"
    flags.add_argument("--enlarge", type=positive(int), default=1, metavar="N", help=text)
    flags.add_argument("--invert", action="store_true", help="dark becomes light")
    return flags


def positive(kind: type) -> Any:
    """A type of flags: numbers above zero."""

    def number(text: str) -> float:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value

    return number


def rows(name: str, record: dict, sizes: Sequence[str]) -> list[str]:
    """The lines of a picture in the table."""
    if "error" in record:
        return [f"{name}  cannot be used: {record['error']}"]
    lines = []
    for found in record["detections"]:
        numbers = "  ".join(f"{v:7.1f}" for v in (*found["box"], *(found[key] for key in sizes)))
        lines.append(f"{name}  {found['label']:>5}  {found['confidence']:10.1%}   {numbers}")
    return lines or [f"{name}  nothing found"]


def count_rows(records: Sequence[dict], names: Sequence[str], sizes: Sequence[str]) -> Iterator:
    """The table of pictures: its header and a row for each; numbers are empty after an error."""
    names = list(dict.fromkeys(names)) or sorted({x for r in records for x in r["labels"]})
    medians = [f"median_{key}" for key in sizes]
    yield ["file", "page", "count", *(f"count_{name}" for name in names), *medians, "error"]
    for record in records:
        numbers = [record["labels"].total(), *(record["labels"][name] for name in names)]
        numbers += [record["medians"].get(key, "") for key in sizes]
        error = record.get("error", "")
        yield [record["file"], record["page"], *([""] * len(numbers) if error else numbers), error]


def summary(record: dict, sizes: Sequence[str]) -> dict:
    """What `count_rows` needs of a record."""
    found = record.get("detections", ())
    medians = {key: round(statistics.median(f[key] for f in found), 3) for key in sizes if found}
    labels = collections.Counter(f["label"] for f in found)
    kept = {key: record[key] for key in ("file", "error") if key in record}
    return {**kept, "page": record.get("page", 1), "labels": labels, "medians": medians}


def new_table(path: Path | None, files: contextlib.ExitStack) -> Any:
    """A writer of rows into a new file, or nowhere."""
    mode, path = ("x", path) if path else ("w", os.devnull)
    options: dict = {"newline": "", "encoding": "utf-8", "errors": "surrogateescape"}
    return csv.writer(files.enter_context(open(path, mode, **options)))


def draw(picture: "Picture", record: dict, kinds: dict[str, int], folder: Path | None) -> Path:
    """Writes a picture with boxes under a name that no file has.

    `kinds` keeps a number, and so a color, for each label.
    """
    from gdn_keras.atomic_files import replacing
    from gdn_keras.detection import draw_boxes

    found = record["detections"]
    labels = [one["label"] for one in found]
    columns = {
        "boxes": [[value / picture.shrink for value in one["box"]] for one in found],
        "confidence": [one["confidence"] for one in found],
        "labels": [kinds.setdefault(label, len(kinds)) for label in labels],
        "names": labels,
    }
    drawn, file = draw_boxes(picture.pixels, columns), Path(picture.file)
    stem = file.stem if picture.page is None else f"{file.stem}_{picture.page}"
    for number in itertools.count(1):
        name = f"{stem}_boxes{'' if number == 1 else f'_{number}'}.png"
        path = (folder or file.parent) / name
        if not path.exists():
            try:
                with replacing(path, exclusive=True) as temporary:
                    drawn.save(temporary)
                return path
            except FileExistsError:  # by another process, in the meantime
                continue
    raise AssertionError("unreachable")


def answers(
    detector: "Predictor", options: argparse.Namespace
) -> Iterator[tuple[dict, Path | None]]:
    """The record of each picture, and the file that shows it with boxes."""
    from gdn_keras.serving.predictor import one_line

    reading = {"invert": options.invert, "enlarge": options.enlarge}
    kinds: dict[str, int] = {}
    for picture in itertools.chain.from_iterable(
        detector.read(path, **reading) for path in options.images
    ):
        [record] = detector.records([picture])
        drawn = None
        if not options.json and "error" not in record:
            try:
                drawn = draw(picture, record, kinds, options.output)
            except Exception as error:  # a full disk, or a folder of others
                record = picture.record({"error": one_line(error)})
        for found in record.get("detections", ()) if options.pixel_size else ():
            found["size_um"] = round(found["size"] * options.pixel_size, 3)
        yield record, drawn


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, detects and prints: 0, or 1 where a file could not be used, 2 for a mistake."""
    options = parser().parse_args(arguments)
    from gdn_keras.serving.predictor import DETECTIONS, load_predictor, one_line, remark, title

    sizes = ["size", "size_um"] if options.pixel_size else ["size"]
    width = max(4, *(len(one_line(path)) for path in options.images))
    with contextlib.ExitStack() as files:
        try:
            detector = load_predictor(options.model)
            if detector.kind != DETECTIONS:
                raise OSError(f"{options.model} is a classifier: see examples/predict.py")
            tables = [path for path in (options.csv, options.counts) if path]
            for k, path in enumerate(tables):  # before any of them is made
                if path.exists() or path in tables[:k]:
                    raise OSError(f"{path} exists already, or is named twice")
            if options.output:
                options.output.mkdir(parents=True, exist_ok=True)
            objects, pictures = (new_table(path, files) for path in (options.csv, options.counts))
        except (OSError, ImportError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        if detector.size_range:
            low, high = (length / options.enlarge for length in detector.size_range)
            print(f"finds objects of {low:.3g} to {high:.3g} pixels", file=sys.stderr, flush=True)
        if not options.json:
            numbers = "  ".join(f"{name:>7}" for name in (*EDGES, *sizes))
            print(f"{'file':{width}}  label  confidence   {numbers}")
        objects.writerow(["file", "page", "label", "confidence", *EDGES, *sizes])
        summaries, saved = [], []
        for record, drawn in answers(detector, options):
            name = title(record)
            if drawn:
                saved.append(f"{name} with boxes: {one_line(drawn)}")
            if "stretched" in record:
                print(remark(record), file=sys.stderr, flush=True)
            summaries.append(summary(record, sizes))
            for found in record.get("detections", ()):
                values = found["label"], found["confidence"], *found["box"], *map(found.get, sizes)
                objects.writerow([record["file"], summaries[-1]["page"], *values])
            name = f"{name:{width}}"
            lines = [json.dumps(record)] if options.json else rows(name, record, sizes)
            print(*lines, sep="\n", flush=True)
        if saved:
            print("", *saved, sep="\n")
        pictures.writerows(count_rows(summaries, detector.class_names, sizes))
    return 1 if any("error" in record for record in summaries) else 0


if __name__ == "__main__":
    sys.exit(main())
