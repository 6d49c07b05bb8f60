"""Searches that are small enough for seconds."""

import keras_tuner
import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.training import Recipe
from gdn_keras.tuning import OBJECTIVE, GaussianDerivativeHyperModel, Space

# KerasTuner's own, in every call of an oracle.
IGNORE_THREAD_NAMES = [
    pytest.mark.filterwarnings("ignore:currentThread:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:getName:DeprecationWarning"),
]
TINY = Recipe(scales=(1.0, 2.0), train_scales=(1.0,), epochs=3, batch_size=20)
SMALL = Space(widths=(2, 3, 4), layers=(1, 2), scale_ratio=(1.25, 1.5))


def tiny_data(**options):
    """Digits of size 1 in small frames, tested at sizes 1 and 2."""
    sizes = {"train_sizes": (1,), "test_sizes": (1, 2), "frame": 32, "train_frame": 28}
    return load_dataset("mnist_large_scale", **{**sizes, "count": 60, "test_count": 30, **options})


def hypermodel(space=SMALL, budget=None, recipe=TINY, **options):
    validation = tiny_data(test_split="validation")
    return GaussianDerivativeHyperModel(tiny_data(**options), validation, space, budget, recipe)


def hyperparameters(model, candidate):
    hp = keras_tuner.HyperParameters()
    model.declare_hyperparameters(hp)
    hp.values = model.space.values(candidate)
    return hp


def end(oracle, trial, accuracy):
    oracle.update_trial(trial.trial_id, {OBJECTIVE: accuracy})
    trial.status = "COMPLETED"
    oracle.end_trial(trial)


def drawn(tuner, model, count):
    """Candidates of trials that are drawn one after the other, the wider the better."""
    candidates = []
    for _ in range(count):
        trial = tuner.oracle.create_trial("tuner0")
        if trial.status != "RUNNING":
            break
        candidates.append(model.space.candidate(trial.hyperparameters.values))
        end(tuner.oracle, trial, sum(candidates[-1].widths) / 1000)
    return candidates
