import dataclasses
import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import grpc
import keras_tuner
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.experiments import (
    Settings,
    TrainingStopped,
    accuracy_by_size,
    large_scale_loader,
)
from gdn_keras.experiments.pareto import draw_pareto, pareto_front
from gdn_keras.experiments.training import finished_network
from gdn_keras.models import gaussian_derivative_network, parameter_counts, scale_channels_of
from gdn_keras.scale_space import multiply_adds
from gdn_keras.search import Search, _search
from gdn_keras.tuning import (
    OBJECTIVE,
    Budget,
    Candidate,
    GaussianDerivativeHyperModel,
    Space,
    make_tuner,
)

pytestmark = [
    # KerasTuner's own, in every call of an oracle.
    pytest.mark.filterwarnings("ignore:currentThread:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:getName:DeprecationWarning"),
]

TINY = Settings(
    scales=(1.0, 2.0),
    train_scales=(1.0,),
    train_sizes=(1.0,),
    frame=32,
    train_frame=28,
    digits=60,
    test_digits=20,
    augment=False,
    epochs=3,
    batch_size=20,
)
SMALL = Space(widths=(2, 3, 4), layers=(1, 2), scale_ratio=(1.25, 1.5))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDN_KERAS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def hypermodel(space=SMALL, budget=None, **options):
    options = {"settings": TINY, "validation_sizes": (1.0, 2.0), "validation_digits": 30} | options
    return GaussianDerivativeHyperModel(space, budget, **options)


def hyperparameters(model, candidate):
    hp = keras_tuner.HyperParameters()
    model.declare_hyperparameters(hp)
    hp.values = model.space.values(candidate)
    return hp


class Listener:
    def __init__(self):
        self.turned_away = []

    def begin(self, trial):
        pass

    def end(self, trial):
        pass

    def rejected(self, candidate, cost):
        self.turned_away.append((candidate, cost))


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


# What a network costs


@pytest.mark.parametrize(
    ("widths", "ratio", "sampling"),
    [((12, 16, 24, 32, 64), 1.25, "matched"), ((3, 5), 1.4, "matched"), ((2,), 1.0, "dense")],
)
def test_costs_are_those_of_the_network(widths, ratio, sampling):
    settings = dataclasses.replace(TINY, frame=57, scales=(0.8, 1.7, 4.0), sampling=sampling)
    candidate = Candidate(widths, ratio, "max", 0.01)
    cost = hypermodel(settings=settings).cost(candidate)
    model = gaussian_derivative_network(
        (57, 57, 1), widths, 10, settings.scales, ratio, sampling=sampling
    )
    counts, channels = parameter_counts(model), scale_channels_of(model)
    assert (cost.parameters, cost.paper_parameters) == (counts["trainable"], counts["paper"])
    plan = channels.plan((57, 57))
    assert cost.multiply_adds == multiply_adds(plan, (*widths, 10), 1, channels.geometry.margins)


def test_the_papers_networks_by_default():
    model = GaussianDerivativeHyperModel()
    costs = [model.cost(model.space.closest_to(name)) for name in ("default", "large")]
    assert [cost.paper_parameters for cost in costs] == [24264, 38496]


# The space


@given(st.data())
def test_any_values_give_one_candidate_of_the_space(data):
    ordered = data.draw(st.booleans())
    space = Space(
        widths=[(4, 8), (2, 6, 12), 12, (3, 40)], layers=(2, 3, 4), non_decreasing=ordered
    )
    values = {name: data.draw(st.sampled_from(c)) for name, c in space.choices().items()}
    candidate = space.candidate(values)
    assert len(candidate.widths) == values["layers"]
    assert all(w in c for w, c in zip(candidate.widths, space.widths, strict=False))
    if ordered:
        assert list(candidate.widths) == sorted(candidate.widths)
    else:
        assert candidate.widths == tuple(values[f"width_{k + 1}"] for k in range(values["layers"]))
    canonical = space.values(candidate)
    assert canonical.keys() == values.keys() and space.candidate(canonical) == candidate
    assert all(canonical[name] in choices for name, choices in space.choices().items())


def test_values_survive_single_precision():
    space = Space(scale_ratio=(1.15, 1.25), learning_rate=(0.003, 0.01))
    candidate = Candidate((4, 8, 16), 1.15, "max", 0.003)
    values = {
        k: float(np.float32(v)) if isinstance(v, float) else v
        for k, v in space.values(candidate).items()
    }
    assert space.candidate(values) == candidate


def test_widths_that_leave_later_layers_none_are_left_out():
    assert Space(widths=[(4, 64), (8, 16)], layers=2).widths == ((4,), (8, 16))
    assert Space(widths=[(4, 64), 16], layers=2, non_decreasing=False).widths == ((4, 64), (16,))


