"""Every shipped model loads and does what its card says."""

import re
from pathlib import Path

import numpy as np
import pytest

import gdn_keras
from gdn_keras.datasets import load_embedded_digits, rescale_images

SAVED_MODELS = Path(__file__).parents[1] / "saved_models"


def card_accuracy(path: Path) -> dict[float, float]:
    """Accuracy in percent by test size, from the card's table."""
    lines = path.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| test size"))
    sizes, accuracies = (
        [float(cell) for cell in re.findall(r"\d+\.?\d*", lines[row])] for row in (first, first + 2)
    )
    return dict(zip(sizes, accuracies, strict=True))


@pytest.mark.parametrize("name", gdn_keras.pretrained_names())
def test_card_holds_on_embedded_digits(name):
    model = gdn_keras.load_pretrained(name)
    digits = load_embedded_digits()
    images, labels = digits.x_test[:300], digits.y_test[:300]
    card = card_accuracy(SAVED_MODELS / name / "README.md")
    for size in (0.5, 1.0, 2.0, 4.0):
        scores = model.predict(rescale_images(images, size)[..., None], verbose=0)
        accuracy = 100 * np.mean(scores.argmax(axis=1) == labels)
        # 300 digits: two standard errors are 1.6 points at 98 %.
        assert accuracy == pytest.approx(card[size], abs=2.5)


def test_every_folder_is_a_complete_model_of_moderate_size():
    names = gdn_keras.pretrained_names()
    assert names and names == tuple(sorted(p.name for p in SAVED_MODELS.iterdir() if p.is_dir()))
    sizes = []
    for name in names:
        assert (SAVED_MODELS / name / "saved_model" / "saved_model.pb").is_file()
        files = [file for file in (SAVED_MODELS / name).rglob("*") if file.is_file()]
        sizes.append(sum(file.stat().st_size for file in files))
    assert max(sizes) < 3e6 and sum(sizes) < 15e6


def test_unknown_name():
    with pytest.raises(ValueError, match=r"`name` must be one of '.*Received: name='tiny'"):
        gdn_keras.load_pretrained("tiny")
