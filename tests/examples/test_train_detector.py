"""examples/train_detector.py: from flags to recipes."""

import pytest

from gdn_keras.training.digit_detection import DigitRecipe
from tests.datasets.boxed_folders import write_yolo
from tests.examples.conftest import load_example

EXAMPLE = load_example("train_detector")


def recipe(*flags):
    return EXAMPLE.tasks_of(EXAMPLE.parser().parse_args(flags))[""].recipe


def test_without_flags_the_recipe_has_its_defaults():
    assert recipe() == DigitRecipe()


@pytest.mark.parametrize("rate", [1e-5, 0.02])
def test_the_last_learning_rate_follows_the_first(rate):
    chosen = recipe("--learning-rate", str(rate))
    assert chosen.learning_rate == rate
    assert chosen.final_learning_rate == pytest.approx(0.005 * rate)


def test_channels_of_the_training_follow_its_size():
    chosen = recipe("--train-size", "2", "--train-frame", "192", "--test-scenes", "5")
    assert chosen.train_scales == pytest.approx([2 * s for s in DigitRecipe.train_scales])
    assert (chosen.train_sizes, chosen.train_frame, chosen.test_scenes) == ((2.0,), 192, 5)


def test_a_folder_has_flags_of_its_own(tmp_path, capsys):
    pytest.importorskip("pycocotools")
    box = ("cell", 10, 5, 36, 30)
    folder = write_yolo(tmp_path, a=[box], b=[box])
    flags = [str(folder), "--validation", "0.5", "--no-mirror", "--size-range", "20", "40"]
    task = EXAMPLE.tasks_of(EXAMPLE.parser(of_pictures=True).parse_args(flags))[""]
    assert task.recipe.size_range == (20, 40) and not task.recipe.mirror and task.recipe.turns
    assert "finds objects of" in capsys.readouterr().out


def test_folders_without_boxes_are_one_sentence(tmp_path, capsys):
    assert EXAMPLE.main([str(tmp_path), "--output", str(tmp_path / "run")]) == 2
    assert "must hold annotations of one format" in capsys.readouterr().err
