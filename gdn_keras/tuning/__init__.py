"""Channel widths, and what goes with them, searched with KerasTuner within a budget.

A network is tuned for generalisation over scale: the objective is the accuracy averaged over
validation sizes, most of which are not trained on. Costs follow from the widths and the plan of the
scale channels, so that a candidate over budget is turned away before a network is made of it.
"""

from gdn_keras.tuning.budget import Budget, Cost, describe
from gdn_keras.tuning.hypermodel import (
    OBJECTIVE,
    SEARCH_SETTINGS,
    VALIDATION_SIZES,
    GaussianDerivativeHyperModel,
    size_metric,
)
from gdn_keras.tuning.job import BASELINES, Job, Search, prepare, role
from gdn_keras.tuning.oracles import TUNERS, check_tuner
from gdn_keras.tuning.report import baseline_answers, summary
from gdn_keras.tuning.results import TrialResult
from gdn_keras.tuning.search import run
from gdn_keras.tuning.space import Candidate, Space
from gdn_keras.tuning.tuner import last_line, make_tuner, trial_number

__all__ = [
    "BASELINES",
    "OBJECTIVE",
    "SEARCH_SETTINGS",
    "TUNERS",
    "VALIDATION_SIZES",
    "Budget",
    "Candidate",
    "Cost",
    "GaussianDerivativeHyperModel",
    "Job",
    "Search",
    "Space",
    "TrialResult",
    "baseline_answers",
    "check_tuner",
    "describe",
    "last_line",
    "make_tuner",
    "prepare",
    "role",
    "run",
    "size_metric",
    "summary",
    "trial_number",
]
