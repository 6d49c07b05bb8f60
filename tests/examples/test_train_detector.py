"""examples/train_detector.py: from flags to recipes."""

import pytest

from gdn_keras.training.detection_task import DetectorRecipe
from tests.examples.conftest import load_example

EXAMPLE = load_example("train_detector")


def recipe(*flags):
    return EXAMPLE.tasks_of(EXAMPLE.parser().parse_args(flags))[""].recipe


def test_without_flags_the_recipe_has_its_defaults():
    assert recipe() == DetectorRecipe()


@pytest.mark.parametrize("rate", [1e-5, 0.02])
def test_the_last_learning_rate_follows_the_first(rate):
    chosen = recipe("--learning-rate", str(rate))
    assert chosen.learning_rate == rate
    assert chosen.final_learning_rate == pytest.approx(0.005 * rate)


def test_channels_of_the_training_follow_its_size():
    chosen = recipe("--train-size", "2", "--train-frame", "192", "--test-scenes", "5")
    assert chosen.train_scales == pytest.approx([2 * s for s in DetectorRecipe.train_scales])
    assert (chosen.train_sizes, chosen.train_frame, chosen.test_scenes) == ((2.0,), 192, 5)
