"""Finds objects in image files with a trained detector.

    python examples/detect.py runs/detector/model.keras picture.png photo.jpg

    file         label  confidence        x1      y1      x2      y2    size
    picture.png      7       98.1%      12.0    40.5    40.3    68.8    1.41

The model is a .keras file or the folder of a SavedModel that examples/train_detector.py wrote. One
from elsewhere will do too: nothing in it is run but a network. The files are in any format that
Pillow reads, of any size, grey or color, light on dark or dark on light. Boxes are in pixels of
the file; size 1 is a digit of MNIST, 20 pixels high. Beside each file, NAME_boxes.png shows it with
boxes; `--output FOLDER` puts it elsewhere. Where there is such a file, it is left alone and the new
one is NAME_boxes_2.png; the last lines say where pictures are. With `--json`, one line a file
instead, and no pictures:

    {"file": "picture.png", "detections": [{"label": "7", "confidence": 0.9812, "box": [...], ...}]}

A file that cannot be used gets a line that says why, the others go on, and the exit code is 1. It
takes about ten seconds, most of them for TensorFlow to start.
"""

import argparse
import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("model", type=Path, help=".keras file or folder of a SavedModel")
    flags.add_argument("images", type=Path, nargs="+", help="image files")
    flags.add_argument("--json", action="store_true", help="one line of JSON a file, no pictures")
    flags.add_argument("--output", type=Path, metavar="FOLDER", help="for pictures with boxes")
    return flags


def rows(file: str, width: int, record: dict) -> list[str]:
    """The lines of a file in the table."""
    if "error" in record:
        return [f"{file:{width}}  cannot be used: {record['error']}"]
    lines = []
    for found in record["detections"]:
        box = "  ".join(f"{value:6.1f}" for value in found["box"])
        what = f"{found['label']:>5}  {found['confidence']:10.1%}"
        lines.append(f"{file:{width}}  {what}    {box}  {found['size']:6.2f}")
    return lines or [f"{file:{width}}  nothing found"]


def columns(detections: list[dict], kinds: dict[str, int]) -> dict[str, list]:
    """What `draw_boxes` takes; `kinds` keeps a number, and so a color, for each label."""
    labels = [found["label"] for found in detections]
    return {
        "boxes": [found["box"] for found in detections],
        "confidence": [found["confidence"] for found in detections],
        "labels": [kinds.setdefault(label, len(kinds)) for label in labels],
        "names": labels,
    }


def save_new(picture: "Image", folder: Path, stem: str) -> Path:
    """Writes a picture under a name that no file has."""
    from gdn_keras.atomic_files import replacing

    for number in itertools.count(1):
        path = folder / f"{stem}_boxes{'' if number == 1 else f'_{number}'}.png"
        if not path.exists():
            try:
                with replacing(path, exclusive=True) as temporary:
                    picture.save(temporary)
                return path
            except FileExistsError:  # by another process, in the meantime
                continue
    raise AssertionError("unreachable")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, detects and prints: 0, or 1 where a file could not be used, 2 for a mistake."""
    options = parser().parse_args(arguments)
    from gdn_keras.detection import draw_boxes
    from gdn_keras.serving.predictor import DETECTIONS, failure, load_predictor, one_line

    try:
        detector = load_predictor(options.model)
        if detector.kind != DETECTIONS:
            raise OSError(f"{options.model} is a classifier: see examples/predict.py")
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
    except (OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    names = [one_line(path) for path in options.images]
    width = max(4, *map(len, names))
    if not options.json:
        edges = "  ".join(f"{edge:>6}" for edge in ("x1", "y1", "x2", "y2"))
        print(f"{'file':{width}}  label  confidence    {edges}    size")
    failed, saved, kinds = 0, [], {}
    for name, path in zip(names, options.images, strict=True):
        try:
            picture = detector.read(path)
            [record] = detector.records([picture])
            if not options.json and "error" not in record:
                drawn = draw_boxes(picture.pixels, columns(record["detections"], kinds))
                drawn = save_new(drawn, options.output or path.parent, path.stem)
                saved.append(f"{name} with boxes: {one_line(drawn)}")
        except Exception as error:  # files of others: whatever it is, the rest goes on
            record = failure(path, error)
        failed += "error" in record
        lines = [json.dumps(record)] if options.json else rows(name, width, record)
        print(*lines, sep="\n", flush=True)
    if saved:
        print("", *saved, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
