"""Digits larger than the frame, with images continued beyond their edges and without.

    python benchmarks/surround.py --mnist-dir MNIST --output DIR

Networks of the package on MNIST's validation digits, with `surround` 0, 0.25 and 0.5; and the time
of each, best of several turns, taken in turns. About ten minutes on one core. Without `--mnist-dir`
it takes the test digits of the package. Written are DIR/results.json and DIR/table.md.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import gdn_keras
from gdn_keras.analysis import accuracy_by_size
from gdn_keras.datasets import load_dataset
from gdn_keras.models import retarget
from gdn_keras.training.run_folder import write_text

NETWORKS = ("large_size2", "default_size1", "default_size2", "default_size4")
SURROUNDS = (0.0, 0.25, 0.5)
SIZES = tuple(2 ** (k / 4) for k in range(8, 13))
_BATCH = 50


def milliseconds(models: dict[float, Any], turns: int = 10) -> dict[float, float]:
    """The shortest time per image of each network, forward, in batches of 50."""
    shape = next(iter(models.values())).input_shape[1:]
    images = tf.constant(np.random.default_rng(0).uniform(-1, 1, (_BATCH, *shape)), tf.float32)
    steps = {name: tf.function(model) for name, model in models.items()}
    best = dict.fromkeys(steps, float("inf"))
    for turn in range(turns + 1):
        for name, step in steps.items():
            for _ in range(3):
                began = time.perf_counter()
                step(images, training=False).numpy()
                if turn:  # the first one traces
                    best[name] = min(best[name], time.perf_counter() - began)
    return {name: 1000 * seconds / _BATCH for name, seconds in best.items()}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown: a row for each network and width of its surroundings."""
    sizes = list(next(iter(results.values()))["accuracy"])
    head = ["network, surround", *sizes, "ms per image"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, row in results.items():
        cells = [f"{100 * row['accuracy'][size]:.2f}" for size in sizes]
        cells.append(f"{row['milliseconds']:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Tests and times the networks, and makes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flag = parser.add_argument
    flag("--output", required=True, type=Path, metavar="DIR", help="folder for the results")
    flag("--mnist-dir", metavar="FOLDER", help="of MNIST (default: digits of the package)")
    flag("--networks", nargs="+", choices=NETWORKS, default=NETWORKS, metavar="NAME")
    text = "digits at each size (default: 4000, and 1000 of the package)"
    flag("--digits", type=int, metavar="N", help=text)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    count = options.digits
    if count is None and options.mnist_dir:
        count = 4000
    try:
        data = load_dataset(
            "mnist_large_scale",
            options.mnist_dir,
            test_sizes=SIZES,
            count=1,
            test_count=count,
            test_split="validation" if options.mnist_dir else "test",
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    results: dict[str, dict[str, Any]] = {}
    for name in options.networks:
        network = gdn_keras.from_preset(name)
        models = {surround: retarget(network, surround=surround) for surround in SURROUNDS}
        times = milliseconds(models)
        for surround, model in models.items():
            found = accuracy_by_size(model, data.test, SIZES)
            results[f"{name}, {surround:g}"] = {
                "accuracy": {f"{size:.3g}": value for size, value in found.items()},
                "milliseconds": times[surround],
            }
            write_text(options.output / "results.json", json.dumps(results, indent=1) + "\n")
            write_text(options.output / "table.md", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
