"""Every shipped model loads and does what its card says."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest

from gdn_keras.datasets import load_embedded_digits, rescale_images

MODELS = sorted((Path(__file__).parents[1] / "saved_models").glob("*/model.keras"))


def card_accuracy(path: Path) -> dict[float, float]:
    """Accuracy in percent by test size, from the card's table."""
    lines = path.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| test size"))
    sizes, accuracies = (
        [float(cell) for cell in re.findall(r"\d+\.?\d*", lines[row])] for row in (first, first + 2)
    )
    return dict(zip(sizes, accuracies, strict=True))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name)
def test_card_holds_on_embedded_digits(path):
    model = keras.saving.load_model(path)
    digits = load_embedded_digits()
    images, labels = digits.x_test[:300], digits.y_test[:300]
    card = card_accuracy(path.with_name("README.md"))
    for size in (0.5, 1.0, 2.0, 4.0):
        scores = model.predict(rescale_images(images, size)[..., None], verbose=0)
        accuracy = 100 * np.mean(scores.argmax(axis=1) == labels)
        # 300 digits: two standard errors are 1.6 points at 98 %.
        assert accuracy == pytest.approx(card[size], abs=2.5)


def test_there_are_models():
    assert MODELS
