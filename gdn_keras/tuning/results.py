"""The trials of a search as plain data."""

from collections.abc import Iterable
from typing import NamedTuple

from gdn_keras.tuning.budget import Cost
from gdn_keras.tuning.hypermodel import OBJECTIVE, size_metric
from gdn_keras.tuning.job import SearchJob
from gdn_keras.tuning.space import Candidate


class TrialResult(NamedTuple):
    """A finished trial; `name` is that of a preset, or empty."""

    trial_id: str
    name: str
    candidate: Candidate
    cost: Cost
    epochs: int
    accuracy: float
    by_size: dict[float, float]


def trial_results(job: SearchJob, trials: Iterable) -> list[TrialResult]:
    """The completed trials, best first; of equally good ones, the cheapest."""
    results = []
    for trial in trials:
        if trial.status != "COMPLETED":
            continue
        values = trial.hyperparameters.values
        candidate = job.hypermodel.space.candidate(values)
        by_size = {
            size: trial.metrics.get_best_value(size_metric(size))
            for size in job.hypermodel.validation_sizes
        }
        results.append(
            TrialResult(
                trial.trial_id,
                job.name_of(candidate),
                candidate,
                job.hypermodel.cost(candidate),
                int(values.get("tuner/epochs", job.search.recipe.epochs)),
                trial.metrics.get_best_value(OBJECTIVE),
                by_size,
            )
        )
    return sorted(results, key=lambda r: (-r.accuracy, r.cost))
