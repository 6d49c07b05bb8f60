"""What a user would choose instead: plain CNNs of the same widths, on the same images.

    python benchmarks/alternatives.py --output DIR
    python benchmarks/alternatives.py --output DIR --ours runs/large_scale
    python benchmarks/alternatives.py --output DIR --data gtsrb --data-dir GTSRB --ours runs/gtsrb

    plain       five 3×3 convolutions with pooling, trained on the images as they are
    augmented   the same, trained on images rescaled at random over all sizes of the test
    pyramid     the same on an image pyramid, the maximum over its levels: trained with levels
                about the size of the training images, tested with as many as the sizes need
    all_levels  the same, trained with all levels of the test
    ours        a finished run of examples/train_folder.py or examples/train_large_scale.py

With `--ours`, the CNNs have its widths and see its images in its order for as many steps. On
signs, clothes (`--data fashion_mnist`) and CIFAR-10, their loss, learning rate, head, dropout and
what they see of an image are their own, chosen on validation images. Written are
DIR/results.json, DIR/table.md and DIR/curves.png. A contestant that is in results.json is not
trained again. Times are the best of several steps, which other work on the machine disturbs least.
The seconds of a training are those of its steps, without what is tested and kept in between.
"""

import argparse
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import paper_data  # noqa: F401 (registers the data sets)
import tensorflow as tf
from contest.cnn_tasks import TASKS, Task
from contest.rescaling import pyramid_cnn, random_rescaling
from contest.tensorflow_steps import plain_cnn

from gdn_keras.analysis import accuracy_by_size, draw_generalization
from gdn_keras.checks import check_integer
from gdn_keras.datasets import ImageData, load_dataset, steps_per_epoch
from gdn_keras.models import Classifier
from gdn_keras.presets import PRESETS
from gdn_keras.training import Classification, Recipe
from gdn_keras.training.classification_task import RESULTS as OUR_RESULTS
from gdn_keras.training.classification_task import describe_data
from gdn_keras.training.command_line import data_flag, data_options
from gdn_keras.training.fitting import build, compile_model, fit_arguments
from gdn_keras.training.run_folder import (
    MODEL,
    load_network,
    open_run,
    read_results,
    read_settings,
    write_text,
)

RESULTS = "results.json"
_REPEATS = 20
_WARM_UP = 3  # of these, which trace and fill caches


@dataclasses.dataclass(frozen=True)
class Contest:
    """One task with its images and its recipes."""

    task: Task
    data: ImageData
    recipe: Recipe
    cnn_recipe: Recipe
    head: str
    dropout: float
    crop: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.train.images.shape[1:])

    @property
    def widths(self) -> tuple[int, ...]:
        preset = PRESETS[self.recipe.network]["parameters"]["widths"]
        return (*(self.recipe.widths or preset), len(self.data.class_names))

    @property
    def steps(self) -> int:
        each = steps_per_epoch(len(self.data.train.labels), self.recipe.batch_size)
        return each * self.recipe.epochs

    @property
    def reach(self) -> tuple[float, float]:
        """Factors between training and test images: the smallest and the largest."""
        train, test = (
            [self.task.extent(size) for size in sizes]
            for sizes in (self.data.train_sizes, self.data.test_sizes)
        )
        return min(test) / max(train), max(test) / min(train)

    @property
    def levels(self) -> tuple[float, ...]:
        """Factors of the pyramid in the test."""
        steps = self.task.per_octave
        low, high = (steps * math.log2(factor) for factor in self.reach)
        ends = math.floor(-high + 0.01), math.ceil(-low - 0.01)
        return tuple(2 ** (k / steps) for k in range(ends[0], ends[1] + 1))


def plain(contest: Contest) -> tuple[keras.Model, keras.Model, Callable | None]:
    """Networks to train and to test with, of equal weights, and what is done to training images."""
    own = contest.head, contest.dropout, contest.crop
    network = _classifier(contest, plain_cnn(contest.shape, contest.widths, *own))
    return network, network, None


def augmented(contest: Contest) -> tuple[keras.Model, keras.Model, Callable | None]:
    """The same, with training images of all sizes, an eighth of an octave apart."""
    network, _, _ = plain(contest)
    low, high = contest.reach
    factors = np.geomspace(low, high, 1 + math.ceil(8 * math.log2(high / low)))
    return network, network, random_rescaling(contest.shape[0], factors, contest.task.boundary)


def pyramid(contest: Contest) -> tuple[keras.Model, keras.Model, Callable | None]:
    """The same, on an image pyramid that has fewer levels in training."""
    near = tuple(2 ** (k / 2) for k in range(-2, 3))
    return _pyramid(contest, near), _pyramid(contest, contest.levels), None


def all_levels(contest: Contest) -> tuple[keras.Model, keras.Model, Callable | None]:
    """The same with all levels in training."""
    network = _pyramid(contest, contest.levels)
    return network, network, None


