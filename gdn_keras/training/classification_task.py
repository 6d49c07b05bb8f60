"""Classification: accuracy over sizes, scale selection, receptive fields and confusion."""

import argparse
import contextlib
import csv
import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.analysis import (
    SizeResult,
    effective_training_scales,
    evaluate_by_size,
    first_layer_fields,
    plots,
    second_layer_fields,
    selection_slope,
)
from gdn_keras.checks import (
    check_non_negative,
    check_positive,
    check_scales,
    check_surround,
    check_widths,
)
from gdn_keras.datasets import (
    ImageData,
    RandomAffine,
    RandomFrame,
    RandomLight,
    evaluation_pipeline,
    steps_per_epoch,
    training_pipeline,
)
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.models import (
    PAPER_SCALES,
    Classifier,
    gaussian_derivative_network,
    parameter_counts,
    retarget,
)
from gdn_keras.models.gaussian_derivative_network import READOUTS
from gdn_keras.presets import PRESETS
from gdn_keras.reporting import Reporter
from gdn_keras.scale_space import DEFAULT_CONE, SAMPLINGS
from gdn_keras.training.engine import export_by_tensorflow
from gdn_keras.training.fingerprint import describe_data, image_shape, images_at, sizes_of
from gdn_keras.training.recipe import TrainingRecipe, recipe, setting
from gdn_keras.training.report_page import Picture, Section, markdown_table, shown
from gdn_keras.training.run_folder import BEST
from gdn_keras.training.task import Task

ACCURACY = "accuracy.csv"
RESULTS = "accuracy.json"
NETWORKS = tuple(name for name, entry in PRESETS.items() if "weights" not in entry)
_LOSSES = {
    "binary": keras.losses.BinaryCrossentropy,
    "softmax": keras.losses.CategoricalCrossentropy,
}
_DIGIT = 28  # pixels of an object that is shifted by at most one
_IMAGES_FOR_SCALES = 1000
_REFERENCE_IMAGES = 100