def test_everything_can_be_fixed():
    space = Space([[4], [6]], layers=2, scale_ratio=1.3, pooling="average", learning_rate=0.02)
    hp = keras_tuner.HyperParameters()
    model = hypermodel(space).build(hp)
    assert all(isinstance(p, keras_tuner.engine.hyperparameters.Fixed) for p in hp.space)
    jets = [x for x in scale_channels_of(model).network.layers if hasattr(x, "compose_kernel")]
    assert [(jet.filters, round(jet.sigma, 6)) for jet in jets] == [(4, 1), (6, 1.3), (10, 1.69)]
    assert model.get_layer("scale_pooling").pooling == "average"
    assert float(model.optimizer.learning_rate) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": ()}, "`widths` must hold at least one value"),
        ({"widths": range(64, 4)}, "widths=range(64, 4)"),
        ({"widths": [(4, 8), ()], "layers": 2}, "`widths` must hold at least one value"),
        ({"widths": [(4, 8), 8], "layers": (2, 3)}, "must name 3 layers"),
        ({"widths": [64, (8, 16)], "layers": 2}, "do not decrease"),
        ({"widths": (0, 4)}, "widths=0"),
        ({"layers": []}, "`layers` must hold at least one value"),
        ({"layers": 0}, "layers=0"),
        ({"scale_ratio": (0.9, 1.2)}, "scale_ratio=0.9"),
        ({"scale_ratio": ()}, "`scale_ratio` must hold at least one value"),
        ({"pooling": "mean"}, "pooling='mean'"),
        ({"learning_rate": (0.01, -1)}, "learning_rate=-1"),
    ],
)
def test_mistakes_in_the_space(arguments, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        Space(**arguments)


def test_mistakes_in_the_rest():
    with pytest.raises(ValueError, match="max_parameters=0"):
        Budget(max_parameters=0)
    with pytest.raises(ValueError, match="test_sizes"):
        hypermodel(validation_sizes=())
    with pytest.raises(ValueError, match=r"`settings\.distribute` must be left"):
        hypermodel(settings=dataclasses.replace(TINY, distribute=True))
    official = Settings(data="official", data_dir="nowhere")
    with pytest.raises(ValueError, match="data='official'"):
        hypermodel(settings=official)
    with pytest.raises(ValueError, match="tuner='grid'"):
        make_tuner("grid", hypermodel(), "nowhere")


# The budget


def test_a_budget_that_nothing_meets_is_refused_with_the_least_cost():
    costs = [hypermodel().cost(Candidate((2,), r, "max", 0.01)) for r in (1.25, 1.5)]
    parameters, operations = costs[0].parameters, min(c.multiply_adds for c in costs)
    for budget in (Budget(parameters - 1), Budget(None, operations - 1)):
        with pytest.raises(ValueError, match=f"{parameters} parameters, and {operations} mult"):
            hypermodel(budget=budget)
    assert hypermodel(budget=Budget(parameters, operations)).smallest.widths == (2,)


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


def test_other_tuners_see_a_failed_trial_before_a_network_is_made(monkeypatch):
    model = hypermodel(budget=Budget(max_parameters=250))
    hp = hyperparameters(model, Candidate((4, 4), 1.25, "max", 0.01))
    monkeypatch.setattr(model, "network", None)
    with pytest.raises(keras_tuner.errors.FailedTrialError, match=r"4-4.*336 parameters"):
        model.build(hp)


# The objective


def test_the_objective_is_the_mean_over_sizes():
    model = hypermodel(settings=dataclasses.replace(TINY, digits=200, epochs=2))
    hp = hyperparameters(model, Candidate((2, 4), 1.25, "max", 0.01))
    network = model.build(hp)
    results = model.fit(hp, network)
    load = large_scale_loader(count=30, frame=32, split="validation")
    expected = accuracy_by_size(finished_network(network, TINY), load, (1.0, 2.0))
    assert [results["accuracy_at_1"], results["accuracy_at_2"]] == list(expected.values())
    assert results[OBJECTIVE] == pytest.approx(np.mean(list(expected.values())))
    assert int(network.optimizer.iterations) == 20
    assert float(network.optimizer.learning_rate) == pytest.approx(0.01 / 200)


def test_a_round_of_hyperband_is_a_schedule_of_its_own():
    model = hypermodel()
    hp = hyperparameters(model, Candidate((2,), 1.25, "max", 0.01))
    hp.values |= {"tuner/epochs": 3, "tuner/initial_epoch": 1}
    assert model.build(hp).optimizer.get_config()["learning_rate"]["config"]["decay_steps"] == 6


# Kills


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


def test_a_worker_says_that_its_chief_is_gone():
    class Worker:
        def search(self):
            raise grpc.RpcError

    with pytest.raises(TrainingStopped, match="the chief does not answer") as stop:
        _search(Worker(), Path())
    assert not stop.value.interrupted


# What must be installed


def test_what_is_missing_is_said_at_once(monkeypatch):
    find, missing = importlib.util.find_spec, ("tensorboard", "sklearn")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name in missing else find(name)
    )
    with pytest.raises(ImportError, match=r"TensorBoard: pip install 'gdn_keras\[tune\]'"):
        hypermodel()
    with pytest.raises(ImportError, match=r"scikit-learn: pip install 'gdn_keras\[tune\]'"):
        Search(tuner="bayesian")


def test_without_keras_tuner_only_tuning_is_missing():
    script = """
import sys
sys.modules["keras_tuner"] = None
import gdn_keras
try:
    import gdn_keras.tuning
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "Tuning needs KerasTuner: pip install 'gdn_keras[tune]'\n", done.stderr


# Pareto fronts


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1))
def test_pareto_front_against_brute_force(points):
    costs, accuracies = zip(*points, strict=True)
    front = [points[i] for i in pareto_front(costs, accuracies)]
    beaten = {
        (c, a)
        for (c, a), (d, b) in itertools.product(points, points)
        if (d, -b) != (c, -a) and d <= c and b >= a
    }
    assert front == sorted(set(points) - beaten)


def test_picture(tmp_path):
    file = tmp_path / "pareto.png"
    costs = {"parameters": [100, 1000, 500], "multiply-adds": [1e6, 2e6, 3e6]}
    draw_pareto(costs, [0.5, 0.9, 0.8], file, {"default": 1, "large": 2})
    assert file.read_bytes().startswith(b"\x89PNG")


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
    network = finished_network(tuner.best_network(trials[-1]), TINY)
    accuracies = accuracy_by_size(network, model.validation, (1.0, 2.0))
    assert np.mean(list(accuracies.values())) == pytest.approx(trials[-1].score)
