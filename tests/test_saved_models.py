"""Every shipped model loads and does what its card says."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import gdn_keras
from gdn_keras.datasets import digit_scenes, load_embedded_digits, rescale_images, scene_set
from gdn_keras.detection import evaluate_detector
from gdn_keras.models import scale_channels_of
from gdn_keras.presets import PRESETS

SAVED_MODELS = Path(__file__).parents[1] / "saved_models"
TRAINED = [name for name, entry in PRESETS.items() if "weights" in entry]
DIGITS = [name for name in TRAINED if PRESETS[name].get("parameters", {}).get("num_classes") == 10]


def card_accuracy(path: Path) -> dict[float, float]:
    """Accuracy in percent by test size, from the card's table."""
    lines = path.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    sizes, accuracies = (
        [float(cell) for cell in re.findall(r"\d+\.?\d*", lines[row])] for row in (first, first + 2)
    )
    return dict(zip(sizes, accuracies, strict=True))


@pytest.mark.parametrize("name", DIGITS)
def test_card_holds_on_embedded_digits(name):
    model = gdn_keras.from_preset(name)
    digits = load_embedded_digits()
    images, labels = digits.x_test[:300], digits.y_test[:300]
    card = card_accuracy(SAVED_MODELS / name / "README.md")
    for size in (0.5, 1.0, 2.0, 4.0):
        scores = model.predict(rescale_images(images, size)[..., None], verbose=0)
        accuracy = 100 * np.mean(scores.argmax(axis=1) == labels)
        # 300 digits: two standard errors are 1.6 points at 98 %.
        assert accuracy == pytest.approx(card[size], abs=2.5)


def test_every_folder_is_a_complete_model_of_moderate_size():
    assert sorted(TRAINED) == sorted(p.name for p in SAVED_MODELS.iterdir() if p.is_dir())
    sizes = []
    for name in TRAINED:
        assert (SAVED_MODELS / name / "saved_model" / "saved_model.pb").is_file()
        files = [file for file in (SAVED_MODELS / name).rglob("*") if file.is_file()]
        sizes += [file.stat().st_size for file in files]
    assert max(sizes) < 5e6 and sum(sizes) < 25e6


@pytest.mark.parametrize("name", [name for name in TRAINED if "parameters" in PRESETS[name]])
def test_overrides_change_nothing_else(name):
    """A network that is made anew for other scales is the one that was trained."""
    trained = gdn_keras.from_preset(name)
    same = gdn_keras.from_preset(name, scales=scale_channels_of(trained).scales)
    images = np.random.default_rng(0).uniform(0, 255, (2, *trained.input_shape[1:]))
    expected, scores = (model.predict(images, verbose=0) for model in (trained, same))
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_trained_weights_at_other_sizes_and_scales():
    trained = gdn_keras.from_preset("default_size1")
    other = gdn_keras.from_preset("default_size1", input_shape=(40, 50, 1), scales=(1, 2))
    assert other.input_shape == (None, 40, 50, 1) and scale_channels_of(other).scales == (1, 2)
    for ours, theirs in zip(trained.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("overrides", [{}, {"scales": (1.0, 2.0)}])
def test_trained_networks_take_pixels_and_know_their_classes(overrides):
    model = gdn_keras.from_preset("default_size2", **overrides)
    assert model.class_names == tuple("0123456789")
    pixels = np.zeros((20, 112, 112, 1), "uint8")
    digits = load_embedded_digits()
    pixels[:, 28:84, 28:84, 0] = np.kron(digits.x_test[:20], np.ones((2, 2), "uint8"))
    predicted = model.predict(pixels, verbose=0).argmax(axis=1)
    assert np.mean(predicted == digits.y_test[:20]) >= 0.9


@pytest.mark.parametrize("overrides", [{}, {"scales": (1.0, 2.0), "input_shape": (64, 64, 3)}])
def test_traffic_signs_take_color_pixels_and_know_their_classes(overrides):
    model = gdn_keras.from_preset("traffic_signs", **overrides)
    names = model.class_names
    assert len(names) == 43 and names[14] == "stop"
    # A red octagon with a white bar stands for a stop sign; what it says is not tested, but that
    # colour is seen.
    side = model.input_shape[1]
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    sign = np.full((side, side, 3), 110, "uint8")
    sign[np.maximum(np.maximum(abs(x), abs(y)), (abs(x) + abs(y)) / 2**0.5) < 16] = (180, 20, 30)
    sign[(abs(x) < 12) & (abs(y) < 4)] = 240
    pixels = np.stack([sign, sign[..., ::-1]])
    scores = model.predict(pixels, verbose=0)
    assert np.abs(scores[0] - scores[1]).max() > 0.5


def test_digit_detector_finds_digits_at_sizes_that_it_has_not_seen():
    pytest.importorskip("pycocotools")
    detector = gdn_keras.from_preset("digit_detector")
    recipe = digit_scenes("test", sizes=(1.0, 2.0), shape=(144, 176), count=(3, 4))
    (everything, one, two), _ = evaluate_detector(detector, scene_set(recipe, 8, 3), (1.0, 2.0))
    assert everything.objects >= 24 and min(one.ap50, two.ap50) > 0.8
    strict = gdn_keras.from_preset("digit_detector", confidence_threshold=0.99)
    assert strict.confidence_threshold == 0.99
    with pytest.raises(ValueError, match=r"comes with its weights only.*load_weights=False"):
        gdn_keras.from_preset("digit_detector", load_weights=False)


def test_without_weights_presets_are_random():
    models = [gdn_keras.from_preset("default_size1", load_weights=load) for load in (True, False)]
    assert models[0].output_shape == models[1].output_shape
    assert scale_channels_of(models[0]).scales == pytest.approx(scale_channels_of(models[1]).scales)
    first, second = (model.get_weights()[0] for model in models)
    assert first.shape == second.shape and np.abs(first - second).max() > 0.01


def test_weights_that_do_not_fit():
    with pytest.raises(ValueError, match=r"load_weights=False.*num_classes=3"):
        gdn_keras.from_preset("default_size1", num_classes=3)


@pytest.mark.parametrize("path", sorted(SAVED_MODELS.glob("*/*.json")), ids=lambda p: p.parent.name)
def test_results_name_no_folder_of_the_machine_they_were_made_on(path):
    settings = json.loads(path.read_text())["settings"]
    texts = [value for value in settings.values() if isinstance(value, str)]
    assert not [text for text in texts if Path(text).is_absolute()]
