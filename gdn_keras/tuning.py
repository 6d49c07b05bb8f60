"""Channel widths, and what goes with them, searched with KerasTuner within a budget.

A network is tuned for generalisation over scale: the objective is the accuracy averaged over
validation sizes, most of which are not trained on. Costs follow from the widths and the plan of the
scale channels, so that a candidate over budget is turned away before a network is made of it.
"""

import dataclasses
import functools
import importlib.util
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from gdn_keras.datasets import steps_per_epoch, training_pipeline
from gdn_keras.experiments.callbacks import StopWhenNotFinite
from gdn_keras.experiments.data import RunData, large_scale_loader, load_data, load_digits
from gdn_keras.experiments.evaluation import accuracy_by_size
from gdn_keras.experiments.run_folder import write_text
from gdn_keras.experiments.settings import Settings
from gdn_keras.experiments.training import (
    CLASSES,
    augmentation,
    compile_network,
    finished_network,
)
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.presets import PRESETS
from gdn_keras.scale_space import DEFAULT_TRUNCATIONS, Geometry, multiply_adds, plan_channels
from gdn_keras.scale_space.validation import check_choice, check_integer, check_positive

_INSTALL = "pip install 'gdn_keras[tune]'"

try:
    import keras_tuner
except ImportError as error:
    raise ImportError(f"Tuning needs KerasTuner: {_INSTALL}") from error

OBJECTIVE = "mean_accuracy"
TUNERS = ("random", "hyperband", "bayesian")
PROJECT = "trials"
BASELINES = ("default", "large")
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
_NOT_SEARCHED = ("network", "widths", "pooling", "learning_rate", "final_learning_rate")
_NOT_SEARCHED += ("images", "precision", "distribute")
_FINAL_RATE = 0.005
_DRAWS = 2000


class Candidate(NamedTuple):
    """A network of the search, and how fast it is to learn."""

    widths: tuple[int, ...]
    scale_ratio: float
    pooling: str
    learning_rate: float


class Cost(NamedTuple):
    """What a network costs.

    Attributes:
        parameters: Trainable ones, as the model has them.
        paper_parameters: As the paper counts them (see `gdn_keras.models.parameter_counts`).
        multiply_adds: For one image, forward, in all scale channels.
    """

    parameters: int
    paper_parameters: int
    multiply_adds: int


