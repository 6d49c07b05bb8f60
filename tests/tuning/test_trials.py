import itertools

from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.tuning import OBJECTIVE, draw_pareto, pareto_front, summarize_trials


def row(trial, widths, parameters, multiply_adds, accuracy):
    costs = {"parameters": parameters, "multiply_adds": multiply_adds}
    return {"trial": trial, "widths": widths, "scale_ratio": 1.25, **costs, OBJECTIVE: accuracy}


ROWS = [
    row("large", "16-16", 400, 2_000_000, 0.9),
    row(3, "8-16", 300, 1_000_000, 0.8),
    row("default", "4-8", 200, 3_000_000, 0.7),
]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1))
def test_pareto_front_against_brute_force(points):
    costs, accuracies = zip(*points, strict=True)
    front = [points[i] for i in pareto_front(costs, accuracies)]
    beaten = {
        (c, a)
        for (c, a), (d, b) in itertools.product(points, points)
        if (d, -b) != (c, -a) and d <= c and b >= a
    }
    assert front == sorted(set(points) - beaten)


def test_picture(tmp_path):
    draw_pareto(ROWS, tmp_path / "pareto.png")
    assert (tmp_path / "pareto.png").read_bytes().startswith(b"\x89PNG")


def test_presets_are_compared_with_what_costs_no_more(hypermodel):
    best, large, default = summarize_trials(hypermodel(max_parameters=350), ROWS)
    assert best.startswith("Best: trial 3")  # the best of all is over budget
    assert "rank 1 of 3" in large and large.count("none is better") == 2
    assert "rank 3 of 3" in default and default.count("none is better") == 1
    assert default.count("large, 16-16") == 1
