"""Detection of digits: average precision over sizes, and pictures with boxes."""

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gdn_keras import datasets
from gdn_keras.datasets.scenes import BACKGROUNDS, Scenes, SceneSet
from gdn_keras.detection.decoding import channel_spacing
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes
from gdn_keras.detection.precision import TEST_SIZES, evaluate_detector
from gdn_keras.layers import ArctanContrast
from gdn_keras.reporting import Reporter
from gdn_keras.training.detection_task import (
    PRECISION,
    SHOWN,
    DetectionRecipe,
    DetectionTask,
    Points,
    as_json,
    draw_curves,
    draw_page,
    parameter_count,
    points_network,
    table,
)
from gdn_keras.training.recipe import CHANNELS, COUNT, at_least, increasing, recipe, setting
from gdn_keras.training.run_folder import Picture, Section, shown

CLASSES = 10
_PART_THRESHOLD = 0.7
_TEST_SEED = 1_000_003  # test scenes are the same for all seeds of the training
_ERRORS = {"size_error": "size error", "center_error": "center error"}
_SIZES = {"check": increasing, "flag": None}


def _spaced(name: str, value: Any) -> tuple[float, ...]:
    scales = increasing(name, value)
    if len(scales) > 1:
        channel_spacing(scales, name)
    return scales


def _powers(first: int, last: int, per_octave: int) -> tuple[float, ...]:
    return tuple(2.0 ** (k / per_octave) for k in range(first, last + 1))


_SPACED = {**CHANNELS, "check": _spaced}


