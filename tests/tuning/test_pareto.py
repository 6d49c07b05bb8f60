import itertools

from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.tuning.pareto import draw_pareto, pareto_front


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
    file = tmp_path / "pareto.png"
    costs = {"parameters": [100, 1000, 500], "multiply-adds": [1e6, 2e6, 3e6]}
    draw_pareto(costs, [0.5, 0.9, 0.8], file, {"default": 1, "large": 2})
    assert file.read_bytes().startswith(b"\x89PNG")