@dataclasses.dataclass(frozen=True)
class Budget:
    """The most that a network may cost, see `Cost`; no limit where it is `None`."""

    max_parameters: int | None = None
    max_multiply_adds: int | None = None

    def __post_init__(self):
        for name, limit in self.as_dict().items():
            if limit is not None:
                check_positive(name, limit)

    def allows(self, cost: Cost) -> bool:
        """Whether a network is within the budget."""
        limits = (self.max_parameters, self.max_multiply_adds)
        values = (cost.parameters, cost.multiply_adds)
        return all(m is None or v <= m for m, v in zip(limits, values, strict=True))

    def as_dict(self) -> dict[str, int | None]:
        """The limits by name."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Space:
    """What a search may choose from: for each quantity one value, or several.

    Example, with a last layer that is always 64 wide:

    >>> rungs = (8, 12, 16, 24, 32)
    >>> space = Space(widths=[rungs, rungs, rungs, 64], layers=4, learning_rate=(0.003, 0.01))

    Attributes:
        widths: Feature channels to choose from in every layer before the last; or, to say it layer
            by layer, a sequence that holds at least one sequence, and numbers where they are fixed.
        layers: Number of layers before the last, which has a channel for each class.
        scale_ratio: r, the ratio between the sigmas of successive layers.
        pooling: "max", "average" or "logsumexp", over scale channels.
        learning_rate: Of the first step; the last one has 1/200 of it.
        non_decreasing: Whether no layer may be narrower than the one before it, as in the paper.
    """

    widths: Sequence[int | Sequence[int]] = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
    layers: int | Sequence[int] = (3, 4, 5, 6)
    scale_ratio: float | Sequence[float] = (1.15, 1.25, 1.4)
    pooling: str | Sequence[str] = "max"
    learning_rate: float | Sequence[float] = 0.01
    non_decreasing: bool = True

    def __post_init__(self):
        layers = _choices("layers", self.layers, check_integer)
        ratios = _choices("scale_ratio", self.scale_ratio, check_positive)
        if ratios[0] < 1:
            raise ValueError(f"`scale_ratio` must be >= 1. Received: scale_ratio={ratios[0]!r}")
        checked = {
            "layers": layers,
            "scale_ratio": ratios,
            "pooling": _choices("pooling", self.pooling, _check_pooling),
            "learning_rate": _choices("learning_rate", self.learning_rate, check_positive),
            "widths": self._checked_widths(layers[-1]),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _checked_widths(self, layers: int) -> tuple[tuple[int, ...], ...]:
        """Choices of each layer, without those that leave a later layer none."""
        given = self.widths
        if isinstance(given, Sequence) and any(isinstance(w, Sequence) for w in given):
            if len(given) < layers:
                raise ValueError(
                    f"`widths` must name {layers} layers, or one sequence of numbers for all of "
                    f"them. Received: widths={given!r}"
                )
            choices = [_choices("widths", w, check_integer) for w in given[:layers]]
        else:
            choices = [_choices("widths", given, check_integer)] * layers
        if self.non_decreasing:
            for k in range(layers - 2, -1, -1):
                choices[k] = tuple(w for w in choices[k] if w <= choices[k + 1][-1])
                if not choices[k]:
                    raise ValueError(
                        "`widths` must allow widths that do not decrease, or `non_decreasing` be "
                        f"False. Received: widths={given!r}"
                    )
        return tuple(choices)

    def choices(self) -> dict[str, tuple]:
        """The values of each hyperparameter, by name; width_k is used from k layers on."""
        widths = {f"width_{k}": choices for k, choices in enumerate(self.widths, 1)}
        names = ("scale_ratio", "pooling", "learning_rate")
        return {"layers": self.layers, **widths, **{name: getattr(self, name) for name in names}}

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """The candidate that values of the hyperparameters stand for.

        Where widths must not decrease they are put in order; there are as many as layers.
        """
        drawn = [values[f"width_{k}"] for k in range(1, int(values["layers"]) + 1)]
        widths = []
        for choices, width in zip(
            self.widths, sorted(drawn) if self.non_decreasing else drawn, strict=False
        ):
            widths.append(_nearest(self._at_least(choices, widths), width))
        return Candidate(
            tuple(widths),
            # Over gRPC, floats come with single precision.
            _nearest(self.scale_ratio, values["scale_ratio"]),
            values["pooling"],
            _nearest(self.learning_rate, values["learning_rate"]),
        )

    def values(self, candidate: Candidate) -> dict[str, Any]:
        """Values of the hyperparameters, the same whenever the candidate is."""
        names = [name for name in self.choices() if name.startswith("width_")]
        widths = dict(zip(names, self._continued(candidate.widths, len(names)), strict=True))
        others = {k: v for k, v in candidate._asdict().items() if k != "widths"}
        return {"layers": len(candidate.widths), **widths, **others}

    def narrowest(self) -> Iterator[Candidate]:
        """For each number of layers and each scale ratio, the candidate that costs the least."""
        for layers in self.layers:
            widths = tuple(self._continued((), layers))
            for ratio in self.scale_ratio:
                yield Candidate(widths, ratio, self.pooling[0], self.learning_rate[0])

    def closest_to(self, preset: str) -> Candidate | None:
        """A preset's widths with the closest of the other choices; `None` if they are no choice."""
        widths = tuple(PRESETS[preset]["parameters"]["widths"])
        if len(widths) not in self.layers or not all(
            width in choices for width, choices in zip(widths, self.widths, strict=False)
        ):
            return None
        pooling = "max" if "max" in self.pooling else self.pooling[0]
        rate = _nearest(self.learning_rate, 0.01)
        return Candidate(widths, _nearest(self.scale_ratio, 1.25), pooling, rate)

    def as_dict(self) -> dict[str, Any]:
        """As JSON would give it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def _continued(self, widths: Sequence[int], layers: int) -> list[int]:
        """`widths`, and for the layers that follow the narrowest that there may be."""
        widths = list(widths)
        for choices in self.widths[len(widths) : layers]:
            widths.append(self._at_least(choices, widths)[0])
        return widths

    def _at_least(self, choices: tuple[int, ...], before: Sequence[int]) -> tuple[int, ...]:
        if not self.non_decreasing or not before:
            return choices
        return tuple(width for width in choices if width >= before[-1])


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
        check_tensorboard()
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
        s = self.settings
        pairs, outputs, c_in = 0, 0, 1
        for c_out in (*candidate.widths, CLASSES):
            pairs, outputs, c_in = pairs + c_in * c_out, outputs + c_out, c_out
        layers = len(candidate.widths) + 1
        plan = _plan(layers, candidate.scale_ratio, s.frame, s.scales, s.sampling)
        operations = multiply_adds(plan, (*candidate.widths, CLASSES), 1, (1,) * layers)
        # Five derivatives for each pair of channels, two numbers for each normalised output.
        return Cost(5 * pairs + 2 * outputs, 6 * pairs, operations)

    def _smallest(self) -> Candidate:
        """The narrowest candidate within the budget, fewest parameters first."""
        costs = {c: self.cost(c) for c in self.space.narrowest()}
        allowed = [c for c in costs if self.budget.allows(costs[c])]
        if not allowed:
            least = [min(costs.values(), key=lambda cost: cost[k])[k] for k in (0, 2)]
            received = ", ".join(f"{k}={v}" for k, v in self.budget.as_dict().items())
            raise ValueError(
                "No candidate is within the budget: the smallest possible cost is "
                f"{least[0]} parameters, and {least[1]} multiply-adds an image. "
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


def make_tuner(
    tuner: str,
    hypermodel: GaussianDerivativeHyperModel,
    folder: str | os.PathLike,
    trials: int = 20,
    baselines: Sequence[Candidate] = (),
    seed: int = 0,
    watch: Any = None,
) -> keras_tuner.Tuner:
    """A tuner that draws only candidates within the budget, and goes on where it was killed.

    In several processes, with KerasTuner's environment variables KERASTUNER_TUNER_ID ("chief", or
    a name of its own for each worker), KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT, `search`
    hands out trials in the chief and runs them in the workers. They must share `folder`.

    Args:
        tuner: "random", "hyperband" or "bayesian".
        hypermodel: What to search.
        folder: Trials are in its folder "trials"; those that are there already are kept.
        trials: How many to run, baselines included.
        baselines: Candidates to begin with. Hyperband gives them all epochs at once.
        seed: Of the candidates that are drawn.
        watch: Told of what happens by its methods `begin(trial)`, `end(trial)` and
            `rejected(candidate, cost)`.
    """
    check_tuner(tuner)
    check_integer("trials", trials)
    check_integer("seed", seed, minimum=0)
    first = [hypermodel.space.values(c) for c in baselines]
    objective = keras_tuner.Objective(OBJECTIVE, "max")
    # KerasTuner takes 0 for no seed at all.
    options = {"objective": objective, "seed": seed + 1}
    if tuner == "hyperband":
        # More iterations than there are trials for: `max_trials` ends the search.
        epochs = hypermodel.settings.epochs
        oracle = _HyperbandOracle(max_epochs=epochs, hyperband_iterations=trials, **options)
    elif tuner == "bayesian":
        points = max(len(first) + 3, trials // 3)
        oracle = _BayesianOracle(num_initial_points=points, **options)
    else:
        oracle = _RandomOracle(**options)
    oracle.max_trials = trials
    if os.environ.get("KERASTUNER_ORACLE_IP"):
        # An error raised in the chief would leave it waiting for ever.
        oracle.max_consecutive_failed_trials = trials + 1
    oracle.verbose = 0
    oracle.hypermodel, oracle.first = hypermodel, first
    oracle.watch, oracle.rejected = watch, set()
    return _Tuner(oracle, hypermodel, folder)


class _WithinBudget:
    """Mixed into an oracle: baselines first, then candidates within the budget only.

    Its files are written whole or not at all, so that a kill at any moment leaves a search that
    can go on.
    """

    def populate_space(self, trial_id):
        for values in self.first:
            if not self._duplicate(values):
                return {"status": "RUNNING", "values": dict(values)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gaussian processes complain of too few trials
            response = super().populate_space(trial_id)
        values = response.get("values")
        # Hyperband's own values are drawn by `_random_values`, or were before.
        if values and "tuner/round" not in values:
            values = self._accepted(values) or self._random_values()
            response = {"status": "RUNNING" if values else "STOPPED", "values": values}
        return response

    def _random_values(self):
        for _ in range(_DRAWS):
            values = super()._random_values()
            values = values and self._accepted(values)
            if values:
                return values
        # Few candidates are within the budget, if any is left; one is known.
        values = self.hypermodel.space.values(self.hypermodel.smallest)
        return None if self._duplicate(values) else values

    def _accepted(self, values):
        """The values as `Space.values` has them, or `None` if they were tried or cost too much."""
        model = self.hypermodel
        candidate = model.space.candidate(values)
        values = model.space.values(candidate)
        if self._duplicate(values):
            return None
        cost = model.cost(candidate)
        if model.budget.allows(cost):
            return values
        if self.watch and candidate not in self.rejected:
            self.watch.rejected(candidate, cost)
        self.rejected.add(candidate)
        return None

    @keras_tuner.synchronized
    def create_trial(self, tuner_id):
        trial = super().create_trial(tuner_id)
        if self.watch and trial.status == "RUNNING":
            self.watch.begin(trial)
        return trial

    @keras_tuner.synchronized
    def end_trial(self, trial):
        # What comes back from a worker went through gRPC, with floats of single precision.
        trial.hyperparameters = self.trials[trial.trial_id].hyperparameters
        super().end_trial(trial)
        if self.watch:
            self.watch.end(self.trials[trial.trial_id])

    def save(self):
        write_text(Path(self._get_oracle_fname()), json.dumps(self.get_state()))

    def _save_trial(self, trial):
        folder = Path(self._get_trial_dir(trial.trial_id))
        write_text(folder / "trial.json", json.dumps(trial.get_state()))

    def reload(self):
        super().reload()
        # A kill between two files: trials that the oracle does not know of yet are drawn again,
        self.trials = {key: self.trials[key] for key in self.start_order}
        # those that it does not know to be finished are not run again.
        for key in [k for k in self._retry_queue if self.trials[k].status == "COMPLETED"]:
            self._retry_queue.remove(key)
            self.end_order.append(key)
        for key in self._retry_queue:
            self.trials[key].metrics = type(self.trials[key].metrics)()


class _RandomOracle(_WithinBudget, keras_tuner.oracles.RandomSearchOracle):
    pass


class _HyperbandOracle(_WithinBudget, keras_tuner.oracles.HyperbandOracle):
    pass


class _BayesianOracle(_WithinBudget, keras_tuner.oracles.BayesianOptimizationOracle):
    pass


class _Tuner(keras_tuner.Hyperband):
    """Runs the trials of any oracle; Hyperband's go on from the weights of an earlier one."""

    def __init__(self, oracle, hypermodel, folder):
        # Not Hyperband's own constructor, which makes the oracle.
        keras_tuner.Tuner.__init__(
            self, oracle, hypermodel, directory=os.fspath(folder), project_name=PROJECT
        )

    def _get_tuner_fname(self):
        # One name for a lone process and for a chief, so that each goes on with the other's trials.
        name = self.tuner_id if self._is_worker() else "search"
        return os.path.join(self.project_dir, f"{name}.json")

    def _build_hypermodel(self, hp):
        with warnings.catch_warnings():
            # Of an earlier trial the weights are wanted, not the optimiser.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            return super()._build_hypermodel(hp)

    def reload(self):
        # The tuner itself has no state; its file only says that there is one of the oracle.
        if not self._is_worker():
            self.oracle.reload()

    def on_trial_begin(self, trial):
        if self._is_worker():  # elsewhere the oracle's `watch` knows
            candidate = self.hypermodel.space.candidate(trial.hyperparameters.values)
            text = describe(candidate, self.hypermodel.cost(candidate))
            print(f"trial {trial_number(trial)}: {text}", flush=True)

    def on_trial_end(self, trial):
        if self._is_worker():
            print(f"  {trial.status.lower()} {last_line(trial.message)}", flush=True)
        super().on_trial_end(trial)

    def best_network(self, trial) -> keras.Model:
        """The network of a trial with its trained weights, for training images."""
        hypermodel = self.hypermodel
        model = hypermodel.network(hypermodel.space.candidate(trial.hyperparameters.values))
        file = self._get_checkpoint_fname(trial.trial_id)
        if not os.path.exists(file):
            raise FileNotFoundError(f"{file} is missing. Chief and workers must share one folder.")
        model.load_weights(file)
        return model


