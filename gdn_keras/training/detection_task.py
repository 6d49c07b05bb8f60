"""What trainings of detectors have in common."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from gdn_keras.analysis import draw_generalization
from gdn_keras.checks import check_non_negative, check_positive
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import import_drawing
from gdn_keras.detection.precision import import_pycocotools
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.training.recipe import COUNT, WIDTHS, TrainingRecipe, recipe, setting
from gdn_keras.training.run_folder import markdown_table, shown
from gdn_keras.training.task import Task

AVERAGE_PRECISION = "average_precision.json"
PRECISION = {"ap50": "AP at IoU 0.5", "ap75": "at 0.75", "ap": "COCO mean"}
SHOWN = 4  # pictures on a page
_SIDE = 640  # pixels


@recipe
class DetectionRecipe(TrainingRecipe):
    """How a detector is made and trained.

    Attributes:
        epochs: epochs of `steps` batches.
        batch_size: images in a batch.
        steps: batches in an epoch.
        widths: feature channels of the layers before the last.
        sigmas: sigmas of the layers in units of sigma_0, one more than `widths` (default: 1, 2, 2,
            4, …).
        density: grid points per sigma: fewer than one keep finer detail.
        zero_order: whether layers see brightness and color, not only their derivatives.
        per_octave: scale channels per octave of the finished detector.
        border: how far the finished detector's points go on beyond the edges of images, in units of
            sigma_0.
    """

    epochs: int = 36
    batch_size: int = 8
    steps: int = setting(100, **COUNT)
    widths: tuple[int, ...] = setting((12, 16, 24, 32, 64), **WIDTHS)
    sigmas: tuple[float, ...] | None = setting(None, type=float, nargs="+", metavar="SIGMA")
    density: float = setting(2 / 3, check_positive, flag=None)
    zero_order: bool = setting(True, flag=None)
    per_octave: int = setting(1, choices=(1, 2), type=int)
    border: float = setting(0.0, check_non_negative, flag=None)


Points = Callable[[Any, tuple[float, ...], int, int, float], keras.Model]


def points_network(
    recipe: DetectionRecipe,
    scales: tuple[float, ...],
    num_classes: int,
    channels: int,
    border: float = 0.0,
) -> keras.Model:
    """The Gaussian derivative network of a detector, for images of any size.

    Its sigmas rise quickly and then stay, as the strides of CNNs do: what tells objects that touch
    apart is the step of the last grid.
    """
    layers = len(recipe.widths) + 1
    sigmas = recipe.sigmas or (1.0, 2.0, 2.0, *[4.0] * layers)[:layers]
    return gaussian_derivative_network(
        input_shape=(None, None, channels),
        widths=recipe.widths,
        num_classes=num_classes,
        scales=scales,
        sigmas=sigmas,
        density=recipe.density,
        zero_order=recipe.zero_order,
        readout="points",
        boxes=True,
        border=border,
    )


class DetectionTask(Task):
    """Trains a detector in the scale channels of training, and uses it in others.

    Args:
        recipe: What to train and to test.
        class_names: Names of the classes.
        channels: Of the images.
        points: Function from a recipe, scales, numbers of classes and image channels, and a
            `border` to a network with points, whose weights do not depend on scales and border.
    """

    recipe: Any  # of a kind of its own in each task
    results_file = AVERAGE_PRECISION
    files: ClassVar = {AVERAGE_PRECISION: "average precision, and what was found"}

    def __init__(
        self, recipe: Any, class_names: list[str], channels: int, points: Points = points_network
    ):
        import_pycocotools()  # before the training and not after it
        import_drawing()
        self.recipe, self.steps, self.points = recipe, recipe.steps, points
        self.class_names, self.channels = class_names, channels

    def arguments(self) -> dict[str, Any]:
        """Arguments of the detector besides network and classes."""
        raise NotImplementedError  # each task has its own

    def network(self) -> Detector:
        return self._detector(self.recipe.train_scales)

    def _detector(self, scales: tuple[float, ...], border: float = 0.0, **changes: Any) -> Detector:
        return Detector(
            self.points(self.recipe, scales, len(self.class_names), self.channels, border),
            num_classes=len(self.class_names),
            class_names=self.class_names,
            per_octave=self.recipe.per_octave,
            **{**self.arguments(), **changes},
        )

    def finish(self, model: Detector) -> Detector:
        finished = self._detector(self.recipe.scales, self.recipe.border)
        finished.network.set_weights(model.network.get_weights())
        return finished


def parameter_count(model: keras.Model) -> int:
    """Trainable numbers of a model."""
    return sum(math.prod(w.shape) for w in model.trainable_weights)


def as_json(row: Any) -> dict[str, Any]:
    """A row of results; JSON has no NaN, which precision without objects is."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row._asdict().items()
    }


def table(key: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Rows of results by one of their keys, in Markdown; `columns` are keys and their titles."""
    lines = []
    for row in rows:
        cells = ("" if row[column] is None else f"{row[column]:.3f}" for column in columns)
        lines.append((shown(row[key] or "all"), row["objects"], *cells))
    return markdown_table((key, "objects", *columns.values()), lines)


def draw_curves(
    key: str,
    rows: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str],
    path: Path,
    training_sizes: Sequence[float] = (),
) -> None:
    """What `table` tells, average precision and other shares, as curves."""
    curves = {
        title: {row[key]: row[column] for row in rows if row[column] is not None}
        for column, title in columns.items()
    }
    draw_generalization(curves, path, training_sizes, size_name=key, value_name="precision")


def draw_page(pictures: Sequence[Any], path: Path) -> None:
    """Pillow images in two columns, those larger than `_SIDE` pixels shrunk."""
    Image, _ = import_drawing()
    for picture in pictures:
        picture.thumbnail((_SIDE, _SIDE))
    width, height = np.max([picture.size for picture in pictures], axis=0).tolist()
    columns, rows = min(2, len(pictures)), math.ceil(len(pictures) / 2)
    page = Image.new("RGB", (columns * (width + 4), rows * (height + 4)), "white")
    for k, picture in enumerate(pictures):
        page.paste(picture, (k % 2 * (width + 4), k // 2 * (height + 4)))
    page.save(path)
