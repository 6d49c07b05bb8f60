"""examples/train_detector.py: from flags to settings."""

import pytest

from gdn_keras.detection.settings import DetectorSettings
from tests.examples.conftest import load_example


@pytest.fixture(scope="module")
def example():
    return load_example("train_detector")


def settings(example, *flags):
    return example.settings_of(example.parser().parse_args(flags))


def test_without_flags_settings_are_the_defaults(example):
    assert settings(example) == DetectorSettings()


@pytest.mark.parametrize("rate", [1e-5, 0.02])
def test_the_last_learning_rate_follows_the_first(example, rate):
    chosen = settings(example, "--learning-rate", str(rate))
    assert chosen.learning_rate == rate
    assert chosen.final_learning_rate == pytest.approx(0.005 * rate)
