"""Searches the widths of a network's layers with KerasTuner, for accuracy at all sizes.

    python examples/tune_channels.py

No network, no GPU, nothing to prepare: 24 trials and the paper's two networks in about 15 minutes
on 2 cores. Each is trained briefly on 2 000 digits of size 1 and validated at sizes from 1/2 to 4.
Everything is in runs/tune. Start with report.md: the best trials, a picture of accuracy against
cost, and a SavedModel of the best network for examples/predict.py.

More searches, each after `python examples/tune_channels.py`:

    --max-parameters 10000 --output runs/small          small networks only
    --tuner bayesian --trials 40 --output runs/bayesian learns from earlier trials
    --scale-ratio 1.25 --layers 5 --output runs/widths  widths alone

docs/guides/tuning.md shows how to run the trials in several processes.
"""

import argparse
import dataclasses
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.datasets import TEST_SIZES, load_dataset
from gdn_keras.training.command_line import exit_code, help_formatter
from gdn_keras.training.recipe import channels_between

FILES = {
    "report.md": "one page with everything on it",
    "pictures/pareto.png": "accuracy against parameters and multiply-adds",
    "trials.csv": "all trials, the best first",
    "rejected.csv": "draws over budget, their cost, and what was trained instead",
    "model.keras": "the best network",
    "saved_model": "the same for TensorFlow alone, ready for examples/predict.py",
}


def parser() -> argparse.ArgumentParser:
    """The flags; those that training has too mean the same as there."""
    flags = argparse.ArgumentParser(
        description=__doc__,
        usage="%(prog)s [flags]",
        formatter_class=help_formatter,
        epilog="A search that was stopped continues with the same command.",
    )
    flags.add_argument("--output", metavar="FOLDER", default="runs/tune", help="(runs/tune)")

    group = flags.add_argument_group("search").add_argument
    group("--tuner", choices=("random", "hyperband", "bayesian"), default="random")
    group("--trials", type=int, default=24, metavar="N", help="(24)")
    group("--max-parameters", type=count, default=40_000, metavar="N", help="trainable (40000)")
    group("--max-multiply-adds", type=count, default=150e6, metavar="N", help="an image (150e6)")
    group("--seed", type=int, default=0, metavar="N", help="of draws and training (0)")

    group = flags.add_argument_group("space: one value, or several to choose from").add_argument
    rungs = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
    group("--widths", type=int, nargs="*", default=rungs, metavar="N", help="(4 … 96)")
    group("--layers", type=int, nargs="*", default=(3, 4, 5, 6), metavar="N", help="(3 4 5 6)")
    ratios = (1.15, 1.25, 1.4)
    group(
        "--scale-ratio", type=float, nargs="*", default=ratios, metavar="R", help="(1.15 1.25 1.4)"
    )
    group("--pooling", nargs="*", default=["max"], metavar="NAME", help="(max)")
    group("--learning-rate", type=float, nargs="*", default=[0.01], metavar="RATE", help="(0.01)")
    group("--any-order", action="store_true", help="layers may be narrower than the one before")

    group = flags.add_argument_group("data").add_argument
    group("--data", choices=("embedded", "idx", "tfds"), help="source of the digits (embedded)")
    group("--mnist-dir", metavar="FOLDER", help="folder of the MNIST files")
    group("--digits", type=int, default=2000, metavar="N", help="training digits (2000)")
    group("--validation-digits", type=int, metavar="N", help="for each size (all)")
    sizes, text = tuple(2.0 ** (k / 2) for k in range(-2, 5)), "(0.5 … 4, by √2)"
    group("--validation-sizes", type=float, nargs="*", default=sizes, metavar="SIZE", help=text)
    group("--test-digits", type=int, metavar="N", help="for the best network (all)")
    text = "of the best network (17)"
    group("--test-sizes", type=float, nargs="*", default=TEST_SIZES, metavar="SIZE", help=text)
    group("--train-size", type=float, nargs="+", default=[1.0], metavar="SIZE", help="(1)")

    group = flags.add_argument_group("training").add_argument
    group("--epochs", type=int, default=4, metavar="N", help="(4)")
    group("--batch-size", type=int, default=50, metavar="N", help="(50)")
    group("--augment", action="store_true", help="rotate, shear and shift digits a little")
    geometry = ("LOW", "HIGH", "N")
    group("--scales", type=float, nargs=3, metavar=geometry, help="scale channels (0.7071 8 8)")
    group("--train-scales", type=float, nargs=3, metavar=geometry, help="(0.7071 2.8284 5)")
    group("--frame", type=int, default=112, metavar="PIXELS", help="(112)")
    group("--train-frame", type=int, default=56, metavar="PIXELS", help="(56)")
    return flags


def count(text: str) -> int:
    """A whole number that may be written as 1e6."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError  # for argparse, which says what was given
    return int(number)


def prepare(options: argparse.Namespace) -> Any:
    """The tuner that the flags ask for, ready to start."""
    from gdn_keras.tuning import SEARCH_RECIPE, GaussianDerivativeHyperModel, make_tuner

    scales = {"scales": options.scales, "train_scales": options.train_scales}
    recipe = dataclasses.replace(
        SEARCH_RECIPE,
        augment=tuple(28 * f(options.train_size) for f in (min, max)) if options.augment else None,
        epochs=options.epochs,
        batch_size=options.batch_size,
        seed=options.seed,
        **{name: channels_between(name, value) for name, value in scales.items() if value},
    )
    digits = {
        "source": options.data,
        "train_sizes": options.train_size,
        "frame": options.frame,
        "train_frame": options.train_frame,
        "count": options.digits,
    }
    name, directory = "mnist_large_scale", options.mnist_dir
    test = {"test_sizes": options.test_sizes, "test_count": options.test_digits}
    held_out = {"test_sizes": options.validation_sizes, "test_count": options.validation_digits}
    hypermodel = GaussianDerivativeHyperModel(
        load_dataset(name, directory, **digits, **test),
        load_dataset(name, directory, **digits, **held_out, test_split="validation"),
        widths=[options.widths] * max(options.layers) if options.any_order else options.widths,
        layers=options.layers,
        scale_ratio=options.scale_ratio,
        pooling=options.pooling,
        learning_rate=options.learning_rate,
        max_parameters=options.max_parameters,
        max_multiply_adds=options.max_multiply_adds,
        recipe=recipe,
    )
    return make_tuner(options.tuner, hypermodel, options.output, options.trials)


def run(tuner: Any) -> None:
    """Runs the search and summarizes it."""
    from gdn_keras.tuning import run_search, summarize_trials

    rows = run_search(tuner)
    if not rows:  # a worker has none
        return
    print("", *summarize_trials(tuner.hypermodel, rows), "", sep="\n")
    for file, content in FILES.items():
        path = Path(tuner.directory, file)
        if path.exists():
            print(f"  {path}: {content}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses and runs; the exit code is that of examples/train_large_scale.py."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: prepare(options), run)


if __name__ == "__main__":
    sys.exit(main())
