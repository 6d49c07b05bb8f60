import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.scale_space import (
    Crop,
    Geometry,
    Node,
    Operator,
    cascade,
    layer_costs,
    multiply_adds,
    plan_channels,
    point_grids,
)

SIGMAS = tuple(1.25**k for k in range(6))
SCALES = tuple(2 ** (i / 2) for i in range(-1, 7))


def geometry(sampling="matched", center=True, boundary="symmetric", truncation=1e-3, **options):
    nodes = cascade(SIGMAS, read="center" if center else None)
    return Geometry(nodes, sampling, boundary, truncation, 1.0, **options)


def features(widths):
    """Of the image, the layers, and what is read of the last one."""
    return (1, *widths, widths[-1])


def lifts(group):
    """The first layer's operator in each channel."""
    ((found,), *_) = group.edges
    return found


def operators(group):
    """The operators of the layers after the first, which all channels share."""
    found = []
    for (edges,) in group.edges[1 : len(SIGMAS)]:
        assert all(edge is edges[0] for edge in edges)
        found.append(edges[0])
    return found


def sizes(operators):
    return [(len(op.rows) - 2, len(op.columns) - 2) for op in operators]


def test_matched_channels_share_their_operators():
    groups = plan_channels((112, 112), SCALES, geometry())
    assert [scale for group in groups for scale in group.scales] == list(SCALES)
    # The channels that the image does not cut run as one batch.
    assert len(groups[0].scales) >= 4
    for group in groups:
        assert len(lifts(group)) == len(group.scales)
        assert {op.sigma for op in (*lifts(group), *operators(group))} == {1.0}


@given(st.integers(8, 200), st.sampled_from(SCALES), st.sampled_from([2, 3, 4]))
def test_matched_operators_do_not_depend_on_scale(size, scale, factor):
    """A channel on an image, and one `factor` coarser on an image `factor` larger."""
    (one,) = plan_channels((size, size), [scale], geometry())
    (other,) = plan_channels((size * factor, size * factor), [scale * factor], geometry())
    for a, b in zip(operators(one), operators(other), strict=True):
        np.testing.assert_allclose(a.rows, b.rows, atol=1e-9)
        np.testing.assert_allclose(a.columns, b.columns, atol=1e-9)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
@pytest.mark.parametrize("shape", [(112, 112), (113, 64), (9, 28)])
def test_operators_fit_together_and_end_at_the_center(sampling, shape):
    for group in plan_channels(shape, SCALES, geometry(sampling)):
        for lift in lifts(group):
            assert (lift.rows.shape[1], lift.columns.shape[1]) == shape
            chain = (lift, *operators(group))
            for (height, width), op in zip(sizes(chain), chain[1:], strict=False):
                assert (op.rows.shape[1], op.columns.shape[1]) == (height, width)
            odd_or_even = [1 if sampling == "matched" else 2 - n % 2 for n in shape]
            assert sizes(chain)[-1] == tuple(odd_or_even)


def test_dense_maps_stay_on_the_image():
    for group in plan_channels((40, 31), SCALES, geometry("dense", center=False)):
        assert group.outputs is None
        assert set(sizes((*lifts(group), *operators(group)))) == {(40, 31)}


def test_matched_maps_come_back_to_the_image():
    for group in plan_channels((40, 31), SCALES, geometry(center=False)):
        assert [(len(op.rows), len(op.columns)) for op in group.outputs] == [
            (40, 31) for _ in group.scales
        ]


def test_zero_boundary_mirrors_where_the_cone_ends_the_grid():
    for group in plan_channels((112, 112), SCALES[:1], geometry(boundary="constant")):
        for op in operators(group):
            np.testing.assert_allclose(op.rows.sum(axis=1), 1)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_multiply_adds_counts_what_the_plan_needs(sampling):
    groups = plan_channels((30, 22), SCALES[:2], geometry(sampling))
    assert not any(op.pays_factored(6, 7, 1) for group in groups for op in operators(group))
    widths = (2, 3, 4, 5, 6, 7)
    expected = 0
    for group in groups:
        for lift in lifts(group):
            x = np.ones((30, 22, 1))
            for k, op in enumerate((lift, *operators(group))):
                c = x.shape[-1]
                expected += op.rows.size * x.shape[1] * c
                expected += op.columns.size * len(op.rows) * c
                x = np.ones((len(op.rows) - 2, len(op.columns) - 2, widths[k]))
                expected += 9 * c * x.size
    assert multiply_adds(groups, geometry(sampling), features(widths)) == expected
    costs = layer_costs(groups, geometry(sampling), features(widths))
    assert len(costs) == 7 and sum(map(sum, costs)) == expected and costs[-1] == (0, 0)


