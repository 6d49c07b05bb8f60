"""Plans: grids that do not depend on scale, operators that fit together, and what they cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.scale_space import Node, Plan, cascade, dense_costs, truncation_radius

SIGMAS = tuple(1.25**k for k in range(6))
SCALES = tuple(2 ** (i / 2) for i in range(-1, 7))
WIDTHS = (16, 24, 32, 48, 64, 10)


def plan(center=True, boundary="symmetric", **options):
    nodes = cascade(SIGMAS, read="center" if center else None)
    return Plan(nodes, boundary, 1e-3, **options)


def features(widths):
    """Of the image, the layers, and what is read of the last one."""
    return (1, *widths, widths[-1])


def lifts(batch, **options):
    """The first layer's operator in each channel."""
    return plan(**options).operators(batch, 0, 1)


def operators(batch, **options):
    """The operators of the layers after the first, which all channels share."""
    found = []
    for k in range(1, len(SIGMAS)):
        first, *others = plan(**options).operators(batch, k, k + 1)
        assert all(other is first for other in others)
        found.append(first)
    return found


def sizes(operators):
    return [(len(op.rows) - 2, len(op.columns) - 2) for op in operators]


def test_channels_share_their_operators():
    batches = plan().batches((112, 112), SCALES)
    assert [scale for batch in batches for scale in batch.scales] == list(SCALES)
    # The channels that the image does not cut run as one batch.
    assert len(batches[0].scales) >= 4
    for batch in batches:
        assert len(lifts(batch)) == len(batch.scales)
        assert len(operators(batch)) == len(SIGMAS) - 1


@given(st.integers(8, 200), st.sampled_from(SCALES), st.sampled_from([2, 3, 4]))
def test_operators_do_not_depend_on_scale(size, scale, factor):
    """A channel on an image, and one `factor` coarser on an image `factor` larger."""
    (one,) = plan().batches((size, size), [scale])
    (other,) = plan().batches((size * factor, size * factor), [scale * factor])
    for a, b in zip(operators(one), operators(other), strict=True):
        np.testing.assert_allclose(a.rows, b.rows, atol=1e-9)
        np.testing.assert_allclose(a.columns, b.columns, atol=1e-9)


@pytest.mark.parametrize("shape", [(112, 112), (113, 64), (9, 28)])
def test_operators_fit_together_and_end_at_the_center(shape):
    for batch in plan().batches(shape, SCALES):
        for lift in lifts(batch):
            assert (lift.rows.shape[1], lift.columns.shape[1]) == shape
            chain = (lift, *operators(batch))
            for (height, width), op in zip(sizes(chain), chain[1:], strict=False):
                assert (op.rows.shape[1], op.columns.shape[1]) == (height, width)
            assert sizes(chain)[-1] == (1, 1)


def test_maps_come_back_to_the_image():
    maps = plan(center=False)
    for batch in maps.batches((40, 31), SCALES):
        found = [(len(op.rows), len(op.columns)) for op in maps.operators_to_pixels(batch)]
        assert found == [(40, 31)] * len(batch.scales)


def test_zero_boundary_mirrors_where_the_cone_ends_the_grid():
    for batch in plan(boundary="constant").batches((112, 112), SCALES[:1]):
        for op in operators(batch, boundary="constant"):
            np.testing.assert_allclose(op.rows.sum(axis=1), 1)


def test_costs_count_what_the_plan_needs():
    widths = (2, 3, 4, 5, 6, 7)
    expected = 0
    for batch in plan().batches((30, 22), SCALES[:2]):
        for lift in lifts(batch):
            x = np.ones((30, 22, 1))
            for k, op in enumerate((lift, *operators(batch))):
                c = x.shape[-1]
                expected += op.rows.size * x.shape[1] * c
                expected += op.columns.size * len(op.rows) * c
                x = np.ones((len(op.rows) - 2, len(op.columns) - 2, widths[k]))
                expected += 9 * c * x.size
    costs = plan().costs((30, 22), SCALES[:2], features(widths))
    assert len(costs) == 7 and sum(map(sum, costs)) == expected and costs[-1] == (0, 0)


def test_matched_is_far_cheaper_than_dense():
    shape, nodes = (112, 112), plan().nodes
    dense = dense_costs(nodes, 1e-3, shape, SCALES, features(WIDTHS))
    taps = sum(2 * (2 * truncation_radius(scale, 1e-3) + 1) for scale in SCALES)
    assert dense[0] == (taps * 112 * 112, 8 * 9 * 16 * 112 * 112)
    matched = plan().costs(shape, SCALES, features(WIDTHS))
    assert sum(map(sum, dense)) > 20 * sum(map(sum, matched))


def test_an_octave_of_coarser_channels_costs_next_to_nothing():
    # Of a cone that the coarse channels' grids lie within; a narrow one makes fine ones as cheap.
    few, many = (
        sum(map(sum, plan(cone=3.5).costs((112, 112), scales, features(WIDTHS))))
        for scales in (SCALES, (*SCALES, 8 * 2**0.5, 16.0))
    )
    assert many < 1.03 * few


def test_a_cone_cuts_branches_as_far_as_their_consumers_reach():
    """Image -> a -> b, and a + b at the centre: a is needed for b, and for the sum less far."""
    nodes = (Node((0,), 1.0, 1), Node((1,), 1.0, 1), Node((1, 2)), Node((3,), read="center"))
    network = Plan(nodes, "symmetric", 1e-3, cone=3.0)
    (batch,) = network.batches((99, 99), [1.0])
    # Three standard deviations of one more smoothing; the sum and what is read of it are a point.
    assert [grid and grid[0].size for grid in batch.grids] == [None, 7, 1, 1, None]
    assert sizes(network.operators(batch, 0, 1)) == [(7, 7)]
    assert sizes(network.operators(batch, 1, 2)) == [(1, 1)]
    assert network.operators(batch, 1, 3) == (None,)  # nothing to do but to crop


@given(st.integers(3, 90), st.integers(3, 90), st.sampled_from(SCALES))
def test_points_cover_the_image_from_its_center(height, width, scale):
    (grid,) = plan(center=False).point_grids((height, width), [scale])
    assert grid.step == pytest.approx(SIGMAS[-1] * scale) and grid.scale == scale
    for count, size in ((grid.rows, height), (grid.columns, width)):
        reach = (count - 1) / 2 * grid.step
        assert count % 2 == 1
        assert reach < size / 2 + 1e-6 and (reach + grid.step > size / 2 - 1e-3 or count == 1)


def test_points_need_maps():
    with pytest.raises(ValueError, match="read-out"):
        plan().point_grids((20, 20), SCALES)