def check_tensorboard() -> None:
    """KerasTuner imports TensorBoard in every trial, and counts the trial as failed without it."""
    if keras.backend.backend() == "tensorflow" and not importlib.util.find_spec("tensorboard"):
        raise ImportError(f"KerasTuner needs TensorBoard: {_INSTALL}")


def check_tuner(tuner: str) -> str:
    """The name of a tuner, for which everything is installed."""
    check_choice("tuner", tuner, TUNERS)
    if tuner == "bayesian" and not importlib.util.find_spec("sklearn"):
        raise ImportError(f"Bayesian optimisation needs scikit-learn: {_INSTALL}")
    return tuner


def describe(candidate: Candidate, cost: Cost) -> str:
    """A candidate in one line."""
    return (
        f"{'-'.join(map(str, candidate.widths))}, r {candidate.scale_ratio:g}, "
        f"{candidate.pooling}, rate {candidate.learning_rate:g}: {cost.parameters} parameters, "
        f"{cost.multiply_adds / 1e6:.1f} M multiply-adds"
    )


def trial_number(trial) -> int:
    """From 1 on; KerasTuner numbers them from 0."""
    return int(trial.trial_id) + 1


def last_line(message: str | None) -> str:
    """What a traceback says in the end."""
    return (message or "").strip().rpartition("\n")[-1]