@recipe
class DigitRecipe(DetectionRecipe):
    """One training of a detector of digits, and its test at other sizes.

    Digits do not touch, and differ in brightness: here sigmas with a ratio of sqrt(2), one grid
    point per sigma and no zero order are better than what detectors of pictures have, 0.98 against
    0.96 in average precision at IoU 0.5. Channels are closer together in training, so that the
    network learns what sizes between its channels look like. Clutter halves confusions on empty
    scenes too.

    Attributes:
        zero_order: whether layers see brightness itself.
        density: grid points per sigma.
        sigmas: sigmas of the layers in units of sigma_0.
        scales: sigma_0 of the finished detector's scale channels.
        train_scales: those in training.
        train_sizes: sizes of the digits in training.
        train_frame: height and width in training.
        train_count: least and greatest number of digits in a scene of the training.
        augment: whether digits are rotated and sheared a little, each time anew.
        background: background of all scenes.
        mnist_dir: folder of all of MNIST, instead of the package's digits.
        test_sizes: sizes of the digits in the test.
        test_shape: height and width of scenes in the test.
        test_count: least and greatest number of digits in a scene of the test.
        test_scenes: scenes in the test.
    """

    epochs: int = 60
    widths: tuple[int, ...] = (12, 16, 24, 48, 96)
    sigmas: tuple[float, ...] | None = setting(_powers(0, 5, per_octave=2), flag=None)
    density: float = 1.0
    zero_order: bool = False
    per_octave: int = 2
    scales: tuple[float, ...] = setting(_powers(-2, 7, per_octave=2), **_SPACED)
    train_scales: tuple[float, ...] = setting(_powers(-2, 6, per_octave=4), **_SPACED)
    train_sizes: tuple[float, ...] = setting((1.0,), **_SIZES)
    train_frame: int = setting(96, at_least(1), group="data", type=int, metavar="PIXELS")
    train_count: tuple[int, int] = setting((4, 14), flag=None)
    augment: bool = setting(True, flag=None)
    background: str = setting("clutter", choices=BACKGROUNDS, group="data")
    mnist_dir: str | None = setting(None, group="data")
    test_sizes: tuple[float, ...] = setting(TEST_SIZES, **_SIZES)
    test_shape: tuple[int, int] = setting((480, 640), flag=None)
    test_count: tuple[int, int] = setting((14, 20), flag=None)
    test_scenes: int = setting(120, **COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training_scenes()
        self._tested()

    def training_scenes(self) -> Scenes:
        """What is drawn, scene after scene, in training."""
        shape = (self.train_frame, self.train_frame)
        return self._scenes("train", augment=self.augment, sizes=self.train_sizes, shape=shape)

    def test_set(self) -> SceneSet:
        """The scenes of the test."""
        return datasets.scene_set(self._tested(), self.test_scenes, _TEST_SEED)

    def _tested(self) -> Scenes:
        return self._scenes("test", sizes=self.test_sizes, shape=self.test_shape)

    def _scenes(self, split: str, **options: Any) -> Scenes:
        source = None if self.mnist_dir is None else datasets.load_mnist_directory(self.mnist_dir)
        count = self.train_count if split == "train" else self.test_count
        options |= {"count": count, "background": self.background}
        return datasets.digit_scenes(split, source=source, **options)


class DigitDetection(DetectionTask):
    """Trains a detector on scenes of digits, and measures it at all sizes.

    Arguments and errors are those of `DetectionTask`.
    """

    title = "Detector of digits"

    def __init__(self, recipe: DigitRecipe, points: Points = points_network):
        super().__init__(recipe, [str(k) for k in range(CLASSES)], 1, points)
        self.description = (
            f"a detector with {len(recipe.train_scales)} scale channels, on {recipe.batch_size} "
            f"scenes a step with digits of size {shown(recipe.train_sizes)}"
        )

    def arguments(self) -> dict[str, Any]:
        # Digits do not overlap, but parts of large ones look like small ones.
        return {"preprocessor": ArctanContrast(stretch=False), "part_threshold": _PART_THRESHOLD}

    def batches(self, first_epoch: int) -> Any:
        recipe, scenes = self.recipe, self.recipe.training_scenes()
        options = {"batch_size": recipe.batch_size, "seed": recipe.seed}
        return datasets.scene_pipeline(scenes, first=first_epoch * recipe.steps, **options)

    def evaluate(self, model: Detector, reporter: Reporter) -> dict[str, Any]:
        recipe = self.recipe
        (everything, *sizes), slope = evaluate_detector(model, recipe.test_set(), recipe.test_sizes)
        return {
            "parameters": parameter_count(model),
            "slope": slope,
            "all": as_json(everything),
            "sizes": [as_json(result) for result in sizes],
        }

    def summary(self, results: dict[str, Any]) -> str:
        return summarize(results)

    def sections(self, results: dict[str, Any], model: Detector, others: Any) -> Iterator[Section]:
        yield f"{results['parameters']} parameters."
        yield precision_table(results)
        if results["all"]["objects"]:
            text = "Average precision over the size of the digits; on the right the upper part."
            sizes = {"training_sizes": self.recipe.train_sizes}
            draw = partial(draw_curves, "size", results["sizes"], PRECISION, **sizes)
            yield Picture("average_precision.png", text, draw)
        text = "Test scenes with the boxes that were found in them."
        yield Picture("detections.png", text, partial(_draw_scenes, model, self.recipe))


def summarize(results: dict[str, Any]) -> str:
    """One sentence: the lowest average precision from half an octave below size 1 to size 4."""
    rows = [row for row in results["sizes"] if 0.707 <= row["size"] <= 4.001]
    rows = [row for row in rows or results["sizes"] if row["objects"]]
    if not rows:
        return "There was no object in the test."
    return (
        f"Trained on size {shown(results['settings']['train_sizes'])} only: average precision at "
        f"least {min(row['ap50'] for row in rows):.3f} at IoU 0.5 and "
        f"{min(row['ap75'] for row in rows):.3f} at 0.75, at every size from "
        f"{rows[0]['size']:.3g} to {rows[-1]['size']:.3g}."
    )


def precision_table(results: dict[str, Any]) -> str:
    """Average precision and errors at each size, in Markdown."""
    note = "Errors are medians over the digits that were found, of the center in sides of the box."
    if results["slope"] is not None:
        note += f" Size found over size, both logarithmic: slope {results['slope']:.3f}."
    rows = [*results["sizes"], results["all"]]
    return f"{table('size', rows, PRECISION | _ERRORS)}\n\n{note}"


def _draw_scenes(detector: Detector, recipe: DigitRecipe, path: Path) -> None:
    """The first test scenes with what was found in them."""
    count = min(SHOWN, recipe.test_scenes)
    images = dataclasses.replace(recipe, test_scenes=count).test_set().images
    found = detector.predict(images, batch_size=1, verbose=0)
    boxes = ({name: rows[k] for name, rows in found.items()} for k in range(count))
    draw_page(list(map(draw_boxes, images, boxes)), path)
