"""Ours beside what a user would choose instead: accuracy over size, and time per image.

    python benchmarks/detectors/run.py --output DIR

Trained for as many steps on the same scenes, with digits of one size, and decoded by the same code:

    ours       the Gaussian derivative network, `examples/train_detector.py`
    plain      a convolutional heat-map detector of the same widths
    pyramid    the same on an image pyramid, in the steps of our scale channels

About 50 minutes on 2 cores. Each has a folder with a report of its own; report.md beside them puts
average precision at each size and the time per image of 224×224 and 640×480, decoding included,
side by side.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from detectors.networks import plain_network, pyramid_network
from gdn_keras.detection import Detector
from gdn_keras.training import run
from gdn_keras.training.detection_task import points_network
from gdn_keras.training.digit_detection import DigitDetection, DigitRecipe
from gdn_keras.training.run_folder import MODEL, load_network, write_text

CONTESTANTS = {"ours": points_network, "plain": plain_network, "pyramid": pyramid_network}
SHAPES = ((224, 224), (480, 640))
_REPEATS = 12


def milliseconds(detector: Detector, shape: tuple[int, int]) -> float:
    """Median time of one image, decoding included."""
    import tensorflow as tf

    channels = detector.network.input_shape[-1]
    images = np.random.default_rng(0).integers(0, 256, (1, *shape, channels), "uint8")
    detect = tf.function(
        detector.detect, input_signature=[tf.TensorSpec((1, *shape, channels), "uint8")]
    )
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        detect(images)["boxes"].numpy()
        times.append(time.perf_counter() - began)
    return 1000 * float(np.median(times[2:]))


def table(results: dict[str, dict[str, Any]], times: dict[str, list[float]]) -> str:
    """Markdown: one row a contestant."""
    sizes = [row["size"] for row in next(iter(results.values()))["sizes"]]
    parts = []
    for key, title in (("ap50", "IoU 0.5"), ("ap75", "IoU 0.75"), ("ap", "COCO mean")):
        lines = [f"| {title} | {' | '.join(f'{size:.3g}' for size in sizes)} | all |"]
        lines.append("|---" * (len(sizes) + 2) + "|")
        for name, result in results.items():
            values = [*(row[key] for row in result["sizes"]), result["all"][key]]
            lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")
        parts.append("\n".join(lines))
    lines = [f"| ms per image | {' | '.join(f'{w}×{h}' for h, w in SHAPES)} | parameters |"]
    lines.append("|---" * (len(SHAPES) + 2) + "|")
    for name, values in times.items():
        shown = " | ".join(f"{value:.1f}" for value in values)
        lines.append(f"| {name} | {shown} | {results[name]['parameters']} |")
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains what is not trained yet, measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--mnist-dir", help="all of MNIST, instead of the package's digits")
    parser.add_argument("--background", default="empty", help="empty or clutter (empty)")
    parser.add_argument("--epochs", type=int, default=DigitRecipe.epochs)
    parser.add_argument("--steps", type=int, default=DigitRecipe.steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    options = parser.parse_args(arguments)
    recipe = DigitRecipe(
        background=options.background,
        mnist_dir=options.mnist_dir,
        epochs=options.epochs,
        steps=options.steps,
        seed=options.seed,
    )
    results, times = {}, {}
    for name in options.only:
        print(f"{name}:", flush=True)
        results[name] = run(DigitDetection(recipe, CONTESTANTS[name]), options.output / name)
        detector = load_network(options.output / name / MODEL)
        times[name] = [milliseconds(detector, shape) for shape in SHAPES]
    report = table(results, times)
    write_text(options.output / "report.md", f"# Detectors\n\n{report}")
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
