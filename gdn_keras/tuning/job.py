"""What a search is asked for, checked before its first trial."""

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple

import keras

from gdn_keras.checks import check_integer
from gdn_keras.datasets import ImageData
from gdn_keras.reporting import Reporter
from gdn_keras.training import Recipe
from gdn_keras.training.fingerprint import describe_data
from gdn_keras.training.run_folder import open_run
from gdn_keras.tuning.budget import Budget
from gdn_keras.tuning.hypermodel import SEARCH_RECIPE, GaussianDerivativeHyperModel
from gdn_keras.tuning.oracles import check_tuner
from gdn_keras.tuning.space import Candidate, Space

BASELINES = ("default", "large")
_VARIABLES = tuple(f"KERASTUNER_{name}" for name in ("TUNER_ID", "ORACLE_IP", "ORACLE_PORT"))


@dataclasses.dataclass(frozen=True)
class Search:
    """What a search is made of, besides the data.

    Attributes:
        tuner: "random", "hyperband" or "bayesian".
        trials: How many, the paper's networks included. A finished search goes on with more.
        space, budget, recipe: See `gdn_keras.tuning.GaussianDerivativeHyperModel`. `recipe.seed`
            is the seed of the candidates too.
    """

    tuner: str = "random"
    trials: int = 24
    space: Space = dataclasses.field(default_factory=Space)
    budget: Budget = dataclasses.field(default_factory=Budget)
    recipe: Recipe = SEARCH_RECIPE

    def __post_init__(self) -> None:
        check_tuner(self.tuner)
        check_integer("trials", self.trials)

    def as_dict(self) -> dict[str, Any]:
        """What must be the same for a search to go on; the number of trials need not be."""
        return {
            "tuner": self.tuner,
            **self.recipe.as_dict(),
            **self.space.as_dict(),  # in place of the recipe's values of these names
            **self.budget.as_dict(),
        }


class SearchJob(NamedTuple):
    """A search that is ready to start: nothing that a user could get wrong is left to check."""

    search: Search
    folder: Path
    hypermodel: GaussianDerivativeHyperModel
    baselines: dict[str, Candidate]
    reporter: Reporter

    @property
    def settings(self) -> dict[str, Any]:
        """All that the result depends on."""
        sizes = list(self.hypermodel.validation_sizes)
        images = len(self.hypermodel.validation(sizes[0]).labels)
        data = describe_data(self.hypermodel.data)
        held_out = {"validation_sizes": sizes, "validation_images": images}
        return {**self.search.as_dict(), **data, **held_out}

    def name_of(self, candidate: Candidate) -> str:
        """The name of a baseline, or nothing."""
        return next((name for name, c in self.baselines.items() if c == candidate), "")


def prepare_search(
    search: Search,
    data: ImageData,
    folder: str | os.PathLike,
    validation: ImageData | None = None,
    reporter: Reporter | None = None,
) -> SearchJob:
    """Checks everything that a search needs before the first trial.

    Args:
        search: What to search, and how.
        data, validation: See `gdn_keras.tuning.GaussianDerivativeHyperModel`.
        folder: Where everything goes. A search of equal settings there goes on.
        reporter: What the search speaks through; to standard output by default.

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
        data, validation, search.space, search.budget, search.recipe
    )
    baselines = {}
    for name in BASELINES:
        candidate = search.space.closest_to(name)
        if candidate and search.budget.allows(hypermodel.cost(candidate)):
            baselines[name] = candidate
    job = SearchJob(search, Path(folder), hypermodel, baselines, reporter or Reporter())
    return job._replace(folder=open_run(job.settings, folder))


def role() -> str:
    """ "alone", or "chief" or "worker" where KerasTuner's environment variables are set."""
    given = [name for name in _VARIABLES if os.environ.get(name)]
    if not given or given == [_VARIABLES[0]]:
        return "alone"
    if len(given) < len(_VARIABLES):
        missing = ", ".join(name for name in _VARIABLES if name not in given)
        raise ValueError(f"For a search in several processes, set {missing} too.")
    return "chief" if "chief" in os.environ[_VARIABLES[0]] else "worker"