def test_matched_is_far_cheaper_than_dense():
    widths = (16, 24, 32, 48, 64, 10)
    cost = {
        sampling: multiply_adds(
            plan_channels((112, 112), SCALES, geometry(sampling)),
            geometry(sampling),
            features(widths),
        )
        for sampling in ("matched", "dense")
    }
    assert cost["dense"] > 20 * cost["matched"]


def test_an_octave_of_coarser_channels_costs_next_to_nothing():
    widths = (16, 24, 32, 48, 64, 10)
    # Of a cone that the coarse channels' grids lie within; a narrow one makes fine ones as cheap.
    wide = geometry(cone=3.5)
    few, many = (
        multiply_adds(plan_channels((112, 112), scales, wide), wide, features(widths))
        for scales in (SCALES, (*SCALES, 8 * 2**0.5, 16.0))
    )
    assert many < 1.03 * few


def test_factored_operators_are_close_and_of_low_rank_at_coarse_scales():
    (group,) = plan_channels((112, 100), [8.0], geometry("dense", truncation=1e-4))
    for op in operators(group):
        for matrix, factors in zip((op.rows, op.columns), op.factors, strict=True):
            close = factors.expand @ factors.compress
            assert np.linalg.norm(close - matrix, 2) <= 1e-4 * np.linalg.norm(matrix, 2)
            # Frequencies up to w pass with exp(-w^2 sigma^2 / 2), 1e-4 at w = 4.3 / sigma.
            assert len(factors.compress) < 4.3 / op.sigma * matrix.shape[1] / np.pi + 4


def test_factored_operators_pay_at_coarse_scales_only():
    widths = (16, 24, 32, 48, 64, 10)
    for scale, pays in ((0.7071, False), (8.0, True)):
        (group,) = plan_channels((112, 112), [scale], geometry("dense", truncation=1e-4))
        for k, op in enumerate(operators(group)[:-1]):
            assert op.pays_factored(widths[k], widths[k + 1], 1) == pays


def test_cost_of_a_factored_operator_counts_its_products():
    (group,) = plan_channels((112, 100), [8.0], geometry("dense", truncation=1e-4))
    op, c_in, c_out, taps = operators(group)[1], 24, 32, 3
    height, width = op.rows.shape[1], op.columns.shape[1]
    (p, q), (r, t) = sizes([op])[0], (len(factors.compress) for factors in op.factors)
    # [r, height] on columns, then [t, width] on rows
    compressing = r * height * width * c_in + t * width * r * c_in
    # [r t, c_in] times [c_in, 9 c_out]
    mixing = r * t * c_in * taps**2 * c_out
    # [p, 3 r] on 3 t columns, then [q, 3 t] on p rows
    expanding = p * (taps * r) * (taps * t * c_out) + q * (taps * t) * (p * c_out)
    assert op.cost(c_in, c_out, 1) == (compressing + expanding, mixing)
    direct = Operator(op.rows, op.columns, op.sigma).cost(c_in, c_out, 1)
    assert sum(op.cost(c_in, c_out, 1)) < sum(direct) / 4


def test_third_order_operators_are_not_factored():
    third = Geometry(cascade(SIGMAS[:2], (2, 1)), "dense", "symmetric", 1e-4, 1.0)
    (group,) = plan_channels((112, 112), [8.0], third)
    (((first,),), ((second,),), _) = group.edges
    assert first.factors is None and second.factors is not None


def test_a_cone_cuts_branches_as_far_as_their_consumers_reach():
    """Image -> a -> b, and a + b at the centre: a is needed for b, and for the sum less far."""
    nodes = (Node((0,), 1.0, 1), Node((1,), 1.0, 1), Node((1, 2)), Node((3,), read="center"))
    branches = Geometry(nodes, "matched", "symmetric", 1e-3, 1.0, cone=3.0)
    (group,) = plan_channels((99, 99), [1.0], branches)
    a, b, merge, read = group.edges
    assert sizes(a[0]) == [(7, 7)]  # three standard deviations of one more smoothing
    assert sizes(b[0]) == [(1, 1)]
    assert merge == ((Crop(1, 1),), (None,)) and read == ((None,),)


@given(st.integers(3, 90), st.integers(3, 90), st.sampled_from(SCALES))
def test_points_cover_the_image_from_its_center(height, width, scale):
    (grid,) = point_grids((height, width), [scale], geometry(center=False))
    assert grid.step == pytest.approx(SIGMAS[-1] * scale) and grid.scale == scale
    for count, size in ((grid.rows, height), (grid.columns, width)):
        reach = (count - 1) / 2 * grid.step
        assert count % 2 == 1
        assert reach < size / 2 + 1e-6 and (reach + grid.step > size / 2 - 1e-3 or count == 1)
