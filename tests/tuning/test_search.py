import keras
import numpy as np
import pytest

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.presets import PRESETS
from gdn_keras.tuning import OBJECTIVE, make_tuner, run_search

pytestmark = [
    # KerasTuner's own, in every call of an oracle.
    pytest.mark.filterwarnings("ignore:currentThread:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:getName:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def small_presets(monkeypatch):
    for name, widths in (("default", (2, 3)), ("large", (4, 4))):
        monkeypatch.setitem(PRESETS, name, {"parameters": {"widths": widths}})


def drawn(tuner, count):
    """Candidates that are drawn one after the other, the wider the better."""
    candidates = []
    for _ in range(count):
        trial = tuner.oracle.create_trial("tuner0")
        if trial.status != "RUNNING":
            break
        candidates.append(tuner.hypermodel.candidate(trial.hyperparameters))
        tuner.oracle.update_trial(trial.trial_id, {OBJECTIVE: sum(candidates[-1].widths) / 1000})
        trial.status = "COMPLETED"
        tuner.oracle.end_trial(trial)
    tuner.save()
    return candidates


@pytest.mark.parametrize("tuner", ["random", "hyperband", "bayesian"])
def test_searches_have_as_many_trials_as_asked_for_and_continue_with_more(
    tuner, hypermodel, tmp_path
):
    model = hypermodel()
    assert len(drawn(make_tuner(tuner, model, tmp_path, 2), 9)) == 2
    assert len(drawn(make_tuner(tuner, model, tmp_path, 5), 9)) == 3


def test_a_seed_determines_the_draws(hypermodel, tmp_path):
    found = [drawn(make_tuner("random", hypermodel(), tmp_path / name, 5), 5) for name in "ab"]
    assert found[0] == found[1]


def test_a_trial_that_was_running_is_run_again(hypermodel, tmp_path):
    first = make_tuner("random", hypermodel(), tmp_path, 4)
    drawn(first, 1)
    running = first.oracle.create_trial("tuner0")
    repeated = make_tuner("random", hypermodel(), tmp_path, 4).oracle.create_trial("tuner0")
    assert repeated.trial_id == running.trial_id
    assert repeated.hyperparameters.values == running.hyperparameters.values


def test_mistakes_are_named(hypermodel, tmp_path, monkeypatch):
    for name, arguments in {"tuner": ("grid", 3), "trials": ("random", 0)}.items():
        with pytest.raises(ValueError, match=name):
            make_tuner(arguments[0], hypermodel(), tmp_path, arguments[1])
    drawn(make_tuner("random", hypermodel(), tmp_path, 3), 1)
    with pytest.raises(ValueError, match="max_parameters"):
        make_tuner("random", hypermodel(max_parameters=400), tmp_path, 3)
    (tmp_path / "trials" / "oracle.json").write_text("{")
    with pytest.raises(ValueError, match="cannot read"):
        make_tuner("random", hypermodel(), tmp_path, 3)
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    with pytest.raises(ValueError, match="KERASTUNER_ORACLE_PORT"):
        make_tuner("random", hypermodel(), tmp_path, 3)


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
@pytest.mark.usefixtures("eager")
def test_the_best_network_is_kept_as_it_was_measured(hypermodel, tmp_path):
    """With Hyperband, whose trials continue from the weights of others."""
    model = hypermodel(layers=(1,))
    tuner = make_tuner("hyperband", model, tmp_path, 4)
    rows = run_search(tuner)
    assert sorted(row["epochs"] for row in rows) == [1, 1, 1, 3, 3, 3]  # two of them presets
    trials = list(tuner.oracle.trials.values())
    promoted = trials[-1].hyperparameters.values
    best = max(trials[:3], key=lambda t: t.score)
    assert promoted["tuner/initial_epoch"] == 1 and promoted["tuner/trial_id"] == best.trial_id
    network = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    accuracies = accuracy_by_size(network, model.validation, (1.0, 2.0))
    assert np.mean(list(accuracies.values())) == pytest.approx(rows[0][OBJECTIVE])
