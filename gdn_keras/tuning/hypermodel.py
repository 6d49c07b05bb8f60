"""Networks for KerasTuner, tuned for generalisation over scale.

The objective is the accuracy averaged over validation sizes, most of which are not trained on.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.datasets import ImageData, LabelledImages
from gdn_keras.models import Classifier, gaussian_derivative_network, retarget
from gdn_keras.training import Classification, Recipe
from gdn_keras.training.fingerprint import image_shape, images_at, sizes_of
from gdn_keras.training.fitting import compile_model, fit_arguments
from gdn_keras.tuning.budget import Budget, Cost, describe, network_cost
from gdn_keras.tuning.requirements import keras_tuner, require
from gdn_keras.tuning.space import Candidate, Space

OBJECTIVE = "mean_accuracy"
# Trained small, used large: five channels around size 1, eight in use.
SEARCH_RECIPE = Recipe(train_scales=tuple(2 ** (i / 2) for i in range(-1, 4)), epochs=4)
# Parts of a recipe that a search has no use for, or that its space takes the place of.
_NOT_SEARCHED = (
    "network",
    "widths",
    "pooling",
    "scale_dropout",
    "readout",
    "surround",
    "order",
    "zero_order",
    "residual",
    "learning_rate",
    "final_learning_rate",
    "precision",
    "distribute",
)
_FINAL_RATE = 1 / 200


class GaussianDerivativeHyperModel(keras_tuner.HyperModel):
    """Gaussian derivative networks for KerasTuner, trained on one size and validated at many.

    It works with any tuner of KerasTuner; `make_tuner` gives one that draws only candidates within
    the budget, where others count each one that is turned away as a failed trial.

    Example:

    >>> small = {"train_sizes": (1,), "train_frame": 56, "count": 2000}
    >>> data = load_dataset("mnist_large_scale", **small)  # doctest: +SKIP
    >>> validation = load_dataset("mnist_large_scale", test_split="validation", **small)
    >>> hypermodel = GaussianDerivativeHyperModel(data, validation)  # doctest: +SKIP
    >>> tuner = make_tuner("random", hypermodel, "runs/small", trials=30)  # doctest: +SKIP
    >>> tuner.search()  # doctest: +SKIP

    Args:
        data: What to train on, and what to test the best network on when the search is over.
        validation: The objective is the mean accuracy over `validation.test_sizes`, on images that
            must not be test images. `data.validation`, at the one size that it has, by default.
        space: What to choose from.
        budget: What a network may cost, with all scale channels and for test images.
        recipe: Scale channels and training.

    Raises:
        ValueError: If an argument is out of range, or no candidate is within the budget.
        ImportError: If TensorBoard is missing, without which KerasTuner fails in every trial.
    """

    def __init__(
        self,
        data: ImageData,
        validation: ImageData | None = None,
        space: Space | None = None,
        budget: Budget | None = None,
        recipe: Recipe = SEARCH_RECIPE,
    ):
        super().__init__()
        if keras.backend.backend() == "tensorflow":
            require("tensorboard", "KerasTuner needs TensorBoard")
        self.data = data
        self.space = space or Space()
        self.budget = budget or Budget()
        self.recipe = _check_recipe(recipe)
        self.image_shape = image_shape(data)
        validation = validation or dataclasses.replace(data, test_sizes=())
        self.validation_sizes = sizes_of(validation)
        self._validation = functools.cache(functools.partial(images_at, validation))
        self.smallest = self._smallest()

    def validation(self, size: float | None) -> LabelledImages:
        """Validation images of one size, made once for all trials."""
        return self._validation(size)

    def cost(self, candidate: Candidate) -> Cost:
        """What a candidate costs, without making the network."""
        return network_cost(candidate, self.recipe, self.image_shape, len(self.data.class_names))

    def _smallest(self) -> Candidate:
        """The narrowest candidate within the budget, fewest parameters first."""
        costs = {c: self.cost(c) for c in self.space.narrowest()}
        allowed = [c for c in costs if self.budget.allows(costs[c])]
        if not allowed:
            parameters = min(cost.parameters for cost in costs.values())
            operations = min(cost.multiply_adds for cost in costs.values())
            received = ", ".join(f"{k}={v}" for k, v in self.budget.as_dict().items())
            raise ValueError(
                "No candidate is within the budget: the smallest possible cost is "
                f"{parameters} parameters, and {operations} multiply-adds an image. "
                f"Received: {received}"
            )
        return min(allowed, key=lambda candidate: costs[candidate])

    def declare_hyperparameters(self, hp: Any) -> None:
        defaults = self.space.values(self.smallest)
        for name, choices in self.space.choices().items():
            if len(choices) == 1:
                hp.Fixed(name, choices[0])
            else:
                hp.Choice(name, list(choices), default=defaults[name])

    def build(self, hp: Any) -> keras.Model:
        """The candidate's network for training images, compiled; an error if over budget."""
        self.declare_hyperparameters(hp)
        candidate = self.space.candidate(hp.values)
        cost = self.cost(candidate)
        if not self.budget.allows(cost):
            raise keras_tuner.errors.FailedTrialError(f"Over budget: {describe(candidate, cost)}")
        recipe = dataclasses.replace(
            self.recipe,
            learning_rate=candidate.learning_rate,
            final_learning_rate=_FINAL_RATE * candidate.learning_rate,
        )
        model = self.network(candidate)
        # A round of Hyperband is a schedule of its own, so that each ends with small steps.
        epochs = hp.values.get("tuner/epochs", recipe.epochs)
        epochs -= hp.values.get("tuner/initial_epoch", 0)
        compile_model(model, Classification(recipe, self.data), epochs)
        return model

    def network(self, candidate: Candidate) -> keras.Model:
        """The candidate's network for training images, with the seed's initial weights."""
        keras.utils.set_random_seed(self.recipe.seed)
        network = gaussian_derivative_network(
            input_shape=self.data.train.images.shape[1:],
            widths=candidate.widths,
            num_classes=len(self.data.class_names),
            scales=self.recipe.training_scales,
            scale_ratio=candidate.scale_ratio,
            pooling=candidate.pooling,
            sampling=self.recipe.sampling,
            cone=self.recipe.cone,
        )
        return Classifier(network, self.data.class_names, self.data.preprocessor)

    def finished(self, model: keras.Model) -> keras.Model:
        """The same weights, for test images and with all scale channels."""
        return retarget(model, self.image_shape, self.recipe.scales)

    def fit(
        self,
        hp: Any,
        model: keras.Model,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        epochs: int | None = None,
        initial_epoch: int = 0,
        verbose: int = 0,
    ) -> dict[str, float]:
        """Trains, and measures the objective with all scale channels.

        Returns:
            The mean accuracy over the validation sizes, and the accuracy at each.
        """
        model.fit(
            **fit_arguments(Classification(self.recipe, self.data), initial_epoch),
            epochs=self.recipe.epochs if epochs is None else epochs,
            callbacks=[keras.callbacks.TerminateOnNaN(raise_error=True), *callbacks],
            verbose=verbose,
        )
        shape = self.validation(self.validation_sizes[0]).images.shape[1:]
        finished = retarget(model, shape, self.recipe.scales)
        accuracies = accuracy_by_size(finished, self.validation, self.validation_sizes)
        by_size = {size_metric(size): accuracy for size, accuracy in accuracies.items()}
        return {OBJECTIVE: float(np.mean(list(accuracies.values()))), **by_size}


def size_metric(size: float | None) -> str:
    """Name of the metric for the accuracy at one size."""
    return "accuracy" if size is None else f"accuracy_at_{size:.3g}"


def _check_recipe(recipe: Recipe) -> Recipe:
    for name in _NOT_SEARCHED:
        if getattr(recipe, name) != getattr(Recipe(), name):
            raise ValueError(
                f"`recipe.{name}` must be left as it is in a search, where the space decides "
                f"or which does not know it. Received: {name}={getattr(recipe, name)!r}"
            )
    return recipe
