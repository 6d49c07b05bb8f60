"""A real task: blood cells, trained at one magnification and tested at others.

    python benchmarks/detectors/blood_cells.py BCCD --output DIR

BCCD is a folder in the layout of Pascal VOC (Annotations, JPEGImages, ImageSets). Trained on its
205 training images at a quarter of their resolution, 160×120 pixels, with their mirror images;
tested on its 72 test images at 1/2, 1/√2, 1, √2 and 2 times that. Beside our detector, a plain
convolutional one of the same widths, for as many steps. About 20 minutes on 2 cores. What is done
is not done again.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
import numpy as np

from detectors.networks import PyramidPoints
from gdn_keras.datasets import load_boxes, read_boxed_images
from gdn_keras.detection import Detector, average_precision
from gdn_keras.models import gaussian_derivative_network, retarget
from gdn_keras.training.run_folder import open_run, write_text

CLASSES = ("RBC", "WBC", "Platelets")
FACTORS = tuple(2 ** (k / 2) for k in range(-2, 3))
RESOLUTION = 0.25  # of the training, beside that of the files
WIDTHS = (12, 16, 24, 32, 64)
_TRAIN_SCALES = tuple(2 ** (k / 2) for k in range(-2, 5))
_SCALES = tuple(2 ** (k / 2) for k in range(-2, 7))
_BATCH = 4
_CONFIDENCE = 0.05


def mirrored(
    images: np.ndarray, truth: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Images and their mirror images along both axes: a smear has no up and no left."""
    boxes, labels = truth["boxes"], truth["labels"]
    for axis, (first, last) in ((2, (0, 2)), (1, (1, 3))):
        turned = boxes.copy()
        turned[..., first] = images.shape[axis] - boxes[..., last]
        turned[..., last] = images.shape[axis] - boxes[..., first]
        images = np.concatenate([images, np.flip(images, axis)])
        boxes, labels = np.concatenate([boxes, turned]), np.concatenate([labels, labels])
    return images, {"boxes": boxes, "labels": labels}


def our_network() -> keras.Model:
    """The Gaussian derivative network with the channels of the training."""
    return gaussian_derivative_network(
        input_shape=(None, None, 3),
        widths=WIDTHS,
        num_classes=len(CLASSES),
        scales=_TRAIN_SCALES,
        scale_ratio=2**0.5,
        readout="points",
        boxes=True,
    )


def plain_network() -> keras.Model:
    """A convolutional network of the same widths, at one scale."""
    images = keras.Input((None, None, 3))
    layer = PyramidPoints(WIDTHS, len(CLASSES), len(CLASSES) + 4, (1.0,), name="points")
    return keras.Model(images, layer(images))


CONTESTANTS = {"ours": our_network, "plain": plain_network}


def train(
    network: keras.Model, images: np.ndarray, truth: dict[str, np.ndarray], epochs: int
) -> Detector:
    """A detector of cells."""
    steps = epochs * -(-len(images) // _BATCH)
    detector = Detector(
        network,
        len(CLASSES),
        preprocessor=keras.layers.Rescaling(1 / 127.5, -1.0),
        class_names=CLASSES,
        confidence_threshold=_CONFIDENCE,
    )
    rate = keras.optimizers.schedules.CosineDecay(0.01, steps, alpha=0.005)
    detector.compile(keras.optimizers.Adam(rate))
    detector.fit(images, truth, batch_size=_BATCH, epochs=epochs, verbose=2)
    return detector


def evaluate(detector: Detector, tests: dict[float, tuple]) -> list[dict]:
    """Average precision of each class at each magnification."""
    rows = []
    for factor, (images, truth) in tests.items():
        found = detector.predict(images, batch_size=1, verbose=0)
        for k, name in enumerate(CLASSES):
            mine = [
                {**values, "labels": np.where(values["labels"] == k, 0, -1)}
                for values in (truth, found)
            ]
            entry = average_precision(*mine)[0]
            rows.append({"factor": factor, "class": name, **entry._asdict()})
    return rows


def table(results: dict[str, list[dict]]) -> str:
    """Markdown: average precision at IoU 0.5, a row for each contestant and class."""
    lines = [f"| | objects | {' | '.join(f'{factor:.3g}' for factor in FACTORS)} |"]
    lines.append("|---" * (len(FACTORS) + 2) + "|")
    for name, rows in results.items():
        for label in CLASSES:
            mine = [row for row in rows if row["class"] == label]
            values = " | ".join(f"{row['ap50']:.3f}" for row in mine)
            lines.append(f"| {name}, {label} | {mine[0]['objects']} | {values} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains what is not trained yet, tests and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of BCCD, with Annotations and JPEGImages")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    options = parser.parse_args(arguments)
    try:
        open_run({"epochs": options.epochs, "seed": options.seed}, options.output)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    training, test = (
        load_boxes(options.folder, split, CLASSES).images for split in ("train", "test")
    )
    examples = mirrored(*read_boxed_images(training, RESOLUTION))
    tests = {factor: read_boxed_images(test, RESOLUTION * factor) for factor in FACTORS}
    file = options.output / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for name in options.only:
        if name not in results:
            print(f"{name}:", flush=True)
            keras.utils.set_random_seed(options.seed)
            detector = train(CONTESTANTS[name](), *examples, options.epochs)
            if name == "ours":
                detector = detector.with_thresholds(
                    network=retarget(detector.network, scales=_SCALES)
                )
            detector.save(options.output / f"{name}.keras")
            results[name] = evaluate(detector, tests)
            write_text(file, json.dumps(results, indent=1) + "\n")
    report = table(results)
    write_text(options.output / "report.md", f"# Blood cells\n\n{report}")
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