def size_metric(size: float) -> str:
    """Name of the metric for the accuracy at one size."""
    return f"accuracy_at_{size:.3g}"


@functools.lru_cache(maxsize=256)
def _plan(layers, scale_ratio, frame, scales, sampling):
    """The plan of `gaussian_derivative_network`, without the network."""
    geometry = Geometry(
        sigmas=tuple(scale_ratio**k for k in range(layers)),
        margins=(1,) * layers,
        sampling=sampling,
        center=True,
        boundary="symmetric",
        truncation=DEFAULT_TRUNCATIONS[sampling],
        density=1.0,
    )
    return plan_channels((frame, frame), scales, geometry)


def _choices(name: str, value, check) -> tuple:
    """One value or several, checked, in ascending order and without repetitions."""
    several = not isinstance(value, str) and isinstance(value, Sequence | np.ndarray)
    choices = tuple(sorted({check(name, v) for v in (value if several else (value,))}))
    if not choices:
        raise ValueError(f"`{name}` must hold at least one value. Received: {name}={value!r}")
    return choices


def _check_pooling(name: str, value: str) -> str:
    return check_choice(name, value, POOLINGS)


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


def _nearest(choices: Sequence[float], value: float) -> float:
    return min(choices, key=lambda choice: abs(choice - value))
