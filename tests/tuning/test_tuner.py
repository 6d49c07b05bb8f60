import numpy as np
import pytest

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.tuning import Space, make_tuner
from tests.tuning.tiny import IGNORE_THREAD_NAMES, hypermodel

pytestmark = IGNORE_THREAD_NAMES


@pytest.mark.slow
def test_weights_of_a_trial_are_those_that_were_measured(tmp_path):
    """A whole search, Hyperband's, with trials that go on from the weights of others."""
    model = hypermodel(Space(widths=(3, 4), layers=1, scale_ratio=(1.25, 1.5)))
    tuner = make_tuner("hyperband", model, tmp_path, 4)
    tuner.search()
    trials = [tuner.oracle.trials[key] for key in tuner.oracle.start_order]
    assert [t.status for t in trials] == ["COMPLETED"] * 4
    promoted = trials[-1].hyperparameters.values
    assert promoted["tuner/initial_epoch"] == 1 and promoted["tuner/epochs"] == 3
    best = max(trials[:3], key=lambda t: t.score)
    assert promoted["tuner/trial_id"] == best.trial_id
    network = model.finished(tuner.best_network(trials[-1]))
    accuracies = accuracy_by_size(network, model.validation, (1.0, 2.0))
    assert np.mean(list(accuracies.values())) == pytest.approx(trials[-1].score)
