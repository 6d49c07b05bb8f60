"""Classification: a network trained on images, tested at all sizes, and the report of it."""

import contextlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np

from gdn_keras import analysis, datasets
from gdn_keras.datasets import ImageData, LabelledImages, steps_per_epoch
from gdn_keras.models import Classifier, gaussian_derivative_network, parameter_counts, retarget
from gdn_keras.presets import PRESETS
from gdn_keras.reporting import Reporter
from gdn_keras.training.recipe import LOSSES, Recipe
from gdn_keras.training.run_folder import BEST, Picture, Section, csv_text, markdown_table, shown
from gdn_keras.training.task import Task

ACCURACY = "accuracy.csv"
RESULTS = "accuracy.json"
_DIGIT = 28  # pixels of an object that is shifted by at most one
_IMAGES_FOR_SCALES = 1000
_REFERENCE_IMAGES = 100
_AT_ONCE = 64  # images that are in memory to be summed up
# Fields of the recipe that `gaussian_derivative_network` takes under the same names.
_NETWORK = "scale_ratio pooling scale_dropout sampling cone readout order zero_order residual"


class Classification(Task):
    """Trains a classifier on images, and tests it at all sizes.

    Args:
        recipe: What network to train, and how.
        data: What to train and to test it on.
    """

    results_file = RESULTS
    score = "val_accuracy"
    files: ClassVar = {
        ACCURACY: "accuracy at each test size",
        RESULTS: "the same, with confusions and selected scales",
        BEST: "the epoch of the best validation accuracy",
    }

    def __init__(self, recipe: Recipe, data: ImageData):
        self.recipe: Recipe = recipe
        self.data = data
        self.title = f"{recipe.network} network, {_channels(recipe.scales)}"

    @property
    def steps(self) -> int:
        return steps_per_epoch(len(self.data.train.labels), self.recipe.batch_size)

    @property
    def description(self) -> str:
        data, channels = self.data, _channels(self.recipe.training_scales)
        at = f" at size {shown(data.train_sizes)}" if data.train_sizes else ""
        return (
            f"the {self.recipe.network} network with {channels}, on {len(data.train.labels)} "
            f"images of {len(data.class_names)} classes{at}"
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
            **{name: getattr(recipe, name) for name in _NETWORK.split()},
        )
        return Classifier(network, data.class_names, data.preprocessor)

    def loss(self) -> dict[str, Any]:
        accuracy = keras.metrics.CategoricalAccuracy(name="accuracy")
        return {"loss": LOSSES[self.recipe.loss](from_logits=True), "metrics": [accuracy]}

    def batches(self, first_epoch: int) -> Any:
        return datasets.training_pipeline(
            *self.data.train,
            batch_size=self.recipe.batch_size,
            seed=self.recipe.seed,
            initial_epoch=first_epoch,
            augment=self.augmentation(),
            num_classes=len(self.data.class_names),
        )

    def validation(self) -> Any:
        return datasets.evaluation_pipeline(
            *self.data.validation,
            batch_size=self.recipe.batch_size,
            num_classes=len(self.data.class_names),
        )

    def augmentation(self) -> list[keras.Layer]:
        """The layers that change each batch of training images."""
        recipe, layers = self.recipe, []
        if recipe.augment is not None:
            smallest, largest = recipe.augment
            layers.append(datasets.RandomAffine(shift=smallest / _DIGIT))
            # Otherwise there is nothing around the objects to cut off.
            if largest < min(self.data.train.images.shape[1:3]):
                layers.append(datasets.RandomFrame(largest / 2, largest))
        if recipe.light:
            pixels = None if self.data.preprocessor is None else (0.0, 255.0)
            layers += [datasets.RandomLight(value_range=pixels), datasets.RandomBlur()]
        return layers

    def finish(self, model: keras.Model) -> keras.Model:
        recipe = self.recipe
        return retarget(model, image_shape(self.data), recipe.scales, surround=recipe.surround)

    def evaluate(self, model: keras.Model, reporter: Reporter) -> dict[str, Any]:
        def say(result: analysis.SizeResult) -> None:
            what = f"test size {result.size:<6.3g}" if result.size is not None else "validation"
            reporter.line(f"{what} {result.accuracy:7.2%}")

        sizes, images = sizes_of(self.data), partial(images_at, self.data)
        results = analysis.evaluate_by_size(model, images, sizes, self.recipe.batch_size, say)
        return {
            "size_name": self.data.size_name,
            "parameters": parameter_counts(model),
            "scales": list(self.recipe.scales),
            **self._selection(model, results),
            "sizes": [result._asdict() for result in results],
        }

    def _selection(self, model: keras.Model, results: list[analysis.SizeResult]) -> dict[str, Any]:
        """Measures of scale selection, for several channels and sizes."""
        scales = self.recipe.scales
        if len(scales) < 2:
            return {}
        images = self._first_images(_IMAGES_FOR_SCALES)
        trained_on = retarget(model, images.shape[1:], surround=0.0)
        effective = analysis.effective_training_scales(trained_on, images)
        found: dict[str, Any] = {"effective_training_scales": effective}
        sizes = [result.size for result in results if result.size is not None]
        # Beyond the middle half, in logarithm, winning channels run out.
        margin = (sizes[-1] / sizes[0]) ** 0.25 * 0.999 if sizes else 1.0
        inside = [s for s in sizes if sizes[0] * margin <= s <= sizes[-1] / margin]
        if len(inside) > 1:
            counts = [result.selected for result in results if result.selected is not None]
            found["selection_sizes"] = within = inside[0], inside[-1]
            found["selection_slope"] = analysis.selection_slope(sizes, scales, counts, within)
        return found

    def tables(self, results: dict[str, Any]) -> dict[str, str]:
        rows = [{k: row[k] for k in ("size", "images", "accuracy")} for row in results["sizes"]]
        return {ACCURACY: csv_text(rows)}

    def summary(self, results: dict[str, Any]) -> str:
        """The accuracy at the training size, and the lowest one over sizes.

        The smallest half octave, where objects lose their detail, and the largest octave, where
        they leave the frame, are left to the table.
        """
        accuracies = _curve(results)
        if len(accuracies) < 2:
            return f"{_percent(min(accuracies.values()))} of the test images recognised."
        low, high = min(accuracies) * 2**0.5, max(accuracies) / 2
        inside = [size for size in accuracies if low * 0.999 <= size <= high * 1.001]
        inside = inside if 2 * len(inside) > len(accuracies) else list(accuracies)
        worst = min(inside, key=lambda size: accuracies[size])
        sizes = results["settings"]["train_sizes"]
        trained = [f"{100 * accuracies[s]:.2f} % at size {s:g}" for s in sizes if s in accuracies]
        return (
            (f"Trained on size {shown(sizes)} only" if sizes else "Trained")
            + (f" ({', '.join(trained)})" if trained else "")
            + f": at least {_percent(accuracies[worst])} at every test size from "
            f"{min(inside):.3g} to {max(inside):.3g}, the lowest at {worst:.3g}."
        )

    def sections(
        self, results: dict[str, Any], model: keras.Model, others: dict[str, dict[str, Any]]
    ) -> Iterator[Section]:
        counts = results["parameters"]
        yield f"{counts['trainable']} parameters ({counts['paper']} as the paper counts)."
        if "selection_slope" in results:
            low, high = results["selection_sizes"]
            yield (
                f"Selected scale over size, both logarithmic, sizes {low:.3g} to {high:.3g}: slope "
                f"{results['selection_slope']:.2f} (1 is perfect)."
            )
        if "effective_training_scales" in results:
            low, high = results["effective_training_scales"]
            yield f"Effective training scales: sigma_0 from {low:.3g} to {high:.3g}."
        curves = {_channels(results["scales"]): _curve(results)}
        curves |= {name: _curve(other) for name, other in others.items()}
        yield _table(results, curves)
        rows, settings = results["sizes"], results["settings"]
        axis = {"training_sizes": settings["train_sizes"], "size_name": results["size_name"]}
        if len(rows) > 1:
            text = "Accuracy over test size; on the right the upper part."
            draw = partial(analysis.draw_generalization, curves, **axis)
            yield Picture("scale_generalization.png", text, draw)
        if len(rows) > 1 and len(results["scales"]) > 1:
            text = (
                "Share of the test images won by each scale channel, for each test size. Scale "
                "selection follows size: a diagonal band."
            )
            sizes, selected = ([row[name] for row in rows] for name in ("size", "selected"))
            draw = partial(analysis.draw_selection, sizes, results["scales"], selected, **axis)
            yield Picture("scale_selection.png", text, draw)
        text = (
            "Learned receptive fields: the first layer, and the second along each unit's strongest "
            "input; red excites, blue inhibits."
        )
        yield Picture("receptive_fields.png", text, partial(_draw_receptive_fields, model))
        worst = min(rows, key=lambda row: row["accuracy"])
        names = {"class_names": settings["class_names"], "size": worst["size"]}
        text = "True and predicted classes, at the test size of the lowest accuracy."
        draw = partial(analysis.draw_confusion, worst["confusion"], **names)
        yield Picture("confusion.png", text, draw)

    def export_options(self) -> dict[str, Any]:
        softmax, sizes = self.recipe.loss == "softmax", self.data.train_sizes
        options: dict[str, Any] = {"probabilities": "softmax" if softmax else "sigmoid"}
        if len(sizes) == 1:
            images = self._first_images(_REFERENCE_IMAGES)
            options |= {"training_size": sizes[0], "reference_images": images}
        return options

    def _first_images(self, count: int) -> np.ndarray:
        return np.asarray(self.data.train.images[:count])


