"""Channel widths, and what goes with them, searched with KerasTuner within a budget.

A network is tuned for generalisation over scale: the objective is the accuracy averaged over
validation sizes, most of which are not trained on. Costs follow from the widths and the plan of the
scale channels, so that a candidate over budget is turned away before a network is made of it.
"""

from gdn_keras.tuning.budget import Budget, Cost, describe
from gdn_keras.tuning.hypermodel import (
    OBJECTIVE,
    SEARCH_RECIPE,
    GaussianDerivativeHyperModel,
    size_metric,
)
from gdn_keras.tuning.job import BASELINES, Search, SearchJob, prepare_search, role
from gdn_keras.tuning.oracles import TUNERS, check_tuner
from gdn_keras.tuning.pareto import draw_pareto, pareto_front
from gdn_keras.tuning.report import baseline_answers, summarize_search
from gdn_keras.tuning.results import TrialResult
from gdn_keras.tuning.search import run_search
from gdn_keras.tuning.space import Candidate, Space
from gdn_keras.tuning.tuner import last_line, make_tuner, trial_number

__all__ = [
    "BASELINES",
    "OBJECTIVE",
    "SEARCH_RECIPE",
    "TUNERS",
    "Budget",
    "Candidate",
    "Cost",
    "GaussianDerivativeHyperModel",
    "Search",
    "SearchJob",
    "Space",
    "TrialResult",
    "baseline_answers",
    "check_tuner",
    "describe",
    "draw_pareto",
    "last_line",
    "make_tuner",
    "pareto_front",
    "prepare_search",
    "role",
    "run_search",
    "size_metric",
    "summarize_search",
    "trial_number",
]
