"""KerasTuner's tuner, which runs trials, for any oracle of `gdn_keras.tuning.oracles`."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

import keras

from gdn_keras.checks import check_integer
from gdn_keras.reporting import Reporter
from gdn_keras.tuning.budget import describe
from gdn_keras.tuning.hypermodel import GaussianDerivativeHyperModel
from gdn_keras.tuning.job import role
from gdn_keras.tuning.oracles import check_tuner, make_oracle
from gdn_keras.tuning.requirements import keras_tuner
from gdn_keras.tuning.space import Candidate

PROJECT = "trials"


def make_tuner(
    tuner: str,
    hypermodel: GaussianDerivativeHyperModel,
    folder: str | os.PathLike,
    trials: int = 20,
    baselines: Sequence[Candidate] = (),
    seed: int = 0,
    watch: Any = None,
    reporter: Reporter | None = None,
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
        reporter: What a worker speaks through; to standard output by default.
    """
    check_tuner(tuner)
    check_integer("trials", trials)
    check_integer("seed", seed, minimum=0)
    first = [hypermodel.space.values(c) for c in baselines]
    oracle = make_oracle(tuner, hypermodel, trials, first, seed, watch)
    return _Tuner(oracle, hypermodel, folder, reporter or Reporter())


class _Tuner(keras_tuner.Hyperband):
    """Runs the trials of any oracle; Hyperband's go on from the weights of an earlier one."""

    def __init__(
        self,
        oracle: keras_tuner.Oracle,
        hypermodel: GaussianDerivativeHyperModel,
        folder: str | os.PathLike,
        reporter: Reporter,
    ):
        self.reporter = reporter
        # Not Hyperband's own constructor, which makes the oracle.
        keras_tuner.Tuner.__init__(
            self, oracle, hypermodel, directory=os.fspath(folder), project_name=PROJECT
        )

    def _get_tuner_fname(self) -> str:
        # One name for a lone process and for a chief, so that each goes on with the other's trials.
        name = self.tuner_id if role() == "worker" else "search"
        return os.path.join(self.project_dir, f"{name}.json")

    def _build_hypermodel(self, hp: Any) -> keras.Model:
        with warnings.catch_warnings():
            # Of an earlier trial the weights are wanted, not the optimiser.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            return super()._build_hypermodel(hp)

    def reload(self) -> None:
        # The tuner itself has no state; its file only says that there is one of the oracle.
        if role() != "worker":
            self.oracle.reload()

    def on_trial_begin(self, trial: Any) -> None:
        if role() == "worker":  # elsewhere the oracle's `watch` knows
            candidate = self.hypermodel.space.candidate(trial.hyperparameters.values)
            text = describe(candidate, self.hypermodel.cost(candidate))
            self.reporter.line(f"trial {trial_number(trial)}: {text}")

    def on_trial_end(self, trial: Any) -> None:
        if role() == "worker":
            self.reporter.line(f"  {trial.status.lower()} {last_line(trial.message)}")
        super().on_trial_end(trial)

    def best_network(self, trial: Any) -> keras.Model:
        """The network of a trial with its trained weights, for training images."""
        hypermodel = self.hypermodel
        model = hypermodel.network(hypermodel.space.candidate(trial.hyperparameters.values))
        file = self._get_checkpoint_fname(trial.trial_id)
        if not os.path.exists(file):
            raise FileNotFoundError(f"{file} is missing. Chief and workers must share one folder.")
        model.load_weights(file)
        return model


def trial_number(trial: Any) -> int:
    """From 1 on; KerasTuner numbers them from 0."""
    return int(trial.trial_id) + 1


def last_line(message: str | None) -> str:
    """What a traceback says in the end."""
    return (message or "").strip().rpartition("\n")[-1]
