import json

import keras
import numpy as np
import pytest
from PIL import Image

from gdn_keras.datasets import suggest_scales
from gdn_keras.training.command_line import run_command
from tests.examples.conftest import load_example

FOLDER = load_example("train_folder")


def train(arguments):
    return run_command(FOLDER.parser(), FOLDER.tasks_of, list(map(str, arguments)))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Discs and rings, red on green, 20 to 32 pixels."""
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for name in ("disc", "the ring"):
        (folder / name).mkdir()
        for k in range(15):
            side = int(rng.integers(20, 33))
            y, x = np.mgrid[:side, :side] - (side - 1) / 2
            radius = np.hypot(x, y) / side
            shape = radius < 0.4 if name == "disc" else (radius < 0.4) & (radius > 0.22)
            pixels = np.where(shape[..., None], (220, 40, 30), (30, 120, 40))
            noisy = np.clip(pixels + rng.normal(0, 8, pixels.shape), 0, 255).astype("uint8")
            Image.fromarray(noisy).save(folder / name / f"{k}.png")
    return folder


@pytest.fixture(scope="module")
def trained(pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    flags = ["--widths", "6", "8", "--epochs", "12", "--batch-size", "8"]
    assert train([pictures, "--output", folder, *flags]) == 0
    return folder


def test_a_folder_becomes_a_report_with_its_classes(trained):
    results = json.loads((trained / "accuracy.json").read_text())
    assert results["settings"]["class_names"] == ["disc", "the ring"]
    at_one = next(row for row in results["sizes"] if row["size"] == 1)
    assert at_one["accuracy"] == 1.0 and len(results["sizes"]) > 1
    assert np.shape(at_one["confusion"]) == (2, 2) and sum(at_one["selected"]) == 6
    report = (trained / "report.md").read_text()
    assert "| class_names | disc, the ring |" in report and "confusion.png" in report


def test_the_network_takes_pixels_and_knows_its_classes(trained, pictures):
    model = keras.saving.load_model(trained / "model.keras", compile=False)
    assert model.class_names == ("disc", "the ring")
    height, width = model.input_shape[1:3]
    image = Image.open(pictures / "disc" / "0.png").resize((height, width))
    pixels = np.asarray(image)[None]
    expected = model.network.predict(np.float32(pixels / 127.5 - 1), verbose=0)
    np.testing.assert_allclose(model.predict(pixels, verbose=0), expected, atol=1e-4)


def test_predictions_have_class_names(trained, pictures, capsys):
    files = [pictures / "disc" / "3.png", pictures / "the ring" / "4.png"]
    assert load_example("predict").main([str(trained / "saved_model"), *map(str, files)]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["file", "class", "confidence", "size"]
    assert " disc " in first and " the ring " in second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere"),
        (["{pictures}", "--option", "frame"], "`option` must be NAME=VALUE"),
        (["{pictures}", "--option", "colours=3"], "`option` must be one of the data set"),
        (["{pictures}", "--data", "imagenet"], "name='imagenet'"),
    ],
)
def test_mistakes_give_one_line(arguments, message, pictures, tmp_path, capsys):
    arguments = [argument.format(pictures=pictures) for argument in arguments]
    assert train([*arguments, "--output", tmp_path / "run"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_options_of_the_data_set(pictures):
    options = FOLDER.parser().parse_args([str(pictures), "--option", "color=False"])
    task = FOLDER.tasks_of(options)[""]
    recipe, data = task.recipe, task.data
    assert data.train.images.shape[-1] == 1
    assert recipe.augment and set(recipe.training_scales) <= set(recipe.scales)


def test_given_training_scales_are_kept(pictures):
    options = FOLDER.parser().parse_args([str(pictures), "--train-scales", "1", "2", "3"])
    recipe = FOLDER.tasks_of(options)[""].recipe
    assert recipe.training_scales == pytest.approx((1, 2**0.5, 2))
    assert len(recipe.scales) > 3  # those for the test sizes


def test_scales_are_those_of_pictures_in_their_frame(pictures):
    options = FOLDER.parser().parse_args([str(pictures), "--option", "frame=24"])
    task = FOLDER.tasks_of(options)[""]
    recipe, data = task.recipe, task.data
    assert data.train.images.shape[1:3] == (24, 24)
    assert recipe.training_scales == suggest_scales(24)
    assert recipe.augment == (24, 24)
