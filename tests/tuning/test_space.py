import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.tuning import Candidate, Space


@given(st.data())
def test_any_values_give_one_candidate_of_the_space(data):
    ordered = data.draw(st.booleans())
    space = Space(
        widths=[(4, 8), (2, 6, 12), 12, (3, 40)], layers=(2, 3, 4), non_decreasing=ordered
    )
    values = {name: data.draw(st.sampled_from(c)) for name, c in space.choices().items()}
    candidate = space.candidate(values)
    assert len(candidate.widths) == values["layers"]
    assert all(w in c for w, c in zip(candidate.widths, space.widths, strict=False))
    if ordered:
        assert list(candidate.widths) == sorted(candidate.widths)
    else:
        assert candidate.widths == tuple(values[f"width_{k + 1}"] for k in range(values["layers"]))
    canonical = space.values(candidate)
    assert canonical.keys() == values.keys() and space.candidate(canonical) == candidate
    assert all(canonical[name] in choices for name, choices in space.choices().items())


def test_values_survive_single_precision():
    space = Space(scale_ratio=(1.15, 1.25), learning_rate=(0.003, 0.01))
    candidate = Candidate((4, 8, 16), 1.15, "max", 0.003)
    values = {
        k: float(np.float32(v)) if isinstance(v, float) else v
        for k, v in space.values(candidate).items()
    }
    assert space.candidate(values) == candidate


def test_widths_that_leave_later_layers_none_are_left_out():
    assert Space(widths=[(4, 64), (8, 16)], layers=2).widths == ((4,), (8, 16))
    assert Space(widths=[(4, 64), 16], layers=2, non_decreasing=False).widths == ((4, 64), (16,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": ()}, "`widths` must hold at least one value"),
        ({"widths": range(64, 4)}, "widths=range(64, 4)"),
        ({"widths": [(4, 8), ()], "layers": 2}, "`widths` must hold at least one value"),
        ({"widths": [(4, 8), 8], "layers": (2, 3)}, "must name 3 layers"),
        ({"widths": [64, (8, 16)], "layers": 2}, "do not decrease"),
        ({"widths": (0, 4)}, "widths=0"),
        ({"layers": []}, "`layers` must hold at least one value"),
        ({"layers": 0}, "layers=0"),
        ({"scale_ratio": (0.9, 1.2)}, "scale_ratio=0.9"),
        ({"scale_ratio": ()}, "`scale_ratio` must hold at least one value"),
        ({"pooling": "mean"}, "pooling='mean'"),
        ({"learning_rate": (0.01, -1)}, "learning_rate=-1"),
    ],
)
def test_mistakes_in_the_space(arguments, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        Space(**arguments)
