import json
from pathlib import Path

import numpy as np
import pytest

from gdn_keras.datasets import suggest_scales
from gdn_keras.models import PAPER_SCALES

RESULTS = sorted((Path(__file__).parents[2] / "saved_models").glob("*/accuracy.json"))
DIGIT_HEIGHT = 20


def test_one_height():
    np.testing.assert_allclose(suggest_scales(20), [2**-0.5, 1, 2**0.5])


def test_the_paper_has_what_its_sizes_need():
    scales = suggest_scales([DIGIT_HEIGHT * 1, DIGIT_HEIGHT * 4])
    assert set(scales) <= set(PAPER_SCALES)


def test_twice_the_height_is_twice_the_scale():
    np.testing.assert_allclose(suggest_scales([60, 80]), 2 * np.array(suggest_scales([30, 40])))


def test_fewer_layers_see_less():
    assert suggest_scales(60, layers=5) == tuple(2 ** (i / 2) for i in (3, 4, 5))
    assert suggest_scales(60, layers=3)[0] > suggest_scales(60, layers=6)[0]


def test_tiny_objects():
    assert suggest_scales(1) == (0.5,)
    assert suggest_scales([1, 20]) == tuple(2 ** (i / 2) for i in range(-2, 2))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.parent.name)
def test_shipped_networks_select_what_is_suggested(file):
    results = json.loads(file.read_text())
    for part in results["sizes"]:
        if 1 <= part["size"] <= 4:
            suggested = suggest_scales(DIGIT_HEIGHT * part["size"])
            near = [
                any(abs(np.log2(scale / s)) < 0.3 for s in suggested) for scale in results["scales"]
            ]
            assert np.dot(near, part["selected"]) > 0.9 * part["images"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heights": []}, "`heights` must hold a number. Received: none"),
        ({"heights": [20, 0]}, "`heights` must be a positive, finite number"),
        ({"heights": 20, "layers": 0}, "`layers` must be an integer >= 1. Received: layers=0"),
        ({"heights": 20, "scale_ratio": -1}, "`scale_ratio` must be a positive"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        suggest_scales(**arguments)