CONTESTANTS = {
    "plain": plain,
    "augmented": augmented,
    "pyramid": pyramid,
    "all_levels": all_levels,
}


def _pyramid(contest: Contest, factors: Sequence[float]) -> keras.Model:
    window, boundary = contest.task.window, contest.task.boundary
    own = contest.head, contest.dropout
    network = pyramid_cnn(contest.shape, contest.widths, factors, window, boundary, *own)
    return _classifier(contest, network)


def _classifier(contest: Contest, network: keras.Model) -> keras.Model:
    return Classifier(network, contest.data.class_names, contest.data.preprocessor)


def compete(contest: Contest, name: str) -> dict[str, Any]:
    """Trains and tests one of `CONTESTANTS`."""
    recipe, data = contest.cnn_recipe, contest.data
    keras.utils.set_random_seed(recipe.seed)
    trained, tested, rescale = CONTESTANTS[name](contest)
    task = Classification(recipe, data)
    compile_model(trained, task)
    options = fit_arguments(task)
    if rescale is not None:
        seeds = tf.data.Dataset.random(seed=recipe.seed)
        batches = tf.data.Dataset.zip(options["x"], seeds)
        options["x"] = batches.map(lambda batch, seed: (rescale(batch[0], seed), batch[1]))
    trained.fit(**options, epochs=recipe.epochs, verbose=2)
    tested.set_weights(trained.get_weights())
    curve = accuracy_by_size(tested, data, batch_size=recipe.batch_size)
    return _measured(contest, trained, tested, curve)


def ours(contest: Contest, folder: Path) -> dict[str, Any]:
    """What a finished run has in its folder, and its times here."""
    tested = load_network(folder / MODEL)
    trained = build(Classification(contest.recipe, contest.data))
    curve = {row["size"]: row["accuracy"] for row in read_results(folder, OUR_RESULTS)["sizes"]}
    return _measured(contest, trained, tested, curve)


def _measured(
    contest: Contest, trained: keras.Model, tested: keras.Model, curve: dict[float, float]
) -> dict[str, Any]:
    """Accuracy over sizes, with parameters and times."""
    batch = contest.recipe.batch_size
    held_out = contest.data.validation
    guesses = tested.predict(np.asarray(held_out.images), batch_size=batch, verbose=0)
    images, labels = next(iter(Classification(contest.recipe, contest.data).batches(0)))
    inputs = np.asarray(contest.data.test(contest.data.test_sizes[0]).images[:batch])
    step = _best_seconds(lambda: trained.train_on_batch(images, labels))
    forward = _best_seconds(lambda: tested.predict_on_batch(inputs))
    return {
        "accuracy": {f"{size:.4g}": value for size, value in curve.items()},
        "validation": float(np.mean(guesses.argmax(axis=-1) == held_out.labels)),
        "parameters": sum(math.prod(weight.shape) for weight in tested.trainable_weights),
        "training_seconds": step * contest.steps,
        "training_ms_per_image": 1e3 * step / len(images),
        "inference_ms_per_image": 1e3 * forward / len(inputs),
    }


