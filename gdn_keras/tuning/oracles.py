"""KerasTuner's oracles, which draw candidates, held to a budget."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gdn_keras.checks import check_choice
from gdn_keras.training.run_folder import write_text
from gdn_keras.tuning.hypermodel import OBJECTIVE, GaussianDerivativeHyperModel
from gdn_keras.tuning.requirements import keras_tuner, require

TUNERS = ("random", "hyperband", "bayesian")
_DRAWS = 2000


def check_tuner(tuner: str) -> str:
    """The name of a tuner, for which everything is installed."""
    check_choice("tuner", tuner, TUNERS)
    if tuner == "bayesian":
        require("sklearn", "Bayesian optimisation needs scikit-learn")
    return tuner


def make_oracle(
    tuner: str,
    hypermodel: GaussianDerivativeHyperModel,
    trials: int,
    first: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    watch: Any = None,
) -> keras_tuner.Oracle:
    """An oracle that draws only candidates within the budget.

    Args:
        tuner, hypermodel, trials, seed, watch: See `gdn_keras.tuning.make_tuner`.
        first: Values of the hyperparameters to begin with.
    """
    common = {"hypermodel": hypermodel, "trials": trials, "first": first, "watch": watch}
    common |= {"seed": seed + 1}  # KerasTuner takes 0 for no seed at all
    if tuner == "hyperband":
        # More iterations than there are trials for: `max_trials` ends the search.
        epochs = hypermodel.recipe.epochs
        return _HyperbandOracle(max_epochs=epochs, hyperband_iterations=trials, **common)
    if tuner == "bayesian":
        points = max(len(first) + 3, trials // 3)
        return _BayesianOracle(num_initial_points=points, **common)
    return _RandomOracle(**common)


class _WithinBudget(keras_tuner.Oracle):
    """Mixed into an oracle: baselines first, then candidates within the budget only.

    Its files are written whole or not at all, so that a kill at any moment leaves a search that
    can go on.
    """

    def __init__(
        self,
        hypermodel: GaussianDerivativeHyperModel,
        trials: int,
        first: Sequence[Mapping[str, Any]],
        watch: Any,
        **options: Any,
    ):
        super().__init__(objective=keras_tuner.Objective(OBJECTIVE, "max"), **options)
        self.hypermodel, self.first, self.watch = hypermodel, first, watch
        self.rejected = set()
        self.max_trials = trials
        self.verbose = 0
        if os.environ.get("KERASTUNER_ORACLE_IP"):
            # An error raised in the chief would leave it waiting for ever.
            self.max_consecutive_failed_trials = trials + 1

    def populate_space(self, trial_id: str) -> dict[str, Any]:
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

    def _random_values(self) -> dict[str, Any] | None:
        for _ in range(_DRAWS):
            values = super()._random_values()
            values = values and self._accepted(values)
            if values:
                return values
        # Few candidates are within the budget, if any is left; one is known.
        values = self.hypermodel.space.values(self.hypermodel.smallest)
        return None if self._duplicate(values) else values

    def _accepted(self, values: Mapping[str, Any]) -> dict[str, Any] | None:
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
    def create_trial(self, tuner_id: str) -> Any:
        trial = super().create_trial(tuner_id)
        if self.watch and trial.status == "RUNNING":
            self.watch.begin(trial)
        return trial

    @keras_tuner.synchronized
    def end_trial(self, trial: Any) -> None:
        # What comes back from a worker went through gRPC, with floats of single precision.
        trial.hyperparameters = self.trials[trial.trial_id].hyperparameters
        super().end_trial(trial)
        if self.watch:
            self.watch.end(self.trials[trial.trial_id])

    def save(self) -> None:
        write_text(Path(self._get_oracle_fname()), json.dumps(self.get_state()))

    def _save_trial(self, trial: Any) -> None:
        folder = Path(self._get_trial_dir(trial.trial_id))
        write_text(folder / "trial.json", json.dumps(trial.get_state()))

    def reload(self) -> None:
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
    def set_state(self, state: dict[str, Any]) -> None:
        # Those of a search for fewer trials would end one that goes on with more.
        super().set_state({**state, "hyperband_iterations": self.hyperband_iterations})


class _BayesianOracle(_WithinBudget, keras_tuner.oracles.BayesianOptimizationOracle):
    pass
