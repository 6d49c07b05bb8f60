"""Channel widths, and what goes with them, searched with KerasTuner within a budget."""

from gdn_keras.tuning.hypermodel import OBJECTIVE, SEARCH_RECIPE, GaussianDerivativeHyperModel
from gdn_keras.tuning.search import (
    TUNERS,
    draw_pareto,
    make_tuner,
    pareto_front,
    run_search,
    summarize_trials,
)

__all__ = [
    "OBJECTIVE", "SEARCH_RECIPE", "TUNERS", "GaussianDerivativeHyperModel", "draw_pareto",
    "make_tuner", "pareto_front", "run_search", "summarize_trials",
]  # fmt: skip
