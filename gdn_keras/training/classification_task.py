"""Classification: a network trained on images and tested at all sizes."""

import time
import zlib
from typing import Any

import keras
import numpy as np

from gdn_keras.analysis import (
    SizeResult,
    effective_training_scales,
    evaluate_by_size,
    selection_slope,
)
from gdn_keras.datasets import (
    ImageData,
    LabelledImages,
    RandomAffine,
    RandomBlur,
    RandomFrame,
    RandomLight,
    evaluation_pipeline,
    steps_per_epoch,
    training_pipeline,
)
from gdn_keras.models import Classifier, gaussian_derivative_network, parameter_counts, retarget
from gdn_keras.presets import PRESETS
from gdn_keras.reporting import Reporter
from gdn_keras.training.classification_report import channels_label, report_sections, summarize
from gdn_keras.training.recipe import LOSSES, Recipe
from gdn_keras.training.report_page import Section, shown
from gdn_keras.training.run_folder import BEST, csv_text
from gdn_keras.training.task import Task

ACCURACY = "accuracy.csv"
RESULTS = "accuracy.json"
_DIGIT = 28  # pixels of an object that is shifted by at most one
_IMAGES_FOR_SCALES = 1000
_REFERENCE_IMAGES = 100
_AT_ONCE = 64  # images that are in memory to be summed up


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
        self.title = f"{recipe.network} network, {channels_label(recipe.scales)}"

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
            scale_ratio=recipe.scale_ratio,
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
        return {"loss": LOSSES[self.recipe.loss](from_logits=True), "metrics": [accuracy]}

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
        if recipe.light:
            pixels = None if self.data.preprocessor is None else (0.0, 255.0)
            layers += [RandomLight(value_range=pixels), RandomBlur()]
        return layers

    def validation(self) -> Any:
        return evaluation_pipeline(
            *self.data.validation,
            batch_size=self.recipe.batch_size,
            num_classes=len(self.data.class_names),
        )

    def finish(self, model: keras.Model) -> keras.Model:
        recipe, shape = self.recipe, image_shape(self.data)
        trained_for = model.input_shape[1:], recipe.training_scales
        if not recipe.surround and (shape, recipe.scales) == trained_for:
            return Classifier(model.network, model.class_names, model.preprocessor, name=model.name)
        return retarget(model, shape, recipe.scales, surround=recipe.surround)

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
        if len(sizes) > 1:
            # Beyond the middle half, in logarithm, winning channels run out.
            margin = (sizes[-1] / sizes[0]) ** 0.25 * 0.999
            inside = [s for s in sizes if sizes[0] * margin <= s <= sizes[-1] / margin]
            if len(inside) > 1:
                counts = [result.selected for result in results if result.selected is not None]
                found["selection_sizes"] = within = inside[0], inside[-1]
                found["selection_slope"] = selection_slope(sizes, scales, counts, within)
        return found

    def tables(self, results: dict[str, Any]) -> dict[str, str]:
        rows = [{k: row[k] for k in ("size", "images", "accuracy")} for row in results["sizes"]]
        return {ACCURACY: csv_text(rows)}

    def summary(self, results: dict[str, Any]) -> str:
        return summarize(results)

    def sections(
        self, results: dict[str, Any], model: keras.Model, others: dict[str, dict[str, Any]]
    ) -> list[Section]:
        return report_sections(results, model, others)

    def export_options(self) -> dict[str, Any]:
        softmax, sizes = self.recipe.loss == "softmax", self.data.train_sizes
        options: dict[str, Any] = {"probabilities": "softmax" if softmax else "sigmoid"}
        if len(sizes) == 1:
            options["training_size"] = sizes[0]
            options["reference_images"] = self._first_images(_REFERENCE_IMAGES)
        return options

    def _first_images(self, count: int) -> np.ndarray:
        images, labels = self.data.train
        return np.asarray(images[: min(count, len(labels))])


def _as_dict(result: SizeResult) -> dict[str, Any]:
    selected = None if result.selected is None else result.selected.tolist()
    return {**result._asdict(), "confusion": result.confusion.tolist(), "selected": selected}


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
    images, tested = data.train.images, images_at(data, sizes_of(data)[0])
    return {
        "data": data.name,
        "class_names": list(data.class_names),
        "training_images": len(data.train.labels),
        "training_frame": list(images.shape[1:]),
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
