"""STIR-MNIST: digits anywhere in the image, trained on some sizes and tested on all.

    python benchmarks/stir_mnist.py --mnist-dir MNIST --scenario 2 --augment --output DIR

Ten minutes on 2 cores, fifteen for scenario 4. 500 digits at each training size, 48 000 images
shown; choose by the validation digits. Beside the report of every run, DIR/results.json has the
accuracy at each size and the means over the sizes that were in the training and over those that
were not.

    --scenario 1 | 2 | 3 | 4     trained on 17 to 32, 33 to 48, 49 to 64 pixels, or on all
    --data-seed N                other digits, in other places
    --train-frame PIXELS         of the images in training; it depends on the scenario otherwise
    --augment                    training digits rotated, sheared and shifted a little
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from paper_data.stir_mnist import FRAME, SCENARIOS

from gdn_keras.datasets import load_dataset
from gdn_keras.training import Classification, Recipe, Task
from gdn_keras.training.classification_task import RESULTS
from gdn_keras.training.command_line import recipe_of, recipe_parser, run_command
from gdn_keras.training.run_folder import read_results, write_text

PIXELS = 28  # of a digit whose channel is sigma_0 = 1
SCALES = tuple(2 ** (k / 2) for k in range(-2, 6))
# A digit wants as much around it in training as in the test, and more of it costs time: small ones
# in smaller frames than those of the test, and large ones, which would fill these, in larger ones.
TRAIN_FRAMES = {1: 48, 2: FRAME, 3: 96, 4: FRAME}
# Finer channels are for digits below 22 pixels in use. In training they take half of the time.
FINEST = 0.7
IMAGES = 48_000  # shown in training


def parser() -> argparse.ArgumentParser:
    """The flags of every training, and those of this data set."""
    flags = recipe_parser(__doc__, "runs/stir_mnist", Recipe, readout="anywhere")
    flag = flags.add_argument_group("data").add_argument
    flag(
        "--mnist-dir", metavar="FOLDER", help="of the MNIST files (default: digits of the package)"
    )
    flag("--scenario", type=int, choices=SCENARIOS, default=2, help="training sizes (default: 2)")
    text = "digits of each class in training, validation and test (default: 50)"
    flag("--digits", type=int, default=50, metavar="N", help=text)
    text = "of the digits and their places (default: 0); --seed is that of the training"
    flag("--data-seed", type=int, default=0, metavar="N", help=text)
    text = "height and width in training (default: 48, 64, 96 and 64 in scenarios 1 to 4)"
    flag("--train-frame", type=int, metavar="PIXELS", help=text)
    return flags


def channels(sizes: Sequence[int]) -> tuple[float, ...]:
    """Those of `SCALES` from 3/4 of the smallest digit's scale to 5/2 of the largest's.

    None is below `FINEST`. Digits of 17 to 64 pixels then find channels in use that are to them
    what these are to digits in training.
    """
    low, high = max(FINEST, min(sizes) / PIXELS * 0.75), max(sizes) / PIXELS * 2.5
    return tuple(scale for scale in SCALES if low < scale < high)


def tasks_of(options: argparse.Namespace) -> dict[str, Task]:
    """The task of the run."""
    sizes = SCENARIOS[options.scenario]
    frame = options.train_frame
    if frame is None:
        frame = TRAIN_FRAMES[options.scenario]
    data = load_dataset(
        "stir_mnist",
        options.mnist_dir,
        scenario=options.scenario,
        count=options.digits,
        train_frame=frame,
        seed=options.data_seed,
    )
    epochs = options.epochs
    if epochs is None:  # with the 500 digits that others have
        epochs = max(1, IMAGES // (500 * len(sizes)))
    changes: dict[str, Any] = {"epochs": epochs}
    if options.augment:
        # Digits lie anywhere, so that no smaller frame about the centre is cut out.
        changes["augment"] = (float(min(sizes)), float(frame))
    if options.scales is None:
        changes["scales"] = SCALES
    if options.train_scales is None:
        changes["train_scales"] = channels(sizes)
    return {"": Classification(recipe_of(options, Recipe, **changes), data)}


def summarize(results: dict[str, Any]) -> dict[str, Any]:
    """Accuracy at each size, and its means over sizes in the training and others."""
    accuracy = {int(row["size"]): row["accuracy"] for row in results["sizes"]}
    trained = {int(size) for size in results["settings"]["train_sizes"]}
    groups = {
        "seen": [value for size, value in accuracy.items() if size in trained],
        "unseen": [value for size, value in accuracy.items() if size not in trained],
        "all": list(accuracy.values()),
    }
    means = {name: float(np.mean(values)) for name, values in groups.items() if values}
    worst = {name: min(values) for name, values in groups.items() if values}
    return {
        "settings": results["settings"],
        "parameters": results["parameters"]["trainable"],
        "accuracy": accuracy,
        "mean": means,
        "worst": worst,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, tests and writes the means; the exit code of `run_command`."""
    flags = parser()
    code = run_command(flags, tasks_of, arguments)
    if code:
        return code
    folder = Path(flags.parse_args(arguments).output)
    summary = summarize(read_results(folder, RESULTS))
    write_text(folder / "results.json", json.dumps(summary, indent=1) + "\n")
    means = ", ".join(f"{name} {100 * value:.2f} %" for name, value in summary["mean"].items())
    print(f"Mean over sizes: {means}. {folder / 'results.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
