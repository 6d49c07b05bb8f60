import dataclasses

import pytest

from gdn_keras.models import gaussian_derivative_network, parameter_counts, scale_channels_of
from gdn_keras.scale_space import multiply_adds
from gdn_keras.tuning import Budget, Candidate, GaussianDerivativeHyperModel
from tests.tuning.tiny import TINY, hypermodel


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
    features = channels.program.features(1)
    assert cost.multiply_adds == multiply_adds(plan, channels.geometry, features)


def test_the_papers_networks_by_default():
    model = GaussianDerivativeHyperModel()
    costs = [model.cost(model.space.closest_to(name)) for name in ("default", "large")]
    assert [cost.paper_parameters for cost in costs] == [24264, 38496]


def test_mistakes_in_the_budget():
    with pytest.raises(ValueError, match="max_parameters=0"):
        Budget(max_parameters=0)