def images_at(data: ImageData, size: float | None) -> LabelledImages:
    """Test images of one size; of data without sizes, which have none, the validation images."""
    return data.validation if size is None else data.test(size)


def sizes_of(data: ImageData) -> tuple[float | None, ...]:
    """The sizes to test at, in increasing order; `None` for data without sizes."""
    return tuple(sorted(data.test_sizes)) or (None,)


def image_shape(data: ImageData) -> tuple[int, int, int]:
    """Height, width and channels of test images, which a finished network is for."""
    _, height, width, channels = images_at(data, sizes_of(data)[0]).images.shape
    return height, width, channels


def describe_data(data: ImageData) -> dict[str, Any]:
    """The data as plain values, by which a run knows them again."""
    tested = images_at(data, sizes_of(data)[0])
    return {
        "data": data.name,
        "class_names": list(data.class_names),
        "training_images": len(data.train.labels),
        "training_frame": list(data.train.images.shape[1:]),
        "training_checksum": _checksum(data.train),
        "validation_checksum": _checksum(data.validation),
        "train_sizes": list(data.train_sizes),
        "test_sizes": list(data.test_sizes),
        "test_images": len(tested.labels),
        "test_checksum": _checksum(tested),
    }


def _checksum(part: LabelledImages) -> int:
    """Of all labels and images, which may be on disk."""
    checksum = zlib.crc32(part.labels.tobytes())
    for start in range(0, len(part.labels), _AT_ONCE):
        chunk = np.ascontiguousarray(part.images[start : start + _AT_ONCE])
        checksum = zlib.crc32(chunk.data, checksum)
    return checksum


