import dataclasses
import json

import alternatives
import keras
import numpy as np
import pytest
import tensorflow as tf
from contest.rescaling import pyramid_cnn, random_rescaling
from contest.tensorflow_steps import plain_cnn

from gdn_keras.datasets import load_embedded_digits, rescale_images
from gdn_keras.datasets.photographs import shrink_smoothing
from gdn_keras.training import Recipe
from gdn_keras.training.run_folder import SETTINGS

FEW = ["--images", "100", "--test-images", "20"]
OWN = ["--dropout", "0.3", "--crop", "24"]


@pytest.fixture(autouse=True)
def small_task(tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(alternatives, "_REPEATS", 4)
    options = {"train_sizes": (1,), "test_sizes": (0.5, 1, 2), "frame": 32}
    task = dataclasses.replace(
        alternatives.TASKS["large_scale"],
        options=options,
        recipe=Recipe(widths=(8, 12), batch_size=10),
        window=24,
    )
    monkeypatch.setitem(alternatives.TASKS, "large_scale", task)


def digits(size: float, count: int = 4) -> np.ndarray:
    return rescale_images(load_embedded_digits().x_test[:count], size, (32, 32))[..., None]


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
def test_random_rescaling_is_that_of_images(factor):
    images = digits(1)
    rescaled = random_rescaling(32, [factor], "edge")(tf.constant(images), tf.constant(7))
    options = {"smoothing": shrink_smoothing(factor), "boundary": "edge", "contrast": None}
    expected = rescale_images(images, factor, (32, 32), **options)
    np.testing.assert_allclose(rescaled, expected, atol=1e-5)


def test_random_rescaling_draws_for_each_image_anew():
    images = tf.constant(np.repeat(digits(1, 1), 40, axis=0))
    rescale = random_rescaling(32, [0.5, 1.0, 2.0], "edge")
    first, again, other = (rescale(images, tf.constant(seed)).numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    assert len({image.tobytes() for image in first}) == 3


def test_pyramid_of_one_level_is_the_plain_cnn():
    images = digits(1)
    keras.utils.set_random_seed(0)
    network = pyramid_cnn((32, 32, 1), (4, 6, 10), [1.0], 32, "edge")
    plain = plain_cnn((32, 32, 1), (4, 6, 10))
    plain.set_weights(network.get_weights())
    np.testing.assert_allclose(network(images), plain(images), atol=1e-5)


def test_a_flat_head_has_a_weight_for_each_place():
    average, flat = (plain_cnn((32, 32, 1), (4, 6, 10), head) for head in ("average", "flatten"))
    assert flat.count_params() - average.count_params() == (8 * 8 - 1) * 6 * 10


def test_dropout_acts_in_training_alone():
    images = digits(1)
    keras.utils.set_random_seed(0)
    network = pyramid_cnn((32, 32, 1), (4, 6, 10), [1.0], 32, "edge", "flatten", 0.9)
    cnn = plain_cnn((32, 32, 1), (4, 6, 10), "flatten", 0.9)
    cnn.set_weights(network.get_weights())
    np.testing.assert_allclose(network(images), cnn(images), atol=1e-5)
    for model in (network, cnn):
        first, again = (np.asarray(model(images, training=True)) for _ in range(2))
        assert np.abs(first - again).max() > 1e-3


def test_a_crop_is_the_middle_of_the_image():
    images = digits(1)
    keras.utils.set_random_seed(0)
    cropped = plain_cnn((32, 32, 1), (4, 6, 10), crop=20)
    small = plain_cnn((20, 20, 1), (4, 6, 10))
    small.set_weights(cropped.get_weights())
    np.testing.assert_allclose(cropped(images), small(images[:, 6:26, 6:26]), atol=1e-5)


def test_pyramid_is_the_maximum_over_its_levels():
    images = digits(1)
    keras.utils.set_random_seed(0)
    factors = (0.5, 1.0, 2.0)
    network = pyramid_cnn((32, 32, 1), (4, 6, 10), factors, 24, "edge")
    single = []
    for factor in factors:
        level = pyramid_cnn((32, 32, 1), (4, 6, 10), [factor], 24, "edge")
        level.set_weights(network.get_weights())
        single.append(np.asarray(level(images)))
    np.testing.assert_allclose(network(images), np.max(single, axis=0), atol=1e-5)
    assert len({array.tobytes() for array in single}) == 3


def test_trains_tests_and_draws_what_is_not_done_yet(tmp_path, monkeypatch, capsys):
    flags = ["--output", str(tmp_path / "run"), "--epochs", "20", *FEW]
    alternatives.main([*flags, "--only", "plain"])
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    curve = results["plain"]["accuracy"]
    assert len(curve) == 3 and curve["1"] > 0.2  # it has learned something where it was trained
    assert results["plain"]["inference_ms_per_image"] > 0
    assert results["plain"]["validation"] > 0.2
    monkeypatch.setattr(alternatives, "compete", None)
    capsys.readouterr()
    alternatives.main([*flags, "--only", "plain"])  # nothing is left to do
    assert "| plain, % |" in capsys.readouterr().out
    assert (tmp_path / "run" / "curves.png").stat().st_size > 1000
    with pytest.raises(SystemExit):
        alternatives.main([*flags, "--only", "plain", "--seed", "1"])
    assert "seed is 0 there and 1 now" in capsys.readouterr().err


def test_loss_and_rate_of_the_cnns_are_their_own(monkeypatch):
    task = dataclasses.replace(alternatives.TASKS["large_scale"], cnn={"loss": "softmax"})
    monkeypatch.setitem(alternatives.TASKS, "large_scale", task)
    flags = ["--output", "x", "--learning-rate", "0.002", "--head", "flatten", *FEW]
    contest = alternatives.prepare(alternatives.flags().parse_args([*flags, *OWN]))
    assert (contest.head, contest.dropout, contest.crop) == ("flatten", 0.3, 24)
    assert (contest.cnn_recipe.loss, contest.cnn_recipe.learning_rate) == ("softmax", 0.002)
    assert (contest.recipe.loss, contest.recipe.learning_rate) == ("binary", 0.01)


def test_levels_of_the_pyramid_lie_as_close_as_asked():
    flags = ["--output", "x", "--per-octave", "4", *FEW]
    contest = alternatives.prepare(alternatives.flags().parse_args(flags))
    np.testing.assert_allclose(contest.levels, 2 ** (np.arange(-4, 5) / 4))


@pytest.mark.parametrize("name", ["augmented", "pyramid", "all_levels"])
def test_networks_of_the_others(name):
    flags = ["--output", "x", "--epochs", "1", "--option", "frame=36", *FEW]
    options = alternatives.flags().parse_args(flags)
    contest = alternatives.prepare(options)
    assert contest.reach == (0.5, 2) and contest.shape == (36, 36, 1)
    np.testing.assert_allclose(contest.levels, 2 ** (np.arange(-2, 3) / 2))
    result = alternatives.compete(contest, name)
    assert len(result["accuracy"]) == 3
    # Two convolutions with their normalisations, and a dense layer.
    assert result["parameters"] == 9 * 8 + 2 * 8 + 9 * 8 * 12 + 2 * 12 + 12 * 10 + 10


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--epochs", "0"], "`epochs`"),
        (["--learning-rate", "-1"], "`learning_rate`"),
        (["--per-octave", "0"], "`per_octave`"),
        (["--dropout", "1"], "`dropout` must lie in [0, 1)"),
        (["--crop", "33"], "`crop` must lie within the images"),
        (["--images", "1000000"], "1000000"),
        (["--ours", "nowhere"], "nowhere"),
        (["--data", "gtsrb"], "Final_Training"),
        (["--data", "fashion_mnist"], "the four Fashion-MNIST files"),
        (["--data", "cifar10"], "an archive of CIFAR-10"),
        (["--option", "frames=3"], "large_scale does not take these options"),
        (["--option", "frame"], "`option` must be NAME=VALUE"),
    ],
)
def test_mistakes_end_with_one_line(tmp_path, capsys, flags, message):
    with pytest.raises(SystemExit):
        alternatives.main(["--output", str(tmp_path), *flags])
    assert message in capsys.readouterr().err
    assert not (tmp_path / SETTINGS).exists()
