"""What changes of a recipe do: accuracy over size, scale selection and covariance, several seeds.

    python benchmarks/variants.py cone=1.6 cone=2 cone=3.5 --output DIR
    python benchmarks/variants.py cone=1.6 cone=2 --data mnist --data-dir MNIST --output DIR
    python benchmarks/variants.py plain zero_order=True residual=True,order=3 --seeds 0 \\
        --data fashion_mnist --data-dir FASHION --split validation --images 10000 --output DIR

A variant is one or more fields of `gdn_keras.training.Recipe` with other values than those that the
data set has in `TASKS`; "plain" changes nothing. Each is trained with each seed, in a folder of its
own below DIR; what is done is not done again. DIR/table.md has the mean over the seeds, and the
lowest and highest. `--split validation` tests with images that were held out of the training, to
choose by. A training takes about two minutes on 2 cores for the digits of the package, six for
traffic signs, and fifteen for all of MNIST.
"""

import argparse
import ast
import dataclasses
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import paper_data  # noqa: F401 (registers the data sets)

from gdn_keras.analysis import covariance_error
from gdn_keras.datasets import ImageData, load_dataset
from gdn_keras.models import PAPER_SCALES, retarget
from gdn_keras.training import Classification, Recipe, run
from gdn_keras.training.run_folder import MODEL, load_network, write_text


def _powers(first: int, last: int, per_octave: int = 2) -> tuple[float, ...]:
    return tuple(2 ** (k / per_octave) for k in range(first, last + 1))


@dataclasses.dataclass(frozen=True)
class Task:
    """Images, and how a network is trained on them."""

    data: str
    options: dict[str, Any]
    recipe: Recipe
    validation: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further options of the data set with `--split validation`."""


_DIGITS = {"train_sizes": (2,)}
# Clothes and animals between two channels an octave's half apart lose four points; digits do not.
_QUARTERS = _powers(-4, 8, per_octave=4)
_RESCALED = {"train_sizes": (1,), "test_sizes": tuple(2 ** (k / 4) for k in range(-4, 5))}
TASKS = {
    "digits": Task("mnist_large_scale", _DIGITS, Recipe(augment=(56.0, 56.0))),
    "mnist": Task(
        "mnist_large_scale",
        _DIGITS,
        Recipe(augment=(56.0, 56.0), epochs=4, scales=_powers(-2, 7), train_scales=_powers(1, 5)),
    ),
    "gtsrb": Task(
        "gtsrb",
        {},
        Recipe(
            widths=(24, 32, 48, 64, 96),
            epochs=8,
            scales=_powers(-2, 6),
            train_scales=_powers(-1, 3),
            augment=(33.5, 112.0),
        ),
    ),
    "fashion_mnist": Task(
        "fashion_mnist_large_scale",
        {**_RESCALED, "frame": 72},
        Recipe(epochs=6, scales=_QUARTERS, train_scales=_powers(-1, 3)),
    ),
    "cifar10": Task(
        "cifar10",
        _RESCALED,
        Recipe(epochs=6, scales=_QUARTERS, train_scales=_powers(-1, 3)),
    ),
    "kth_tips": Task(
        "kth_tips",
        {},
        Recipe(
            widths=(16, 24, 32, 48),
            readout="average",
            scale_dropout=0.5,
            epochs=8,
            batch_size=20,
            scales=_powers(-1, 4),
            train_scales=_powers(0, 5),
        ),
        # The middle one of three poses, as the last one is held out of all to test with.
        validation={"validation_numbers": (4, 5, 6)},
    ),
}


def parse_variant(text: str) -> dict[str, Any]:
    """Fields of a recipe from text such as "residual=True,order=3"; none from "plain"."""
    changes: dict[str, Any] = {}
    if text == "plain":
        return changes
    for part in re.split(r",(?![^(]*\))", text):
        name, _, value = part.partition("=")
        known = {field.name for field in dataclasses.fields(Recipe)} - {"seed"}
        if name not in known:
            raise ValueError(
                'A variant must be "plain" or NAME=VALUE, with a field of `Recipe` as its name: '
                f"{', '.join(sorted(known))}. Received: {text!r}"
            )
        try:
            changes[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            changes[name] = value
    return changes


def measure(recipe: Recipe, data: ImageData, folder: Path) -> dict[str, Any]:
    """Trains and tests one network: accuracy over size, slope of selection, covariance error."""
    results = run(Classification(recipe, data), folder)
    network = retarget(load_network(folder / MODEL), scales=PAPER_SCALES)
    return {
        "accuracy": {f"{row['size']:.4g}": row["accuracy"] for row in results["sizes"]},
        "slope": results.get("selection_slope"),
        "covariance": float(covariance_error(network, 2**0.5).output.max()),
    }


def table(results: dict[str, list[dict[str, Any]]], size_name: str) -> str:
    """Markdown: a row for each variant, with means over the seeds."""
    sizes = list(next(iter(results.values()))[0]["accuracy"])
    head = [f"variant; {size_name}", *sizes, "slope", "covariance error, %"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for variant, runs in results.items():
        cells = [_spread([100 * run["accuracy"][size] for run in runs]) for size in sizes]
        slopes = [run["slope"] for run in runs if run["slope"] is not None]
        cells.append(f"{np.mean(slopes):.2f}" if slopes else "–")
        cells.append(_spread([100 * run["covariance"] for run in runs]))
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{np.mean(values):.2f} ({min(values):.1f}–{max(values):.1f})"


def flags() -> argparse.ArgumentParser:
    """The flags of this command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flag = parser.add_argument
    flag("variants", nargs="+", metavar="VARIANT", help="plain, or NAME=VALUE[,NAME=VALUE...]")
    flag("--output", required=True, type=Path, metavar="DIR", help="folder for the results")
    flag("--data", choices=tuple(TASKS), default="digits", help="(default: digits)")
    flag("--data-dir", "--mnist-dir", metavar="FOLDER", help="folder of the data set")
    flag("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N")
    flag("--split", choices=("test", "validation"), default="test", help="(default: test)")
    flag(
        "--epochs",
        type=int,
        metavar="N",
        help="(default: that of the data set, 4 to 10)",
    )
    flag("--images", type=int, metavar="N", help="training images (default: all)")
    flag("--test-images", type=int, metavar="N", help="test images a size (default: all)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains what is not trained yet, and makes the table."""
    parser = flags()
    options = parser.parse_args(arguments)
    task = TASKS[options.data]
    loading = {**task.options, "test_split": options.split}
    if options.split == "validation":
        loading |= task.validation
    for name, value in (("count", options.images), ("test_count", options.test_images)):
        if value is not None:
            loading[name] = value
    if options.data == "mnist" and not options.data_dir:
        parser.error("all of MNIST needs --data-dir")
    own = {} if options.epochs is None else {"epochs": options.epochs}
    try:
        recipes = {
            text: dataclasses.replace(task.recipe, **{**own, **parse_variant(text)})
            for text in options.variants
        }
        data = load_dataset(task.data, options.data_dir, **loading)
    except (ValueError, TypeError, OSError) as error:
        parser.error(str(error))
    results: dict[str, list[dict[str, Any]]] = {}
    for seed in options.seeds:
        for text, recipe in recipes.items():
            folder = options.output / f"{text}_seed{seed}"
            run = measure(dataclasses.replace(recipe, seed=seed), data, folder)
            results.setdefault(text, []).append(run)
            write_text(options.output / "results.json", json.dumps(results, indent=1) + "\n")
            write_text(options.output / "table.md", table(results, data.size_name))
    print(table(results, data.size_name))


if __name__ == "__main__":
    main()
