"""Networks for KerasTuner, tuned for generalisation over scale.

The objective is the accuracy averaged over validation sizes, most of which are not trained on.
"""

import dataclasses
import functools
from collections.abc import Sequence

import keras
import numpy as np

from gdn_keras.analysis.evaluation import accuracy_by_size
from gdn_keras.datasets import steps_per_epoch, training_pipeline
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.training.callbacks import StopWhenNotFinite
from gdn_keras.training.data import RunData, large_scale_loader, load_data, load_digits
from gdn_keras.training.fitting import (
    CLASSES,
    augmentation,
    compile_network,
    finished_network,
)
from gdn_keras.training.settings import Settings
from gdn_keras.tuning.budget import Budget, Cost, describe, network_cost
from gdn_keras.tuning.requirements import keras_tuner, require
from gdn_keras.tuning.space import Candidate, Space

OBJECTIVE = "mean_accuracy"
# The sizes a search validates at: from half the training size of `SEARCH_SETTINGS` to four times.
VALIDATION_SIZES = tuple(2.0 ** (k / 2) for k in range(-2, 5))
# Trained small, used large: five channels around size 1 in small frames, eight in large ones.
SEARCH_SETTINGS = Settings(
    train_sizes=(1.0,),
    train_frame=56,
    train_scales=tuple(2 ** (i / 2) for i in range(-1, 4)),
    digits=2000,
    epochs=4,
    augment=False,
)
# Settings that a search has no use for, or that its space takes the place of.
_NOT_SEARCHED = (
    "network",
    "widths",
    "pooling",
    "learning_rate",
    "final_learning_rate",
    "images",
    "precision",
    "distribute",
)
_FINAL_RATE = 1 / 200


class GaussianDerivativeHyperModel(keras_tuner.HyperModel):
    """Gaussian derivative networks for KerasTuner, trained on one size and validated at many.

    It works with any tuner of KerasTuner; `make_tuner` gives one that draws only candidates within
    the budget, where others count each one that is turned away as a failed trial.

    Example:

    >>> hypermodel = GaussianDerivativeHyperModel(budget=Budget(max_parameters=10_000))
    >>> tuner = make_tuner("random", hypermodel, "runs/small", trials=30)  # doctest: +SKIP
    >>> tuner.search()  # doctest: +SKIP

    Args:
        space: What to choose from.
        budget: What a network may cost, with all scale channels and frames of `settings.frame`.
        settings: Data, scale channels and training; the default takes half a minute a network.
        validation_sizes: Sizes that the objective is the mean accuracy of.
        validation_digits: Validation digits for each size; all that there are if `None`.

    Raises:
        ValueError: If an argument is out of range, or no candidate is within the budget.
        ImportError: If TensorBoard is missing, without which KerasTuner fails in every trial.
    """

    def __init__(
        self,
        space: Space | None = None,
        budget: Budget | None = None,
        settings: Settings = SEARCH_SETTINGS,
        validation_sizes: Sequence[float] = VALIDATION_SIZES,
        validation_digits: int | None = None,
    ):
        super().__init__()
        if keras.backend.backend() == "tensorflow":
            require("tensorboard", "KerasTuner needs TensorBoard")
        self.space = space or Space()
        self.budget = budget or Budget()
        self.settings = _check_settings(settings)
        # The checks of sizes and counts are those of test images.
        checked = dataclasses.replace(
            settings, test_sizes=validation_sizes, test_digits=validation_digits
        )
        self.validation_sizes = checked.test_sizes
        self.validation_digits = validation_digits
        self.smallest = self._smallest()

    def cost(self, candidate: Candidate) -> Cost:
        """What a candidate costs, without making the network."""
        return network_cost(candidate, self.settings)

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
        return min(allowed, key=costs.get)

    def declare_hyperparameters(self, hp):
        defaults = self.space.values(self.smallest)
        for name, choices in self.space.choices().items():
            if len(choices) == 1:
                hp.Fixed(name, choices[0])
            else:
                hp.Choice(name, list(choices), default=defaults[name])

    def build(self, hp) -> keras.Model:
        """The candidate's network for training images, compiled; an error if over budget."""
        self.declare_hyperparameters(hp)
        candidate = self.space.candidate(hp.values)
        cost = self.cost(candidate)
        if not self.budget.allows(cost):
            raise keras_tuner.errors.FailedTrialError(f"Over budget: {describe(candidate, cost)}")
        settings = dataclasses.replace(
            self.settings,
            learning_rate=candidate.learning_rate,
            final_learning_rate=_FINAL_RATE * candidate.learning_rate,
        )
        model = self.network(candidate)
        # A round of Hyperband is a schedule of its own, so that each ends with small steps.
        epochs = hp.values.get("tuner/epochs", settings.epochs)
        epochs -= hp.values.get("tuner/initial_epoch", 0)
        steps = steps_per_epoch(len(self.data.train.labels), settings.batch_size)
        compile_network(model, settings, steps * epochs)
        return model

    def network(self, candidate: Candidate) -> keras.Model:
        """The candidate's network for training images, with the seed's initial weights."""
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        return gaussian_derivative_network(
            input_shape=(settings.training_frame, settings.training_frame, 1),
            widths=candidate.widths,
            classes=CLASSES,
            scales=settings.training_scales,
            scale_ratio=candidate.scale_ratio,
            pooling=candidate.pooling,
            sampling=settings.sampling,
        )

    def fit(
        self, hp, model: keras.Model, callbacks=(), epochs=None, initial_epoch=0, verbose=0
    ) -> dict[str, float]:
        """Trains, and measures the objective with all scale channels.

        Returns:
            The mean accuracy over the validation sizes, and the accuracy at each.
        """
        settings, train = self.settings, self.data.train
        model.fit(
            training_pipeline(
                *train,
                batch_size=settings.batch_size,
                num_classes=CLASSES,
                seed=settings.seed,
                initial_epoch=initial_epoch,
                augment=augmentation(settings),
            ),
            steps_per_epoch=steps_per_epoch(len(train.labels), settings.batch_size),
            initial_epoch=initial_epoch,
            epochs=settings.epochs if epochs is None else epochs,
            callbacks=[StopWhenNotFinite(), *callbacks],
            shuffle=False,
            verbose=verbose,
        )
        finished = finished_network(model, settings)
        accuracies = accuracy_by_size(finished, self.validation, self.validation_sizes)
        by_size = {size_metric(size): accuracy for size, accuracy in accuracies.items()}
        return {OBJECTIVE: float(np.mean(list(accuracies.values()))), **by_size}

    @functools.cached_property
    def data(self) -> RunData:
        """Training images, and test images for when the search is over."""
        return load_data(self.settings)

    @functools.cached_property
    def validation(self):
        """Function from a size to validation images, made once for all trials."""
        digits = load_digits(self.settings)
        load = large_scale_loader(digits, self.validation_digits, self.settings.frame, "validation")
        return functools.lru_cache(maxsize=None)(load)


def size_metric(size: float) -> str:
    """Name of the metric for the accuracy at one size."""
    return f"accuracy_at_{size:.3g}"


def _check_settings(settings: Settings) -> Settings:
    for name in _NOT_SEARCHED:
        if getattr(settings, name) != getattr(Settings(), name):
            raise ValueError(
                f"`settings.{name}` must be left as it is in a search, where the space decides "
                f"or which does not know it. Received: {name}={getattr(settings, name)!r}"
            )
    if settings.data == "official":
        raise ValueError(
            "`settings.data` must be one that validation images of any size can be made from, "
            "'embedded', 'mnist' or 'tfds'. Received: data='official'"
        )
    return settings
