"""What a search is asked for, checked before its first trial."""

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple

import keras

from gdn_keras.scale_space.validation import check_integer
from gdn_keras.training.run_folder import open_run
from gdn_keras.training.settings import Settings
from gdn_keras.tuning.budget import Budget
from gdn_keras.tuning.hypermodel import (
    SEARCH_SETTINGS,
    VALIDATION_SIZES,
    GaussianDerivativeHyperModel,
)
from gdn_keras.tuning.oracles import check_tuner
from gdn_keras.tuning.space import Candidate, Space

BASELINES = ("default", "large")
_VARIABLES = tuple(f"KERASTUNER_{name}" for name in ("TUNER_ID", "ORACLE_IP", "ORACLE_PORT"))


@dataclasses.dataclass(frozen=True)
class Search:
    """What a search is made of.

    Attributes:
        tuner: "random", "hyperband" or "bayesian".
        trials: How many, the paper's networks included. A finished search goes on with more.
        space, budget, settings, validation_sizes, validation_digits: See
            `gdn_keras.tuning.GaussianDerivativeHyperModel`. `settings.seed` is the seed of the
            candidates too, and `settings.test_sizes` are those that the best network is tested at.
    """

    tuner: str = "random"
    trials: int = 24
    space: Space = dataclasses.field(default_factory=Space)
    budget: Budget = dataclasses.field(default_factory=Budget)
    settings: Settings = SEARCH_SETTINGS
    validation_sizes: tuple[float, ...] = VALIDATION_SIZES
    validation_digits: int | None = None

    def __post_init__(self):
        check_tuner(self.tuner)
        check_integer("trials", self.trials)

    def as_dict(self) -> dict[str, Any]:
        """What must be the same for a search to go on; the number of trials need not be."""
        return {
            "tuner": self.tuner,
            **self.settings.as_dict(),
            **self.space.as_dict(),  # in place of the settings of these names
            **self.budget.as_dict(),
            "validation_sizes": list(self.validation_sizes),
            "validation_digits": self.validation_digits,
        }


class Job(NamedTuple):
    """A search that is ready to start: nothing that a user could get wrong is left to check."""

    search: Search
    folder: Path
    hypermodel: GaussianDerivativeHyperModel
    baselines: dict[str, Candidate]

    def name_of(self, candidate: Candidate) -> str:
        """The name of a baseline, or nothing."""
        return next((name for name, c in self.baselines.items() if c == candidate), "")


def prepare(search: Search, folder: str | os.PathLike) -> Job:
    """Checks everything that a search needs before the first trial.

    Raises:
        ValueError, OSError, ImportError: With one sentence for the user.
    """
    role()
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "A search exports its best network, which needs Keras on TensorFlow. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}"
        )
    hypermodel = GaussianDerivativeHyperModel(
        search.space,
        search.budget,
        search.settings,
        search.validation_sizes,
        search.validation_digits,
    )
    _ = hypermodel.data, hypermodel.validation  # complain now, not in the first trial
    baselines = {}
    for name in BASELINES:
        candidate = search.space.closest_to(name)
        if candidate and search.budget.allows(hypermodel.cost(candidate)):
            baselines[name] = candidate
    return Job(search, open_run(search, folder), hypermodel, baselines)


def role() -> str:
    """ "alone", or "chief" or "worker" where KerasTuner's environment variables are set."""
    given = [name for name in _VARIABLES if os.environ.get(name)]
    if not given or given == [_VARIABLES[0]]:
        return "alone"
    if len(given) < len(_VARIABLES):
        missing = ", ".join(name for name in _VARIABLES if name not in given)
        raise ValueError(f"For a search in several processes, set {missing} too.")
    return "chief" if "chief" in os.environ[_VARIABLES[0]] else "worker"
