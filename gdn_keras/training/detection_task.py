"""What trainings of detectors have in common."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import check_positive
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import import_drawing
from gdn_keras.detection.precision import import_pycocotools
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.training.recipe import COUNT, WIDTHS, TrainingRecipe, recipe, setting
from gdn_keras.training.run_folder import shown
from gdn_keras.training.task import Task

AVERAGE_PRECISION = "average_precision.json"
_MOST_TICKS = 9


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
    """

    epochs: int = setting(36, **COUNT)
    batch_size: int = setting(8, **COUNT)
    steps: int = setting(100, **COUNT)
    widths: tuple[int, ...] = setting((12, 16, 24, 32, 64), **WIDTHS)
    sigmas: tuple[float, ...] | None = setting(None, type=float, nargs="+", metavar="SIGMA")
    density: float = setting(2 / 3, check_positive, flag=None)
    zero_order: bool = setting(True, flag=None)
    per_octave: int = setting(1, choices=(1, 2), type=int)


Points = Callable[[Any, tuple[float, ...], int, int], keras.Model]


def points_network(
    recipe: DetectionRecipe, scales: tuple[float, ...], num_classes: int, channels: int
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
    )


class DetectionTask(Task):
    """Trains a detector in the scale channels of training, and uses it in others.

    Args:
        recipe: What to train and to test.
        class_names: Names of the classes.
        channels: Of the images.
        points: Function from a recipe, scales, and numbers of classes and image channels to a
            network with points, whose weights do not depend on the scales.
    """

    recipe: Any  # of a kind of its own in each task
    results_file = AVERAGE_PRECISION

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

    def _detector(self, scales: tuple[float, ...], **changes: Any) -> Detector:
        return Detector(
            self.points(self.recipe, scales, len(self.class_names), self.channels),
            num_classes=len(self.class_names),
            class_names=self.class_names,
            per_octave=self.recipe.per_octave,
            **{**self.arguments(), **changes},
        )

    def finish(self, model: Detector) -> Detector:
        finished = self._detector(self.recipe.scales)
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


def draw_curves(axis: Any, rows: list[dict[str, Any]], key: str, curves: dict[str, str]) -> None:
    """Numbers of results from 0 to 1, such as average precision, over sizes or the like."""
    places = [row[key] for row in rows]
    for name, label in curves.items():
        values = np.array([row[name] for row in rows], "float64")
        axis.plot(places, values, "o-", markersize=4, label=label)
    ticks = places[:: math.ceil(len(places) / _MOST_TICKS) or 1]
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [shown(place) for place in ticks])
    axis.minorticks_off()
    axis.set_ylim(0, 1.02)
    axis.legend()


def page_of(pictures: list[Any], columns: int = 2, side: int = 640) -> Any:
    """Pillow images on one page, those larger than `side` pixels shrunk."""
    Image, _ = import_drawing()
    for picture in pictures:
        picture.thumbnail((side, side))
    width, height = np.max([picture.size for picture in pictures], axis=0).tolist()
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    page = Image.new("RGB", (columns * (width + 4), rows * (height + 4)), "white")
    for k, picture in enumerate(pictures):
        page.paste(picture, (k % columns * (width + 4), k // columns * (height + 4)))
    return page