def channels_between(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """sigma_0 of scale channels from LOW, HIGH and their number."""
    low, high, count = values
    if not 0 < low <= high or count != int(count) or count < 1:
        raise ValueError(
            f"`{name}` must be LOW HIGH N, with 0 < LOW <= HIGH and a whole number N of channels. "
            f"Received: {low:g} {high:g} {count:g}"
        )
    return tuple(np.geomspace(low, high, int(count)).tolist())


CHANNELS = {
    "check": lambda name, value: check_scales(value, name),
    "parse": channels_between,
    "type": float,
    "nargs": 3,
    "metavar": ("LOW", "HIGH", "N"),
}
WIDTHS = {"check": lambda _, v: check_widths(v), "type": int, "nargs": "+", "metavar": "N"}
SHARE = {"type": float, "metavar": "SHARE"}


def _share(name: str, value: float) -> float:
    if check_non_negative(name, value) >= 1:
        raise ValueError(f"`{name}` must lie in [0, 1). Received: {name}={value!r}")
    return float(value)


def _factor(name: str, value: float) -> float:
    if check_positive(name, value) < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={value!r}")
    return float(value)


def _extents(name: str, value: Sequence[float]) -> tuple[float, float]:
    extents = tuple(value) if isinstance(value, Sequence) else ()
    if len(extents) != 2 or not check_positive(name, extents[0]) <= extents[1]:
        raise ValueError(
            f"`{name}` must be two extents in increasing order. Received: {name}={value!r}"
        )
    return extents[0], check_positive(name, extents[1])


@recipe
class Recipe(TrainingRecipe):
    """How a classifier is made and trained. With the data it fixes the result, bit by bit."""

    network: str = setting("default", "preset whose widths the layers have", choices=NETWORKS)
    widths: tuple[int, ...] | None = setting(
        None, "feature channels of the layers before the last, instead of the preset's", **WIDTHS
    )
    scales: tuple[float, ...] = setting(
        PAPER_SCALES, "sigma_0 of the finished network's scale channels", **CHANNELS
    )
    train_scales: tuple[float, ...] | None = setting(
        None, "those in training, if they are to be others, such as fewer", **CHANNELS
    )
    pooling: str = setting("max", "how scale channels are pooled", choices=POOLINGS)
    scale_dropout: float = setting(
        0.0, "share of the scale channels that training leaves out at random", _share, **SHARE
    )
    readout: str = setting(
        "center",
        "what is read of an image: its center, an object anywhere, or the average of all places",
        choices=tuple(READOUTS),
    )
    zero_order: bool = setting(False, "let layers see brightness itself, not only its derivatives")
    order: int = setting(2, "highest order of differentiation", choices=(1, 2, 3), type=int)
    residual: bool = setting(False, "make residual blocks of pairs of layers after the first")
    cone: float = setting(
        DEFAULT_CONE,
        "width of the receptive cone in standard deviations, where the center is read",
        check_positive,
        type=float,
        metavar="WIDTH",
    )
    surround: float = setting(
        0.0,
        "share of their size by which the finished network continues images at their edges",
        lambda _, value: check_surround(value),
        **SHARE,
    )
    sampling: str = setting(
        "matched",
        "grids that match each channel's scale, or the paper to the letter (dense)",
        choices=SAMPLINGS,
    )
    augment: tuple[float, float] | None = setting(
        None,
        "smallest and largest extent of the objects in training images, in pixels: images are then "
        "rotated, sheared and shifted in proportion to the first, and half of them cut to smaller "
        "frames in proportion to the second, unless it is the whole image; sizes are kept",
        _extents,
        group="training",
        parse=lambda *_: None,  # commands know the extents
        action=argparse.BooleanOptionalAction,
        help="rotate, shear and shift training images a little, sizes kept",
    )
    contrast: float | None = setting(
        None,
        "largest factor by which the contrast of training images is changed at random",
        _factor,
        group="training",
        type=float,
        metavar="FACTOR",
    )
    loss: str = setting(
        "binary",
        "cross-entropy of each class on its own, as in the paper, or of all classes",
        choices=tuple(_LOSSES),
        group="training",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.surround and self.readout == "average":  # else it fails after the training
            raise ValueError(
                f"`surround` must be 0 for readout='average'. Received: surround={self.surround}"
            )

    @property
    def training_scales(self) -> tuple[float, ...]:
        """sigma_0 of the scale channels in training."""
        return self.train_scales or self.scales


class Classification(Task):
    """Trains a classifier on images, and tests it at all sizes.

    Args:
        recipe: What network to train, and how.
        data: What to train and to test it on.
    """

    results_file = RESULTS
    score = "val_accuracy"
    files = (
        (ACCURACY, "accuracy at each test size"),
        (RESULTS, "the same, with confusions and selected scales"),
        (BEST, "the epoch of the best validation accuracy"),
    )

    def __init__(self, recipe: Recipe, data: ImageData):
        self.recipe: Recipe = recipe
        self.data = data
        self.title = f"{recipe.network} network, {_label(recipe.scales)}"

    @property
    def steps(self) -> int:
        return steps_per_epoch(len(self.data.train.labels), self.recipe.batch_size)

    @property
    def description(self) -> str:
        data, channels = self.data, len(self.recipe.training_scales)
        return (
            f"the {self.recipe.network} network with {channels} scale channel"
            f"{'s' * (channels > 1)}, on {len(data.train.labels)} images of "
            f"{len(data.class_names)} classes"
            + (f" at size {shown(data.train_sizes)}" if data.train_sizes else "")
        )

    def settings(self) -> dict[str, Any]:
        return {**self.recipe.as_dict(), **describe_data(self.data)}

    def network(self) -> keras.Model:
        recipe, data = self.recipe, self.data
        network = gaussian_derivative_network(
            input_shape=data.train.images.shape[1:],
            widths=recipe.widths or PRESETS[recipe.network]["parameters"]["widths"],
            num_classes=len(data.class_names),
            scales=recipe.training_scales,
            pooling=recipe.pooling,
            scale_dropout=recipe.scale_dropout,
            sampling=recipe.sampling,
            cone=recipe.cone,
            readout=recipe.readout,
            order=recipe.order,
            zero_order=recipe.zero_order,
            residual=recipe.residual,
        )
        return Classifier(network, data.class_names, data.preprocessor)

    def loss(self) -> dict[str, Any]:
        accuracy = keras.metrics.CategoricalAccuracy(name="accuracy")
        return {"loss": _LOSSES[self.recipe.loss](from_logits=True), "metrics": [accuracy]}

    def batches(self, first_epoch: int) -> Any:
        return training_pipeline(
            *self.data.train,
            batch_size=self.recipe.batch_size,
            num_classes=len(self.data.class_names),
            seed=self.recipe.seed,
            initial_epoch=first_epoch,
            augment=self.augmentation(),
        )

    def augmentation(self) -> list[keras.Layer]:
        """The layers that change each batch of training images."""
        recipe, layers = self.recipe, []
        if recipe.augment is not None:
            smallest, largest = recipe.augment
            layers.append(RandomAffine(shift=smallest / _DIGIT))
            # Otherwise there is nothing around the objects to cut off.
            if largest < min(self.data.train.images.shape[1:3]):
                layers.append(RandomFrame(largest / 2, largest))
        if recipe.contrast is not None:
            pixels = None if self.data.preprocessor is None else (0.0, 255.0)
            layers.append(RandomLight(0.0, recipe.contrast, 1.0, 0.0, value_range=pixels))
        return layers

    def validation(self) -> Any:
        return evaluation_pipeline(
            *self.data.validation,
            batch_size=self.recipe.batch_size,
            num_classes=len(self.data.class_names),
        )

    def finish(self, model: keras.Model) -> keras.Model:
        recipe = self.recipe
        return retarget(model, image_shape(self.data), recipe.scales, surround=recipe.surround)

    def evaluate(self, model: keras.Model, reporter: Reporter) -> dict[str, Any]:
        began, sizes = time.monotonic(), sizes_of(self.data)

        def say(result: SizeResult) -> None:
            what = f"test size {result.size:<6.3g}" if result.size is not None else "validation"
            reporter.line(f"{what} {result.accuracy:7.2%}")

        results = evaluate_by_size(
            model, lambda size: images_at(self.data, size), sizes, self.recipe.batch_size, say
        )
        reporter.line(f"Tested in {time.monotonic() - began:.0f} s.")
        return {
            "size_name": self.data.size_name,
            "parameters": parameter_counts(model),
            "scales": list(self.recipe.scales),
            **self._selection(model, results),
            "sizes": [_as_dict(result) for result in results],
        }

    def _selection(self, model: keras.Model, results: list[SizeResult]) -> dict[str, Any]:
        """Measures of scale selection, for several channels and sizes."""
        scales = self.recipe.scales
        if len(scales) < 2:
            return {}
        images, trained_on = self._first_images(_IMAGES_FOR_SCALES), model
        if self.recipe.surround or image_shape(self.data) != images.shape[1:]:
            trained_on = retarget(model, images.shape[1:], surround=0.0)
        found: dict[str, Any] = {
            "effective_training_scales": effective_training_scales(trained_on, images)
        }
        sizes = [result.size for result in results if result.size is not None]
        inside = _middle(sizes)
        if len(inside) > 1:
            counts = [result.selected for result in results if result.selected is not None]
            found["selection_sizes"] = within = inside[0], inside[-1]
            found["selection_slope"] = selection_slope(sizes, scales, counts, within)
        return found

    def tables(self, results: dict[str, Any]) -> dict[str, str]:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("size", "images", "accuracy"))
        writer.writerows((r["size"], r["images"], r["accuracy"]) for r in results["sizes"])
        return {ACCURACY: text.getvalue()}

    def summary(self, results: dict[str, Any]) -> str:
        """The accuracy at the training size, and the lowest one over sizes.

        The smallest half octave, where objects lose their detail, and the largest octave, where
        they leave the frame, are left to the table.
        """
        accuracies = curve(results)
        if len(accuracies) < 2:
            return f"{_percent(min(accuracies.values()))} of the test images recognised."
        low, high = min(accuracies) * 2**0.5, max(accuracies) / 2
        inside = {s: a for s, a in accuracies.items() if low * 0.999 <= s <= high * 1.001}
        inside = inside if 2 * len(inside) > len(accuracies) else accuracies
        worst = min(inside, key=lambda size: inside[size])
        sizes = results["settings"]["train_sizes"]
        trained = [f"{100 * accuracies[s]:.2f} % at size {s:g}" for s in sizes if s in accuracies]
        return (
            (f"Trained on size {shown(sizes)} only" if sizes else "Trained")
            + (f" ({', '.join(trained)})" if trained else "")
            + f": at least {_percent(inside[worst])} at every test size from {min(inside):.3g} to "
            f"{max(inside):.3g}, the lowest at {worst:.3g}."
        )

    def sections(
        self, results: dict[str, Any], model: keras.Model, others: dict[str, dict[str, Any]]
    ) -> list[Section]:
        counts = results["parameters"]
        text = [f"{counts['trainable']} parameters ({counts['paper']} as the paper counts)."]
        if "selection_slope" in results:
            low, high = results["selection_sizes"]
            text.append(
                f"Selected scale over size, both logarithmic, sizes {low:.3g} to {high:.3g}: slope "
                f"{results['selection_slope']:.2f} (1 is perfect)."
            )
        if "effective_training_scales" in results:
            low, high = results["effective_training_scales"]
            text.append(f"Effective training scales: sigma_0 from {low:.3g} to {high:.3g}.")
        return [*text, _table(results, others), *_pictures(results, model, others)]

    def export(self, model: keras.Model, folder: Path) -> None:
        from gdn_keras.export import export_saved_model

        export_by_tensorflow(export_saved_model, model, folder, self.export_options())

    def export_options(self) -> dict[str, Any]:
        """What `export_saved_model` has to know of how a network was trained."""
        softmax, sizes = self.recipe.loss == "softmax", self.data.train_sizes
        options: dict[str, Any] = {"probabilities": "softmax" if softmax else "sigmoid"}
        if len(sizes) == 1:
            options["training_size"] = sizes[0]
            options["reference_images"] = self._first_images(_REFERENCE_IMAGES)
        return options

    def is_exported(self, model: keras.Model, folder: Path) -> bool:
        from gdn_keras.export import is_export_of

        return folder.exists() and is_export_of(model, folder)

    def _first_images(self, count: int) -> np.ndarray:
        images, labels = self.data.train
        return np.asarray(images[: min(count, len(labels))])


def curve(results: dict[str, Any]) -> dict[float, float]:
    """`{size: accuracy}` of a run's results."""
    return {row["size"]: row["accuracy"] for row in results["sizes"]}


def _middle(sizes: list[float]) -> list[float]:
    """The middle half of the test sizes, in logarithm: beyond it, winning channels run out."""
    if not sizes:
        return []
    low, high = min(sizes), max(sizes)
    quarter = (high / low) ** 0.25
    return [s for s in sizes if low * quarter * 0.999 <= s <= high / quarter * 1.001]


def _as_dict(result: SizeResult) -> dict[str, Any]:
    selected = None if result.selected is None else result.selected.tolist()
    return {**result._asdict(), "confusion": result.confusion.tolist(), "selected": selected}


def _label(scales: Sequence[float]) -> str:
    return "single scale channel" if len(scales) == 1 else f"{len(scales)} scale channels"


def _table(results: dict[str, Any], others: Mapping[str, dict[str, Any]]) -> str:
    names = [_label(results["scales"]), *others]
    curves = [curve(results), *map(curve, others.values())]
    rows = []
    for size in curves[0]:
        trained = " (trained)" if size in results["settings"]["train_sizes"] else ""
        cells = [f"{100 * c[size]:.2f}" if size in c else "" for c in curves]
        rows.append([f"{'validation' if size is None else f'{size:.3g}'}{trained}", *cells])
    head = "images" if None in curves[0] else results["size_name"]
    return markdown_table([head, *(f"{name}, %" for name in names)], rows)


def _pictures(
    results: dict[str, Any], model: keras.Model, others: Mapping[str, dict[str, Any]]
) -> list[Section]:
    rows, settings = results["sizes"], results["settings"]
    sizes = [row["size"] for row in rows]
    worst = min(rows, key=lambda row: row["accuracy"])
    axis = {"training_sizes": settings["train_sizes"], "size_name": results["size_name"]}
    curves = {_label(results["scales"]): curve(results)}
    curves |= {name: curve(other) for name, other in others.items()}
    generalization = Picture(
        "scale_generalization.png",
        "Accuracy over test size; on the right the upper part.",
        lambda path: plots.draw_generalization(curves, path, **axis),
    )
    selection = Picture(
        "scale_selection.png",
        "Share of the test images won by each scale channel, for each test size. Scale selection "
        "follows size: a diagonal band.",
        lambda path: plots.draw_selection(
            sizes, results["scales"], [row["selected"] for row in rows], path, **axis
        ),
    )
    fields = Picture(
        "receptive_fields.png",
        "Learned receptive fields: the first layer, and the second along each unit's strongest "
        "input; red excites, blue inhibits.",
        lambda path: plots.draw_receptive_fields(_receptive_fields(model), path),
    )
    confusion = Picture(
        "confusion.png",
        "True and predicted classes, at the test size of the lowest accuracy.",
        lambda path: plots.draw_confusion(
            worst["confusion"], path, settings["class_names"], worst["size"]
        ),
    )
    several = len(sizes) > 1, len(sizes) > 1 and len(results["scales"]) > 1
    return [*[generalization] * several[0], *[selection] * several[1], fields, confusion]


def _receptive_fields(model: keras.Model) -> dict[str, np.ndarray]:
    """Receptive fields of the first layers by name, for each color of the image."""
    first = first_layer_fields(model)
    count = first.shape[1]
    colors = ("red", "green", "blue") if count == 3 else range(1, count + 1)
    names = ["first layer"] if count == 1 else [f"first layer, {color}" for color in colors]
    fields = {name: first[:, channel] for channel, name in enumerate(names)}
    with contextlib.suppress(ValueError):  # there is only one layer
        fields["second layer, along the strongest input"] = second_layer_fields(model)
    return fields


def _percent(share: float) -> str:
    """Rounded down, for "at least"."""
    return f"{np.floor(share * 1e4 + 1e-6) / 100:.2f} %"
