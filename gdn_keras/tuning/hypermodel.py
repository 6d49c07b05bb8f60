"""Gaussian derivative networks for KerasTuner, within a budget and tuned for many sizes."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras import scale_space
from gdn_keras.analysis import accuracy_by_size
from gdn_keras.checks import check_choice, check_integer, check_positive, require
from gdn_keras.datasets import ImageData
from gdn_keras.layers.pooling import POOLINGS
from gdn_keras.models import retarget
from gdn_keras.reporting import Reporter
from gdn_keras.training import Classification, Recipe
from gdn_keras.training.classification_task import describe_data, image_shape, images_at, sizes_of
from gdn_keras.training.fitting import build, fit_arguments

try:
    import keras_tuner
    import tensorboard  # noqa: F401  KerasTuner imports it in every trial
except ImportError as error:
    raise ImportError(f"Tuning needs {error.name}: pip install 'gdn_keras[tune]'") from error

OBJECTIVE = "mean_accuracy"
# Trained small, used large: five channels around size 1, eight in use.
_TRAIN_SCALES = tuple(2 ** (i / 2) for i in range(-1, 4))
# Pyright does not know the defaults of a recipe's fields.
SEARCH_RECIPE = Recipe(train_scales=_TRAIN_SCALES, epochs=4)  # pyright: ignore[reportCallIssue]
_SEARCHED = ("widths", "scale_ratio", "pooling", "learning_rate")
_FOLLOWED = "scales train_scales sampling cone augment contrast epochs batch_size loss seed jit"


class GaussianDerivativeHyperModel(keras_tuner.HyperModel):
    """Gaussian derivative networks for any tuner of KerasTuner.

    Networks are trained on `data` and validated at many sizes. A network over budget is never
    trained: all its layers become narrower, one choice at a time, until it fits.

    Example:

    >>> data = load_dataset("mnist_large_scale", train_sizes=(1,))  # doctest: +SKIP
    >>> hypermodel = GaussianDerivativeHyperModel(data, widths=(8, 16, 32))  # doctest: +SKIP

    Args:
        data: Images to train on, and to test the best network on after the search.
        validation: The objective is the mean accuracy over `validation.test_sizes`, on images that
            must not be test images. By default, the accuracy on `data.validation`.
        widths: Feature channels to choose from in every layer before the last; no layer is then
            narrower than the one before it, as in the paper. Or a sequence with the choices of
            each layer, such as `[(8, 16), (16, 32), 64]`, which are drawn independently.
        layers: Number of layers before the last, which has a channel for each class.
        scale_ratio: r, the ratio between the sigmas of successive layers.
        pooling: "max", "average" or "logsumexp", over scale channels.
        learning_rate: Of the first step; the last step has 1/200 of it.
        max_parameters, max_multiply_adds: The budget, for one test image in all scale channels.
        recipe: Scale channels and training.

    `layers`, `scale_ratio`, `pooling` and `learning_rate` are one value or several to choose from.
    """

    def __init__(
        self,
        data: ImageData,
        validation: ImageData | None = None,
        *,
        widths: Sequence[int | Sequence[int]] = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96),
        layers: int | Sequence[int] = (3, 4, 5, 6),
        scale_ratio: float | Sequence[float] = (1.15, 1.25, 1.4),
        pooling: str | Sequence[str] = "max",
        learning_rate: float | Sequence[float] = 0.01,
        max_parameters: int | None = None,
        max_multiply_adds: int | None = None,
        recipe: Recipe = SEARCH_RECIPE,
    ):
        super().__init__()
        self.data = data
        self.recipe = _check_recipe(recipe)
        self.reporter = Reporter()
        self.layers = _choices("layers", layers, check_integer)
        self.widths, self.ordered = _check_widths(widths, self.layers[-1])
        self.scale_ratio = _choices("scale_ratio", scale_ratio, check_positive)
        self.pooling = _choices("pooling", pooling, lambda n, v: check_choice(n, v, POOLINGS))
        self.learning_rate = _choices("learning_rate", learning_rate, check_positive)
        limits = {"max_parameters": max_parameters, "max_multiply_adds": max_multiply_adds}
        self.limits = {k: check_positive(k, n) for k, n in limits.items() if n is not None}
        self.image_shape = image_shape(data)
        validation = validation or dataclasses.replace(data, test_sizes=())
        self.validation = functools.cache(functools.partial(images_at, validation))
        sizes = sizes_of(validation)
        self.metrics = {s: f"accuracy_at_{s:.3g}" if s else "accuracy" for s in sizes}
        self.validation_count = len(self.validation(sizes[0]).labels)
        self._smallest = self._find_smallest()

    def settings(self) -> dict[str, Any]:
        """Everything that the trials depend on, as JSON would return it."""
        names = ("layers", "widths", "ordered", "scale_ratio", "pooling", "learning_rate")
        space = {name: getattr(self, name) for name in names}
        data = {**describe_data(self.data), "validation_images": self.validation_count}
        data["validation_sizes"] = tuple(self.metrics)
        return json.loads(json.dumps({**self.recipe.as_dict(), **space, **self.limits, **data}))

    def cost(self, candidate: Recipe) -> dict[str, int]:
        """Trainable parameters, and multiply-adds for one image in all scale channels."""
        features = (self.image_shape[2], *(candidate.widths or ()), len(self.data.class_names))
        # Five derivatives for each pair of channels, two numbers for each normalized output.
        pairs = sum(c_in * c_out for c_in, c_out in itertools.pairwise(features))
        operations = _multiply_adds(features, self.image_shape[:2], candidate)
        return {"parameters": 5 * pairs + 2 * sum(features[1:]), "multiply_adds": operations}

    def allows(self, cost: Mapping[str, Any]) -> bool:
        """Whether a cost, or a row with it, is within the budget."""
        return all(cost[name.removeprefix("max_")] <= n for name, n in self.limits.items())

    def with_values(self, *values: Any) -> Recipe:
        """The recipe with these widths, ratio, pooling and learning rate: a candidate."""
        changes = dict(zip(_SEARCHED, values, strict=True))
        return dataclasses.replace(self.recipe, **changes, final_learning_rate=None)

    def drawn(self, hp: keras_tuner.HyperParameters) -> Recipe:
        """The candidate that a tuner chose, which may be over budget."""
        layers = hp.Choice("layers", list(self.layers))
        # Unconditional: Bayesian optimization repeats itself where some are inactive.
        widths = [hp.Choice(f"width_{k}", list(c)) for k, c in enumerate(self.widths, 1)][:layers]
        # As text: gRPC rounds floats to single precision, and then they are no longer choices.
        ratio = hp.Choice("scale_ratio", [str(value) for value in self.scale_ratio])
        rate = hp.Choice("learning_rate", [str(value) for value in self.learning_rate])
        pooling = hp.Choice("pooling", list(self.pooling))
        widths = tuple(sorted(widths) if self.ordered else widths)
        return self.with_values(widths, float(ratio), pooling, float(rate))

    def candidate(self, hp: keras_tuner.HyperParameters) -> Recipe:
        """The drawn candidate, made narrower until it is within the budget."""
        candidate = self.drawn(hp)
        while not self.allows(self.cost(candidate)):
            layers = zip(self.widths, candidate.widths or (), strict=False)
            narrower = tuple(choices[max(0, choices.index(w) - 1)] for choices, w in layers)
            if narrower == candidate.widths:
                return dataclasses.replace(candidate, **self._smallest)
            candidate = dataclasses.replace(candidate, widths=narrower)
        return candidate

    def build(self, hp: keras_tuner.HyperParameters) -> keras.Model:
        """The candidate's network for training images, compiled."""
        # A round of Hyperband is a schedule of its own, so that each ends with small steps.
        epochs = hp.values.get("tuner/epochs", self.recipe.epochs)
        return self.network(self.candidate(hp), epochs - hp.values.get("tuner/initial_epoch", 0))

    def network(self, candidate: Recipe, epochs: int) -> keras.Model:
        """The candidate's network with the seed's initial weights, compiled for so many epochs."""
        return build(Classification(dataclasses.replace(candidate, epochs=epochs), self.data))

    def fit(
        self,
        hp: keras_tuner.HyperParameters | None,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        epochs: int | None = None,
        initial_epoch: int = 0,
        verbose: int = 0,
    ) -> dict[str, float]:
        """Trains; returns the accuracy in all scale channels, averaged and at each size."""
        if hp:
            row = self.row(self.candidate(hp)).items()
            self.reporter.line("Network: " + ", ".join(f"{name} {value}" for name, value in row))
        model.fit(
            **fit_arguments(Classification(self.recipe, self.data), initial_epoch),
            epochs=self.recipe.epochs if epochs is None else epochs,
            callbacks=[keras.callbacks.TerminateOnNaN(raise_error=True), *callbacks],
            verbose=verbose,
        )
        shape = self.validation(next(iter(self.metrics))).images.shape[1:]
        finished = retarget(model, shape, self.recipe.scales)
        accuracies = accuracy_by_size(finished, self.validation, self.metrics)
        by_size = {self.metrics[size]: accuracy for size, accuracy in accuracies.items()}
        return {OBJECTIVE: float(np.mean(list(accuracies.values()))), **by_size}

    def row(self, candidate: Recipe) -> dict[str, Any]:
        """A candidate and its cost as a row of a table."""
        row = {name: getattr(candidate, name) for name in _SEARCHED}
        return {**row, "widths": "-".join(map(str, row["widths"])), **self.cost(candidate)}

    def _find_smallest(self) -> dict[str, Any]:
        """Widths and ratio within the budget with the fewest parameters."""
        narrowest = tuple(choices[0] for choices in self.widths)
        fields = [
            {"widths": narrowest[:layers], "scale_ratio": ratio}
            for layers, ratio in itertools.product(self.layers, self.scale_ratio)
        ]
        costs = [self.cost(dataclasses.replace(self.recipe, **changes)) for changes in fields]
        allowed = [k for k, cost in enumerate(costs) if self.allows(cost)]
        if not allowed:
            names = ("parameters", "multiply_adds")
            least = ", ".join(f"{min(cost[name] for cost in costs)} {name}" for name in names)
            raise ValueError(f"The budget must allow at least {least}. Received: {self.limits}")
        return fields[min(allowed, key=lambda k: costs[k]["parameters"])]


