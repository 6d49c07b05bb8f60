import dataclasses

import keras
import keras_tuner
import numpy as np
import pytest

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.datasets import ImageData, LabelledImages
from gdn_keras.models import parameter_counts, retarget, scale_channels_of
from gdn_keras.tuning import (
    OBJECTIVE,
    Budget,
    Candidate,
    GaussianDerivativeHyperModel,
    Space,
)
from tests.tuning.tiny import SMALL, TINY, hypermodel, hyperparameters, tiny_data


def test_everything_can_be_fixed():
    space = Space([[4], [6]], layers=2, scale_ratio=1.3, pooling="average", learning_rate=0.02)
    hp = keras_tuner.HyperParameters()
    model = hypermodel(space).build(hp)
    assert all(isinstance(p, keras_tuner.engine.hyperparameters.Fixed) for p in hp.space)
    jets = [x for x in scale_channels_of(model).network.layers if hasattr(x, "compose_kernel")]
    assert [(jet.filters, round(jet.sigma, 6)) for jet in jets] == [(4, 1), (6, 1.3), (10, 1.69)]
    assert model.network.get_layer("scale_pooling").pooling == "average"
    assert float(model.optimizer.learning_rate) == pytest.approx(0.02)


def test_mistakes_in_the_rest():
    with pytest.raises(ValueError, match=r"`recipe\.distribute` must be left"):
        hypermodel(recipe=dataclasses.replace(TINY, distribute=True))


def test_without_validation_sizes_the_held_out_images_decide():
    data = tiny_data()
    model = GaussianDerivativeHyperModel(data, space=SMALL, recipe=TINY)
    assert model.validation_sizes == (None,)
    assert model.validation(None) is data.validation
    hp = hyperparameters(model, Candidate((2,), 1.25, "max", 0.01))
    results = model.fit(hp, model.build(hp), epochs=1)
    assert results[OBJECTIVE] == results["accuracy"]


def test_color_and_other_classes():
    images = np.random.default_rng(0).integers(0, 256, (12, 20, 22, 3)).astype("uint8")
    part = LabelledImages(images, np.arange(12) % 3)
    data = ImageData(
        "noise",
        part,
        part,
        lambda s: part,
        (),
        ("a", "b", "c"),
        keras.layers.Rescaling(1 / 127.5, offset=-1),
    )
    recipe = dataclasses.replace(TINY, batch_size=6, epochs=1)
    model = GaussianDerivativeHyperModel(data, space=SMALL, recipe=recipe)
    candidate = Candidate((2, 4), 1.25, "max", 0.01)
    network = model.network(candidate)
    assert network.input_shape == (None, 20, 22, 3) and network.output_shape == (None, 3)
    assert model.cost(candidate).parameters == parameter_counts(network)["trainable"]


def test_a_budget_that_nothing_meets_is_refused_with_the_least_cost():
    costs = [hypermodel().cost(Candidate((2,), r, "max", 0.01)) for r in (1.25, 1.5)]
    parameters, operations = costs[0].parameters, min(c.multiply_adds for c in costs)
    for budget in (Budget(parameters - 1), Budget(None, operations - 1)):
        with pytest.raises(ValueError, match=f"{parameters} parameters, and {operations} mult"):
            hypermodel(budget=budget)
    assert hypermodel(budget=Budget(parameters, operations)).smallest.widths == (2,)


def test_other_tuners_see_a_failed_trial_before_a_network_is_made(monkeypatch):
    model = hypermodel(budget=Budget(max_parameters=250))
    hp = hyperparameters(model, Candidate((4, 4), 1.25, "max", 0.01))
    monkeypatch.setattr(model, "network", None)
    with pytest.raises(keras_tuner.errors.FailedTrialError, match=r"4-4.*336 parameters"):
        model.build(hp)


def test_the_objective_is_the_mean_over_sizes():
    model = hypermodel(recipe=dataclasses.replace(TINY, epochs=2), count=200)
    hp = hyperparameters(model, Candidate((2, 4), 1.25, "max", 0.01))
    network = model.build(hp)
    results = model.fit(hp, network)
    finished = retarget(network, (32, 32, 1), TINY.scales)
    expected = accuracy_by_size(finished, tiny_data(test_split="validation"))
    assert [results["accuracy_at_1"], results["accuracy_at_2"]] == list(expected.values())
    assert results[OBJECTIVE] == pytest.approx(np.mean(list(expected.values())))
    assert int(network.optimizer.iterations) == 20
    assert float(network.optimizer.learning_rate) == pytest.approx(0.01 / 200)


def test_a_round_of_hyperband_is_a_schedule_of_its_own():
    model = hypermodel()
    hp = hyperparameters(model, Candidate((2,), 1.25, "max", 0.01))
    hp.values |= {"tuner/epochs": 3, "tuner/initial_epoch": 1}
    assert model.build(hp).optimizer.get_config()["learning_rate"]["config"]["decay_steps"] == 6


def test_recipes_are_followed_or_refused():
    model = hypermodel(recipe=dataclasses.replace(TINY, cone=2.5))
    network = model.network(Candidate((2,), 1.25, "max", 0.01))
    assert scale_channels_of(network).cone == 2.5
    for changes in ({"surround": 0.5}, {"readout": "anywhere"}, {"residual": True}):
        with pytest.raises(ValueError, match=r"`recipe.\w+` must be left as it is in a search"):
            hypermodel(recipe=dataclasses.replace(TINY, **changes))
