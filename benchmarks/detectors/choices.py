"""What each part of a detector of pictures is worth, on pictures that its training did not see.

    python benchmarks/detectors/choices.py nuclei NUCLEI --seeds 0 1 2 --output DIR

Each variant differs from the first one in one thing. That one is examples/train_detector.py but for
points beyond the edges of images, which came later. All have the same crops for 800
steps (one of them for 1 600), and are tested on the held-out pictures of the training at 1/2 to 2
times their magnification, never on test pictures. A training takes 2 to 4 minutes on one core.
DIR/results.csv has a row for each variant, seed, class and magnification; what is there is not
done again.
"""

import argparse
import csv
import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
from keras import layers, ops

from detectors.pictures import HALVES, TASKS, add_rows, found_by, rows_of, train
from gdn_keras.datasets import load_boxes
from gdn_keras.detection import detector as detector_module
from gdn_keras.layers import GaussianDerivative, ScaleBatchNormalization, ScaleChannels
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.scale_space import Node
from gdn_keras.training.detection_task import DetectionRecipe
from gdn_keras.training.picture_detection import PictureDetection, PictureRecipe

_SIGMAS = (1.0, 2.0, 2.0, 4.0, 4.0, 4.0)
_ROOTS = tuple(2.0 ** (k / 2) for k in range(6))

# Fields of the recipe, arguments of `points`, and the weight of the loss on overlap.
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without the zero order": {"zero_order": False},
    "third order": {"order": 3},
    "one grid point per sigma": {"density": 1.0},
    "sigmas in ratios of 1.41, one grid point": {"sigmas": _ROOTS, "density": 1.0},
    "extent of 20 pixels": {"extent": 20.0},
    "wider, 16-24-32-48-64": {"widths": (16, 24, 32, 48, 64)},
    "residual blocks": {"residual": True},
    "a hidden layer of 64 before the head": {"hidden": 64},
    "a maximum over 3x3 points after the third layer": {"maximum": 3},
    "without the loss on overlap": {"overlap": 0.0},
    "contrast as it is": {"stretch": False},
    "two channels per octave": {"per_octave": 2},
    "twice as long": {"epochs": 16},
    "with points beyond the edges": {"beyond": True},
}
_OF_NETWORK = ("order", "residual", "hidden", "maximum", "beyond")


class SpatialMaximum(keras.layers.Layer):
    """The maximum over 3×3 points of each channel's own grid, which is as covariant as the grid."""

    def call(self, inputs: Any) -> Any:
        return ops.max_pool(inputs, 3, strides=1, padding="same")

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def node(self, inputs: tuple[int, ...]) -> Node:
        """It needs no other grid than that of its input."""
        return Node(inputs)

    def run_channels(self, inputs: Any, number: int, training: bool | None) -> Any:
        """The layer in all matched scale channels."""
        del number, training
        return inputs.map(self.call)


def points(
    recipe: DetectionRecipe,
    scales: tuple[float, ...],
    num_classes: int,
    channels: int,
    border: float = 0.0,
    hidden: int = 0,
    maximum: int = 0,
    beyond: bool = False,
    **options: Any,
) -> keras.Model:
    """`points_network` with other options, a hidden layer, or a maximum after a layer.

    All but one end with the image, without the `border` of finished detectors.
    """
    sigmas = recipe.sigmas or _SIGMAS
    if not hidden and not maximum:
        options |= {"density": recipe.density, "zero_order": recipe.zero_order}
        options |= {"sigmas": sigmas, "readout": "points", "boxes": True}
        options |= {"border": border if beyond else 0.0}
        shape = None, None, channels
        return gaussian_derivative_network(shape, recipe.widths, num_classes, scales, **options)
    jet = {"zero_order": recipe.zero_order, "use_bias": False}
    inputs = x = keras.Input((None, None, channels))
    for k, (width, sigma) in enumerate(zip(recipe.widths, sigmas[:-1], strict=True), start=1):
        x = ScaleBatchNormalization()(GaussianDerivative(width, sigma, **jet)(x))
        x = layers.ReLU()(x)
        if k == maximum:
            x = SpatialMaximum()(x)
    if hidden:
        x = ScaleBatchNormalization()(layers.Dense(hidden, use_bias=False)(x))
        x = layers.ReLU()(x)
    first = keras.initializers.Constant(-3.0)
    scores = GaussianDerivative(num_classes, sigmas[-1], **jet)(x)
    scores = ScaleBatchNormalization(beta_initializer=first)(scores)
    boxes = GaussianDerivative(4, sigmas[-1], zero_order=True)(x)
    network = keras.Model(inputs, layers.Concatenate()([scores, boxes]))
    images = keras.Input((None, None, channels))
    options = {"pooling": None, "density": recipe.density, "readout": "points"}
    return keras.Model(images, ScaleChannels(network, scales, **options)(images))


def rows(name: str, seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains and tests a variant."""
    task, changes = TASKS[options.task], dict(VARIANTS[name])
    network = {key: changes.pop(key) for key in _OF_NETWORK if key in changes}
    if "overlap" in changes:
        detector_module._OVERLAP_WEIGHT = changes.pop("overlap")
    length = {"epochs": 8, "steps": options.steps}
    recipe = PictureRecipe(**{**task.recipe, **length, **changes, "seed": seed})
    per_octave = recipe.per_octave
    scales = tuple(2.0 ** (k / per_octave) for k in range(-per_octave, 2 * per_octave + 1))
    recipe = dataclasses.replace(recipe, scales=scales)
    training = PictureDetection(recipe, options.folder, functools.partial(points, **network))
    detector, seconds = train(training)
    tests = {f"{m:.3g}": (training.held_out, m * training.recipe.resolution) for m in HALVES}
    data = load_boxes(options.folder, task.recipe.get("split"))
    found = rows_of(found_by(detector), tests, task, data.class_names, training.channels, None)
    several = len(data.class_names) > 1
    return [
        {
            "name": f"{options.task}: {name}{', ' * several}{row.pop('class') if several else ''}",
            "seed": seed,
            "size": row["size"],
            **{key: row[key] for key in ("objects", "ap50", "ap75")},
            "training_seconds": round(seconds),
            "parameters": detector.count_params(),
        }
        for row in found
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and tests what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=100, help="in each of 8 epochs")
    options = parser.parse_args(arguments)
    file = options.output / "results.csv"
    options.output.mkdir(parents=True, exist_ok=True)
    kept = list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []
    done = {(row["name"], int(row["seed"])) for row in kept}
    for seed in options.seeds:
        for name in options.only:
            title = f"{options.task}: {name}"
            if any(known.startswith(title) and seed == number for known, number in done):
                continue
            print(f"{title}, seed {seed}:", flush=True)
            add_rows(file, kept, rows, name, seed, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