@functools.lru_cache(maxsize=256)
def _multiply_adds(features: tuple[int, ...], frame: tuple[int, int], recipe: Recipe) -> int:
    """Those of `gaussian_derivative_network`, without the network."""
    nodes = scale_space.cascade([recipe.scale_ratio**k for k in range(len(features) - 1)])
    rest = frame, recipe.scales, (*features, features[-1])
    truncation = scale_space.DEFAULT_TRUNCATION
    if recipe.sampling == "dense":
        return sum(map(sum, scale_space.dense_costs(nodes, truncation, *rest)))
    plan = scale_space.Plan(nodes, "symmetric", truncation, cone=recipe.cone)
    return sum(map(sum, plan.costs(*rest)))


def _check_recipe(recipe: Recipe) -> Recipe:
    for name, usual in vars(Recipe()).items():  # pyright: ignore[reportCallIssue]
        if name not in _FOLLOWED.split():
            value = getattr(recipe, name)
            require(value == usual, f"recipe.{name}", "have its default value in a search", value)
    return recipe


def _check_widths(
    widths: Sequence[int | Sequence[int]], layers: int
) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """The choices of each layer, and whether the widths are to be put in order."""
    if not any(isinstance(choices, Sequence) for choices in widths):
        return (_choices("widths", widths, check_integer),) * layers, True
    text = f"be numbers for all layers, or choices for each of {layers} layers"
    require(len(widths) >= layers, "widths", text, widths)
    return tuple(_choices("widths", w, check_integer) for w in widths[:layers]), False


def _choices(name: str, value: Any, check: Callable[[str, Any], Any]) -> tuple:
    """One value or several, checked, in ascending order and without repetitions."""
    choices = tuple(sorted({check(name, v) for v in np.atleast_1d(value).tolist()}))
    require(choices, name, "hold at least one value", value)
    return choices
