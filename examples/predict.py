"""Says what is in image files, with any trained or exported classifier.

    python examples/predict.py runs/mine/saved_model street.png crossing.jpg

    file          class  confidence    size
    street.png     stop      100.0%    0.84
    crossing.jpg  yield       99.4%    3.36

The model is a .keras file or the folder of a SavedModel, from anywhere: nothing in it is run but a
network. The files are in any format that Pillow reads, of any size, grey or colour, one object each
in the middle. Pictures keep their pixels: they are placed in the network's frame and continued
beyond their edges. One that is larger than the frame, such as a photograph, is shrunk until all of
it fits. Trainings on a folder show the middle of such pictures at full resolution instead; with
`--option resize=` they shrink them too. `size` is the object's in the file, in units of the finest
scale channel, or of the training size if the network was exported with that; a .keras file does not
tell it. It takes about ten seconds, most of them for TensorFlow to start, and a few milliseconds
for each further file. A file that cannot be used gets a line that says why, the others go on, and
the exit code is 1. With `--json`, one line a file instead, with the likeliest classes:

    {"file": "street.png", "classes": [{"label": "stop", "confidence": 0.9998}, ...]}

    python examples/predict.py saved_models/default_size2/saved_model digit.png --object

With --object, the picture shows one object, such as a digit, on an even background, anywhere and
light on dark or dark on light: it is centred and shown light on dark.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

if TYPE_CHECKING:
    from gdn_keras.serving import Predictor

BATCH = 50


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


def predict(
    classifier: "Predictor", paths: Sequence[Path], one_object: bool = False
) -> list[tuple[list[dict], float | None] | str]:
    """Likeliest classes, and size if it is told, of each file; or what is wrong with it."""
    from gdn_keras.serving import place, place_object, read_picture
    from gdn_keras.serving.loading import best_classes, one_line

    results, images, shrinks = [], [], []
    for path in paths:
        try:
            pixels = read_picture(path, 1 if one_object else classifier.channels)
            image, shrink = (place_object if one_object else place)(pixels, classifier.frame)
        except Exception as error:  # files of others: whatever it is, the rest goes on
            results.append(one_line(error))
        else:
            results.append(None)
            images.append(np.broadcast_to(image, (*classifier.frame, classifier.channels)))
            shrinks.append(shrink)
    if images:
        found = classifier.predict(np.stack(images))
        sizes = [None] * len(images)
        if "relative_size" in found:
            sizes = found["relative_size"] * shrinks
        answers = iter(zip(best_classes(found), sizes, strict=True))
        results = [next(answers) if result is None else result for result in results]
    return results


def as_table(files: list[str], results: list) -> Iterator[str]:
    """The likeliest class of each file."""
    answers = [result[0][0]["label"] for result in results if not isinstance(result, str)]
    width, wide = max(4, *map(len, files)), max([5, *map(len, answers)])
    yield f"{'file':{width}}  {'class':>{wide}}  confidence    size"
    for file, result in zip(files, results, strict=True):
        if isinstance(result, str):
            yield f"{file:{width}}  cannot be used: {result}"
        else:
            (best, *_), size = result
            told = "-" if size is None else f"{size:.2f}"
            confidence = f"{best['confidence']:10.1%}"
            yield f"{file:{width}}  {best['label']:>{wide}}  {confidence}  {told:>6}"


def as_json(files: list[str], results: list) -> Iterator[str]:
    """The likeliest classes of each file."""
    for file, result in zip(files, results, strict=True):
        answer = {"error": result} if isinstance(result, str) else {"classes": result[0]}
        yield json.dumps({"file": file, **answer})


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, predicts and prints: 0, or 1 where a file could not be used, 2 for a mistake."""
    options = parser().parse_args(arguments)
    from gdn_keras.serving.loading import CLASSES, load_predictor, one_line

    try:
        classifier = load_predictor(options.model)
        if classifier.kind != CLASSES:
            raise OSError(f"{options.model} is a detector: see examples/detect.py")
    except (OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    files, results = [one_line(path) for path in options.images], []
    for start in range(0, len(files), BATCH):
        results += predict(classifier, options.images[start : start + BATCH], options.object)
    print(*(as_json if options.json else as_table)(files, results), sep="\n")
    return 1 if any(isinstance(result, str) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
