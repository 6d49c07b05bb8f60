import json

import pytest

from gdn_keras.tuning import OBJECTIVE, Budget, Candidate, Space, make_tuner
from tests.tuning.tiny import IGNORE_THREAD_NAMES, drawn, end, hypermodel

pytestmark = IGNORE_THREAD_NAMES


class Listener:
    def __init__(self):
        self.turned_away = []

    def begin(self, trial):
        pass

    def end(self, trial):
        pass

    def rejected(self, candidate, cost):
        self.turned_away.append((candidate, cost))


# A Gaussian process takes seconds to say what it would try next, from its fifth trial on.
@pytest.mark.parametrize(("tuner", "trials"), [("random", 12), ("hyperband", 12), ("bayesian", 6)])
def test_only_networks_within_ten_thousand_parameters(tuner, trials, tmp_path):
    space = Space(layers=(2, 3, 4))
    listener, model = Listener(), hypermodel(space, Budget(max_parameters=10_000))
    baseline = Candidate((4, 8, 16), 1.25, "max", 0.01)
    search = make_tuner(tuner, model, tmp_path, trials, [baseline], watch=listener)
    candidates = drawn(search, model, 20)
    assert len(candidates) == trials and candidates[0] == baseline
    assert all(model.cost(c).parameters <= 10_000 for c in candidates)
    assert listener.turned_away
    assert all(cost.parameters > 10_000 for _, cost in listener.turned_away)
    repeated = trials - len(set(candidates))
    assert repeated > 0 if tuner == "hyperband" else repeated == 0  # it promotes the best


def test_seeds_draw_other_candidates_and_equal_ones_the_same(tmp_path):
    model = hypermodel()
    found = [
        drawn(make_tuner("random", model, tmp_path / str(k), 5, seed=seed), model, 5)
        for k, seed in enumerate((0, 0, 1))
    ]
    assert found[0] == found[1] != found[2]


def test_the_search_ends_when_the_budget_leaves_no_more(tmp_path):
    space = Space(widths=(2, 3, 4), layers=1, scale_ratio=1.25)
    limit = hypermodel(space).cost(Candidate((3,), 1.25, "max", 0.01)).parameters
    model = hypermodel(space, Budget(max_parameters=limit))
    candidates = drawn(make_tuner("random", model, tmp_path, 9), model, 9)
    assert sorted(c.widths for c in candidates) == [(2,), (3,)]


def test_an_unknown_tuner():
    with pytest.raises(ValueError, match="tuner='grid'"):
        make_tuner("grid", hypermodel(), "nowhere")


@pytest.mark.parametrize("tuner", ["random", "hyperband"])
def test_a_finished_search_goes_on_with_more_trials(tuner, tmp_path):
    model = hypermodel(Space())
    first = make_tuner(tuner, model, tmp_path, 1)
    assert len(drawn(first, model, 1)) == 1
    first.save()
    assert len(drawn(make_tuner(tuner, model, tmp_path, 16), model, 16)) == 15


def test_a_kill_between_two_files_loses_and_repeats_nothing(tmp_path):
    model = hypermodel()
    first = make_tuner("random", model, tmp_path, 6)
    done = drawn(first, model, 1)
    oracle, state = first.oracle, tmp_path / "trials" / "oracle.json"
    first.save()

    running = oracle.create_trial("tuner0")
    known = state.read_text()
    end(oracle, running, 0.5)
    state.write_text(known)  # the trial's own file says that it is finished
    again = make_tuner("random", model, tmp_path, 6).oracle
    assert again.end_order == ["0", "1"] and not again._retry_queue
    following = again.create_trial("tuner0")
    assert following.trial_id == "2"

    state.write_text(known)  # nor does the oracle know of trial 2
    once_more = make_tuner("random", model, tmp_path, 6).oracle
    assert list(once_more.trials) == ["0", "1"]
    repeated = once_more.create_trial("tuner0")
    assert repeated.hyperparameters.values == following.hyperparameters.values
    assert done[0] != model.space.candidate(repeated.hyperparameters.values)


def test_a_trial_that_was_running_is_run_again(tmp_path):
    model = hypermodel()
    first = make_tuner("random", model, tmp_path, 6)
    drawn(first, model, 1)
    first.save()
    running = first.oracle.create_trial("tuner0")
    first.oracle.update_trial(running.trial_id, {OBJECTIVE: 0.9})  # killed before its end
    again = make_tuner("random", model, tmp_path, 6).oracle
    repeated = again.create_trial("tuner0")
    assert repeated.trial_id == running.trial_id and not repeated.metrics.exists(OBJECTIVE)
    assert repeated.hyperparameters.values == running.hyperparameters.values
    end(again, repeated, 0.4)
    saved = json.loads((tmp_path / "trials" / "trial_1" / "trial.json").read_text())
    assert saved["score"] == 0.4 and saved["status"] == "COMPLETED"
    with pytest.raises(FileNotFoundError, match="must share one folder"):
        first.best_network(repeated)  # nothing was trained here
