"""Says what is in image files, with any trained or exported classifier.

    python examples/predict.py runs/mine/saved_model street.png crossing.jpg

    file          class  confidence    size
    street.png     stop      100.0%    0.84
    crossing.jpg  yield       99.4%    3.36

The model is a .keras file or the folder of a SavedModel, from anywhere: nothing in it is run but a
network. The files are in any format that Pillow reads, of any size, grey or color, one object each
in the middle; each page of a TIFF is a picture. They are seen as in a training on a folder:
pictures keep their pixels, are placed in the network's frame and continued beyond their edges; one
that is larger than the frame is shrunk until all of it fits. Those of more than 8 bits are
stretched from their own range, which is said on stderr. `size` is the object's in the file, in
units of the finest scale channel, or of the training size if the network was exported with that; a
.keras file does not tell it. It takes about ten seconds, most of them for TensorFlow to start, and
a few milliseconds for each further file. A file that cannot be used gets a line that says why, the
others go on, and the exit code is 1. With `--json`, one line a picture instead, with the likeliest
classes:

    {"file": "street.png", "classes": [{"label": "stop", "confidence": 0.9998}, ...], "size": 0.84}

    python examples/predict.py saved_models/default_size2/saved_model digit.png --object

With --object, the picture shows one object, such as a digit, on an even background, anywhere and
light on dark or dark on light: it is centered and shown light on dark.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("model", type=Path, help=".keras file or folder of a SavedModel")
    flags.add_argument("images", type=Path, nargs="+", help="image files")
    text = "one object on an even background, such as a digit: center it, light on dark"
    flags.add_argument("--object", action="store_true", help=text)
    flags.add_argument("--json", action="store_true", help="one line of JSON a file")
    return flags


def table(records: list[dict]) -> Iterator[str]:
    """The likeliest class of each picture."""
    from gdn_keras.serving.predictor import title

    files = [title(record) for record in records]
    labels = [record["classes"][0]["label"] for record in records if "classes" in record]
    width, wide = max(4, *map(len, files)), max([5, *map(len, labels)])
    yield f"{'file':{width}}  {'class':>{wide}}  confidence    size"
    for file, record in zip(files, records, strict=True):
        if "error" in record:
            yield f"{file:{width}}  cannot be used: {record['error']}"
        else:
            best = record["classes"][0]
            size = f"{record['size']:.2f}" if "size" in record else "-"
            shown = f"{best['label']:>{wide}}  {best['confidence']:10.1%}  {size:>6}"
            yield f"{file:{width}}  {shown}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, predicts and prints: 0, or 1 where a file could not be used, 2 for a mistake."""
    options = parser().parse_args(arguments)
    from gdn_keras.serving.predictor import CLASSES, load_predictor, remark

    try:
        classifier = load_predictor(options.model)
        if classifier.kind != CLASSES:
            raise OSError(f"{options.model} is a detector: see examples/detect.py")
    except (OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    records = list(classifier.answers(options.images, one_object=options.object))
    print(*(json.dumps(r) for r in records) if options.json else table(records), sep="\n")
    for record in records:
        if "stretched" in record:
            print(remark(record), file=sys.stderr)
    return 1 if any("error" in record for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
