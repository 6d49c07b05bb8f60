"""What scale invariance is worth, and what it costs: the plain CNN of `run.py`, trained and tested.

    python benchmarks/plain_cnn.py --output DIR                      two minutes on 2 cores
    python benchmarks/plain_cnn.py --output DIR --compare runs/large_scale

The CNN has the widths of `default` and sees what `examples/train_large_scale.py` shows its network:
the digits of the package at size 2, with the same changes, for as many steps. It is tested at the
same 17 sizes. Written are DIR/plain_cnn.csv and DIR/plain_cnn.png, in which the curves of finished
runs can stand beside it.
"""

import argparse
import csv
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from contest.tasks import WIDTHS
from contest.tensorflow_steps import plain_cnn

from gdn_keras.analysis import accuracy_by_size, draw_generalization
from gdn_keras.datasets import ImageData, load_dataset, steps_per_epoch
from gdn_keras.training import Recipe
from gdn_keras.training.fitting import compile_network, fit_options
from gdn_keras.training.run_folder import read_results


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for the results")
    parser.add_argument("--compare", type=Path, nargs="+", default=[], help="finished runs")
    parser.add_argument("--network", choices=tuple(WIDTHS), default="default", help="its widths")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--digits", type=int, help="training digits (default: all)")
    parser.add_argument("--test-digits", type=int, help="test digits a size (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        recipe = Recipe(epochs=options.epochs, seed=options.seed, augment=(56.0, 56.0))
        compared = {str(run): curve_of(run) for run in options.compare}
        counts = {"count": options.digits, "test_count": options.test_digits}
        data = load_dataset("mnist_large_scale", train_sizes=(2,), **counts)
        options.output.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    curve = train_and_test(recipe, data, WIDTHS[options.network])
    with open(options.output / "plain_cnn.csv", "w", newline="") as file:
        csv.writer(file).writerows([("size", "accuracy"), *curve.items()])
    curves = {**compared, "plain CNN": curve}
    draw_generalization(curves, options.output / "plain_cnn.png", data.train_sizes)
    for size, accuracy in curve.items():
        print(f"test size {size:<6.3g} {accuracy:7.2%}")


def curve_of(run: Path) -> dict[float, float]:
    """Accuracy by size, from the folder of a finished run."""
    return {row["size"]: row["accuracy"] for row in read_results(run)["sizes"]}


def train_and_test(recipe: Recipe, data: ImageData, widths) -> dict[float, float]:
    """Accuracy of the trained CNN at each test size."""
    keras.utils.set_random_seed(recipe.seed)
    steps = steps_per_epoch(len(data.train.labels), recipe.batch_size)
    model = plain_cnn(data.train.images.shape[1:], widths)
    compile_network(model, recipe, steps * recipe.epochs)
    start = time.monotonic()
    model.fit(**fit_options(recipe, data), epochs=recipe.epochs, verbose=2)
    images = len(data.train.labels) * recipe.epochs
    print(f"{1e3 * (time.monotonic() - start) / images:.3g} ms an image and step")
    return accuracy_by_size(model, data)


if __name__ == "__main__":
    main()
