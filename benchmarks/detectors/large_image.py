"""A detector on one large image, not cut up: what is found, time and memory.

    python benchmarks/detectors/large_image.py saved_models/digit_detector/model.keras

Draws a scene of 2000×1500 pixels with 60 digits of sizes 0.71 to 8, and noise of the same size
without any. Prints average precision, false detections in the noise, seconds per image (the first
includes the making of the graph) and the greatest memory of the process beyond that at its start.
"""

import argparse
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from gdn_keras.datasets import digit_scenes, scene_set
from gdn_keras.detection import average_precision
from gdn_keras.training.run_folder import load_network

SIZES = tuple(2 ** (k / 2) for k in range(-1, 7))
_TURNS = 3


def peak_memory() -> float:
    """Of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="file of a detector of digits")
    parser.add_argument("--width", type=int, default=2000)
    parser.add_argument("--height", type=int, default=1500)
    parser.add_argument("--background", default="empty", help="empty or clutter (empty)")
    options = parser.parse_args(arguments)
    shape = options.height, options.width
    detector = load_network(options.model)
    recipe = digit_scenes(
        "test", sizes=SIZES, shape=shape, count=(60, 60), background=options.background
    )
    scenes = scene_set(recipe, 1, seed=0)
    noise = np.random.default_rng(0).integers(0, 256, (1, *shape, 1), "uint8")
    before, seconds = peak_memory(), []
    for _ in range(1 + _TURNS):
        began = time.perf_counter()
        found = detector.predict(scenes.images, verbose=0)
        seconds.append(time.perf_counter() - began)
    memory = peak_memory() - before
    everything = average_precision(scenes.bounding_boxes, found)[0]
    false = int(detector.predict(noise, verbose=0)["num_detections"][0])
    print(f"{options.width}×{options.height} pixels, {everything.objects} digits:")
    print(f"average precision {everything.ap50:.3f} at IoU 0.5, {everything.ap75:.3f} at 0.75")
    print(f"{false / (shape[0] * shape[1] / 1e6):.2g} detections per megapixel of noise")
    print(f"{seconds[0]:.1f} s the first time, then {min(seconds[1:]):.2f} s at best")
    print(f"{memory:.0f} MB")


if __name__ == "__main__":
    main()