def _curve(results: dict[str, Any]) -> dict[float, float]:
    """`{size: accuracy}` of a run's results."""
    return {row["size"]: row["accuracy"] for row in results["sizes"]}


def _channels(scales: Sequence[float]) -> str:
    return f"{len(scales)} scale channel{'s' * (len(scales) > 1)}"


def _table(results: dict[str, Any], curves: Mapping[str, dict[float, float]]) -> str:
    rows = []
    for size in _curve(results):
        trained = " (trained)" if size in results["settings"]["train_sizes"] else ""
        cells = [f"{100 * c[size]:.2f}" if size in c else "" for c in curves.values()]
        rows.append([f"{'validation' if size is None else f'{size:.3g}'}{trained}", *cells])
    head = "images" if rows[0][0] == "validation" else results["size_name"]
    return markdown_table([head, *(f"{name}, %" for name in curves)], rows)


def _draw_receptive_fields(model: keras.Model, path: Any) -> None:
    """Receptive fields of the first layers by name, for each color of the image."""
    first = analysis.first_layer_fields(model)
    count = first.shape[1]
    colors = ("red", "green", "blue") if count == 3 else range(1, count + 1)
    names = ["first layer"] if count == 1 else [f"first layer, {color}" for color in colors]
    fields = {name: first[:, channel] for channel, name in enumerate(names)}
    with contextlib.suppress(ValueError):  # there is only one layer
        fields["second layer, along the strongest input"] = analysis.second_layer_fields(model)
    analysis.draw_receptive_fields(fields, path)


def _percent(share: float) -> str:
    """Rounded down, for "at least"."""
    return f"{np.floor(share * 1e4 + 1e-6) / 100:.2f} %"