def _best_seconds(step: Callable[[], Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return min(times[_WARM_UP:])


def prepare(options: argparse.Namespace) -> Contest:
    """The contest that the flags ask for, checked against the run to compare with."""
    task = TASKS[options.data]
    if options.per_octave is not None:
        task = dataclasses.replace(task, per_octave=check_integer("per_octave", options.per_octave))
    known: dict[str, Any] = {}
    loading = dict(task.options)
    if options.ours:
        read_results(options.ours, OUR_RESULTS)  # finished
        known = read_settings(options.ours) or {}
        if options.data == "large_scale":
            loading["train_sizes"] = tuple(known["train_sizes"])
    for name, value in (("count", options.images), ("test_count", options.test_images)):
        if value is not None:
            loading[name] = value
    try:
        data = load_dataset(task.data, options.data_dir, **{**loading, **data_options(options)})
    except TypeError as error:  # an option that it does not have; not all can be made smaller
        raise ValueError(f"{options.data} does not take these options: {error}") from None
    fields = {field.name for field in dataclasses.fields(Recipe)} & set(known)
    recipe = Recipe(**{name: known[name] for name in fields}) if known else task.recipe
    recipe = _changed(recipe, epochs=options.epochs, seed=options.seed)
    cnn_recipe = dataclasses.replace(recipe, **task.cnn)
    own = {"loss": options.loss, "learning_rate": options.learning_rate}
    described = describe_data(data)
    for name in ("training_images", "training_checksum", "test_sizes", "test_images"):
        if known and known[name] != described[name]:
            raise ValueError(
                f"`ours` must be a run on the same images. Received: {options.ours}, with "
                f"{known[name]} as its {name}, not {described[name]}"
            )
    head = options.head or task.head
    dropout = task.dropout if options.dropout is None else options.dropout
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must lie in [0, 1). Received: dropout={dropout}")
    crop = task.crop if options.crop is None else options.crop
    if crop is not None and not 3 <= crop <= min(data.train.images.shape[1:3]):
        raise ValueError(f"`crop` must lie within the images. Received: crop={crop}")
    return Contest(task, data, recipe, _changed(cnn_recipe, **own), head, dropout, crop)


def _changed(recipe: Recipe, **values: Any) -> Recipe:
    """The recipe with the values that are not `None`."""
    given = {name: value for name, value in values.items() if value is not None}
    return dataclasses.replace(recipe, **given)


def table(results: dict[str, Any], size_name: str) -> str:
    """Markdown: accuracy over sizes, then what it costs."""
    sizes = list(next(iter(results.values()))["accuracy"])
    lines = [f"| {size_name} | {' | '.join(sizes)} |", "|---" * (len(sizes) + 1) + "|"]
    for name, result in results.items():
        cells = " | ".join(f"{100 * result['accuracy'][size]:.2f}" for size in sizes)
        lines.append(f"| {name}, % | {cells} |")
    columns = {
        "validation": ("validation, %", "{:.2f}"),
        "parameters": ("parameters", "{:.0f}"),
        "training_seconds": ("training, s", "{:.0f}"),
        "training_ms_per_image": ("training, ms per image", "{:.2f}"),
        "inference_ms_per_image": ("inference, ms per image", "{:.2f}"),
    }
    titles = " | ".join(title for title, _ in columns.values())
    lines += ["", f"| | {titles} |", "|---" * (len(columns) + 1) + "|"]
    for name, result in results.items():
        shown = {**result, "validation": 100 * result["validation"]}
        cells = [form.format(shown[key]) for key, (_, form) in columns.items()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def flags() -> argparse.ArgumentParser:
    """The flags of this command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flag = parser.add_argument
    flag("--output", required=True, type=Path, metavar="DIR", help="folder for the results")
    flag("--data", choices=tuple(TASKS), default="large_scale", help="(default: large_scale)")
    text = "folder of the data set; without it, large_scale has the digits of the package"
    flag("--data-dir", "--mnist-dir", metavar="FOLDER", help=text)
    data_flag(flag)
    flag("--ours", type=Path, metavar="FOLDER", help="a finished run on the same images")
    flag("--only", nargs="+", choices=tuple(CONTESTANTS), default=tuple(CONTESTANTS))
    known = ", ".join(f"{task.recipe.epochs} for {name}" for name, task in TASKS.items())
    text = f"(default: those of `ours`, else {known})"
    flag("--epochs", type=int, metavar="N", help=text)
    flag("--images", type=int, metavar="N", help="training images (default: all)")
    flag("--test-images", type=int, metavar="N", help="test images a size (default: all)")
    text = "of the CNNs (default: best on validation images; digits and textures as `ours`)"
    flag("--loss", choices=("binary", "softmax"), help=text)
    flag("--learning-rate", type=float, metavar="RATE", help=text)
    text = "what the CNNs read: an average, or a weight for each place (default: gtsrb flatten)"
    flag("--head", choices=("average", "flatten"), help=text)
    text = "share of the CNNs' last features that training leaves out (default: gtsrb 0.5)"
    flag("--dropout", type=float, metavar="SHARE", help=text)
    text = "what CNNs without a pyramid see of an image (default: gtsrb 48, cifar10 32, else all)"
    flag("--crop", type=int, metavar="PIXELS", help=text)
    text = "levels of the pyramid in an octave (default: fashion_mnist and cifar10 4, others 2)"
    flag("--per-octave", type=int, metavar="N", help=text)
    flag("--seed", type=int, metavar="N", help="(default: that of `ours`, else 0)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains and tests who is not in the results yet, and draws all."""
    parser = flags()
    options = parser.parse_args(arguments)
    try:
        contest = prepare(options)
        settings = {**contest.cnn_recipe.as_dict(), **describe_data(contest.data)}
        settings |= {name: getattr(contest, name) for name in ("head", "dropout", "crop")}
        settings["per_octave"] = contest.task.per_octave
        folder = open_run(settings, options.output)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    file = folder / RESULTS
    results = json.loads(file.read_text()) if file.exists() else {}
    missing = [name for name in options.only if name not in results]
    if options.ours and "ours" not in results:
        results["ours"] = ours(contest, options.ours)
    for name in missing:
        print(f"{name}: {contest.steps} steps", flush=True)
        results[name] = compete(contest, name)
        write_text(file, json.dumps(results, indent=1) + "\n")
    write_text(file, json.dumps(results, indent=1) + "\n")
    size_name = contest.data.size_name
    write_text(folder / "table.md", table(results, size_name))
    curves = {
        name: {float(size): value for size, value in result["accuracy"].items()}
        for name, result in results.items()
    }
    draw_generalization(curves, folder / "curves.png", contest.data.train_sizes, size_name)
    print(table(results, size_name))


if __name__ == "__main__":
    main()
