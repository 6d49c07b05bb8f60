import dataclasses
import importlib
import itertools
import sys

import keras
import keras_tuner
import numpy as np
import pytest

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.datasets import ImageData, LabelledImages
from gdn_keras.models import (
    gaussian_derivative_network,
    parameter_counts,
    retarget,
    scale_channels_of,
)
from gdn_keras.tuning import OBJECTIVE, GaussianDerivativeHyperModel
from tests.tuning.conftest import TINY


def hyperparameters(**values):
    hp = keras_tuner.HyperParameters()
    hp.values = {"pooling": "max", "scale_ratio": "1.25", "learning_rate": "0.01", **values}
    return hp


@pytest.mark.parametrize(
    ("widths", "ratio", "sampling"),
    [((12, 16, 24, 32, 64), 1.25, "matched"), ((3, 5), 1.4, "matched"), ((2,), 1.0, "dense")],
)
def test_costs_are_those_of_the_network(widths, ratio, sampling, hypermodel):
    recipe = dataclasses.replace(TINY, scales=(0.8, 1.7, 4.0), sampling=sampling)
    space = hypermodel(recipe=recipe)
    cost = space.cost(space.with_values(widths, ratio, "max", 0.01))
    model = gaussian_derivative_network(
        (32, 32, 1), widths, 10, recipe.scales, ratio, sampling=sampling
    )
    channels = scale_channels_of(model)
    assert cost["parameters"] == parameter_counts(model)["trainable"]
    assert cost["multiply_adds"] == sum(map(sum, channels.costs((32, 32, 1))))


def test_every_draw_gives_a_network_of_the_space_within_the_budget(hypermodel):
    model = hypermodel(max_parameters=240)
    trained = set()
    for layers, *widths in itertools.product((1, 2), (2, 3, 4), (2, 3, 4)):
        hp = hyperparameters(layers=layers, width_1=widths[0], width_2=widths[1])
        drawn, candidate = model.drawn(hp), model.candidate(hp)
        assert drawn.widths == tuple(sorted(widths[:layers]))
        assert model.cost(candidate)["parameters"] <= 240
        assert candidate == drawn or model.cost(drawn)["parameters"] > 240
        trained.add(candidate.widths)
    assert trained == {(2,), (3,), (2, 2), (2, 3)}


def test_where_the_narrowest_layers_cost_too_much_there_are_fewer(hypermodel):
    space = hypermodel()
    limit = space.cost(space.with_values((2,), 1.25, "max", 0.01))["parameters"]
    model = hypermodel(max_parameters=limit, learning_rate=(0.01, 0.02))
    hp = hyperparameters(layers=2, width_1=2, width_2=2, learning_rate="0.02")
    found = model.candidate(hp)
    assert (found.widths, found.learning_rate) == ((2,), 0.02)


def test_widths_of_each_layer_are_drawn_independently(hypermodel):
    model = hypermodel(widths=[(4, 8), 3], layers=2)
    assert model.drawn(hyperparameters(layers=2, width_1=8, width_2=3)).widths == (8, 3)


def test_everything_can_be_fixed(hypermodel):
    model = hypermodel(
        widths=[4, (6,)], layers=2, scale_ratio=1.3, pooling="average", learning_rate=0.02
    ).build(keras_tuner.HyperParameters())
    jets = [x for x in scale_channels_of(model).network.layers if hasattr(x, "compose_kernel")]
    assert [(jet.filters, round(jet.sigma, 6)) for jet in jets] == [(4, 1), (6, 1.3), (10, 1.69)]
    assert model.network.get_layer("scale_pooling").pooling == "average"
    assert float(model.optimizer.learning_rate) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("widths", ()),
        ("widths", (0, 4)),
        ("widths", [(4, 8)]),
        ("layers", []),
        ("layers", 0),
        ("scale_ratio", 0),
        ("pooling", "mean"),
        ("learning_rate", (0.01, -1)),
        ("max_parameters", 0),
        ("max_parameters", 100),
        ("max_multiply_adds", 1000),
        ("recipe", dataclasses.replace(TINY, residual=True)),
        ("recipe", dataclasses.replace(TINY, distribute=True)),
    ],
)
def test_mistakes_are_named(name, value, hypermodel):
    with pytest.raises(ValueError, match=name):
        hypermodel(**{name: value})


def test_color_other_classes_and_no_sizes():
    images = np.random.default_rng(0).integers(0, 256, (12, 20, 22, 3)).astype("uint8")
    part = LabelledImages(images, np.arange(12) % 3)
    rescaling = keras.layers.Rescaling(1 / 127.5, offset=-1)
    data = ImageData("noise", part, part, lambda s: part, (), ("a", "b", "c"), rescaling)
    recipe = dataclasses.replace(TINY, batch_size=6, epochs=1)
    model = GaussianDerivativeHyperModel(data, widths=(2, 4), layers=2, recipe=recipe)
    hp = keras_tuner.HyperParameters()
    network = model.build(hp)
    assert network.input_shape == (None, 20, 22, 3) and network.output_shape == (None, 3)
    trainable = parameter_counts(network)["trainable"]
    assert model.cost(model.candidate(hp))["parameters"] == trainable
    results = model.fit(hp, network)
    assert results[OBJECTIVE] == results["accuracy"]


def test_the_objective_is_the_mean_over_sizes(hypermodel, tiny_data):
    model = hypermodel()
    hp = hyperparameters(layers=2, width_1=2, width_2=4)
    network = model.build(hp)
    results = model.fit(hp, network)
    finished = retarget(network, (32, 32, 1), TINY.scales)
    expected = accuracy_by_size(finished, tiny_data(test_split="validation"))
    assert [results["accuracy_at_1"], results["accuracy_at_2"]] == list(expected.values())
    assert results[OBJECTIVE] == pytest.approx(np.mean(list(expected.values())))
    assert int(network.optimizer.iterations) == 9
    assert float(network.optimizer.learning_rate) == pytest.approx(0.01 / 200)


def test_a_round_of_hyperband_is_a_schedule_of_its_own(hypermodel):
    hp = hyperparameters(layers=1, width_1=2, width_2=2)
    hp.values |= {"tuner/epochs": 3, "tuner/initial_epoch": 1}
    optimizer = hypermodel().build(hp).optimizer.get_config()
    assert optimizer["learning_rate"]["config"]["decay_steps"] == 6


def test_without_keras_tuner_only_tuning_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gdn_keras.tuning")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "keras_tuner", None)
    with pytest.raises(ImportError, match=r"pip install 'gdn_keras\[tune\]'"):
        importlib.import_module("gdn_keras.tuning")
