"""Time of detection and of a training step, beside an image pyramid; contestants take turns.

    python benchmarks/detectors/speed.py --output FILE

Networks of the same widths for color pictures, covering objects of 10 to 160 pixels: ours with
channels an octave apart, and a convolutional network on an image pyramid in octaves and in half
octaves. Decoded, batches of one picture. A training step has four crops of 128×128 pixels and five
channels or levels. Best of several turns, wall clock; 3 minutes on an idle machine. Writes a CSV
file. With --bfloat16, the first two take part in half precision too. With --large it times one
picture of 3000×2000 pixels in tiles instead, with peak memory.
"""

import argparse
import csv
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
import numpy as np

from detectors.networks import pyramid_network
from gdn_keras.detection import Detector, predict_tiled
from gdn_keras.training.detection_task import DetectionRecipe, points_network

SHAPES = ((224, 224), (448, 448), (480, 640))
CLASSES, CROP, BATCH = 3, 128, 4
_TURNS = 10


def powers(first: int, last: int, per_octave: int) -> tuple[float, ...]:
    """Scales from 2^first to 2^last."""
    steps = range(per_octave * first, per_octave * last + 1)
    return tuple(2.0 ** (k / per_octave) for k in steps)


OCTAVES, HALVES, TRAINED = powers(-1, 2, 1), (*powers(-1, 2, 2), 2.0**2.5), powers(-1, 1, 2)
Contestants = Mapping[str, tuple[Any, ...]]  # arguments of `detector_of`
CONTESTANTS: Contestants = {
    "ours": (points_network, OCTAVES, 1),
    "pyramid, octaves": (pyramid_network, OCTAVES, 1),
    "pyramid, half octaves": (pyramid_network, HALVES, 2),
}
IN_BFLOAT16: Contestants = {
    f"{name}, bfloat16": (*CONTESTANTS[name], "mixed_bfloat16")
    for name in ("ours", "pyramid, octaves")
}


def detector_of(
    points: Callable,
    scales: tuple[float, ...],
    per_octave: int,
    policy: str = "float32",
    border: float = 8.0,
) -> Detector:
    """An untrained detector; what it finds costs next to nothing."""
    keras.config.set_dtype_policy(policy)
    network = points(DetectionRecipe(), scales, CLASSES, 3, border)
    keras.config.set_dtype_policy("float32")
    return Detector(
        network,
        CLASSES,
        extent=28.0,
        per_octave=per_octave,
        preprocessor=keras.layers.Rescaling(1 / 127.5, -1.0),
    )


def detections(contestants: Contestants, shape: tuple[int, int]) -> dict[str, Callable[[], Any]]:
    """Functions that detect in one picture."""
    import tensorflow as tf

    images = tf.constant(np.random.default_rng(0).integers(0, 256, (1, *shape, 3), "uint8"))
    ways = {}
    for name, arguments in contestants.items():
        detect = tf.function(detector_of(*arguments).detect)
        ways[name] = lambda detect=detect: detect(images)["boxes"].numpy()
    return ways


def steps(contestants: Contestants) -> dict[str, Callable[[], Any]]:
    """Functions that do a training step, in as many channels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (BATCH, CROP, CROP, 3), "uint8")
    corners = rng.uniform(0, CROP - 40, (BATCH, 8, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(20, 40, (BATCH, 8, 2))], axis=2)
    truth = {"boxes": boxes.astype("float32"), "labels": rng.integers(0, CLASSES, (BATCH, 8))}
    ways = {}
    for name, (points, _, *rest) in contestants.items():
        detector = detector_of(points, TRAINED, *rest, border=0.0)
        detector.compile("adam")
        ways[name] = lambda detector=detector: detector.train_on_batch(images, truth)
    return ways


def best(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of each, best of several turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(_TURNS + 2):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if turn > 1:
                times[name].append(time.perf_counter() - began)
    return {name: 1000 * min(values) for name, values in times.items()}


def large(width: int, height: int) -> None:
    """Time and memory of one large picture, in tiles."""
    detector = detector_of(*CONTESTANTS["ours"])
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), "uint8")
    predict_tiled(detector, image[:1300, :1300])
    began = time.perf_counter()
    predict_tiled(detector, image)
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{width}×{height}: {seconds:.1f} s, at most {memory:.2f} GB in the process")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, metavar="FILE", help="CSV file for the results")
    parser.add_argument("--bfloat16", action="store_true", help="half precision too")
    parser.add_argument("--large", nargs=2, type=int, metavar=("WIDTH", "HEIGHT"))
    options = parser.parse_args(arguments)
    if options.large:
        large(*options.large)
        return 0
    contestants = {**CONTESTANTS, **(IN_BFLOAT16 if options.bfloat16 else {})}
    rows = {name: {"name": f"detection: {name}", "seed": 0, "size": "all"} for name in contestants}
    tasks = {f"{w}x{h}": detections(contestants, (h, w)) for h, w in SHAPES}
    for task, ways in {**tasks, "training step": steps(contestants)}.items():
        for name, milliseconds in best(ways).items():
            rows[name][task] = round(milliseconds, 1)
            print(f"{task}, {name}: {milliseconds:.1f} ms", flush=True)
    if options.output:
        with options.output.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, next(iter(rows.values())), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows.values())
    return 0


if __name__ == "__main__":
    sys.exit(main())
