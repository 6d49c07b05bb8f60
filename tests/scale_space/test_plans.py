import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.scale_space import Geometry, Operator, multiply_adds, plan_channels

SIGMAS = tuple(1.25**k for k in range(6))
SCALES = tuple(2 ** (i / 2) for i in range(-1, 7))


def geometry(sampling="matched", center=True, boundary="symmetric", truncation=1e-3, density=1.0):
    margins = (1,) * len(SIGMAS)
    return Geometry(SIGMAS, margins, sampling, center, boundary, truncation, density)


def sizes(operators):
    return [(len(op.rows) - 2, len(op.columns) - 2) for op in operators]


def test_matched_channels_share_their_operators():
    groups = plan_channels((112, 112), SCALES, geometry())
    assert [scale for group in groups for scale in group.scales] == list(SCALES)
    # The channels that the image does not cut run as one batch.
    assert len(groups[0].scales) >= 4
    for group in groups:
        assert len(group.lifts) == len(group.scales)
        assert {op.sigma for op in (*group.lifts, *group.operators)} == {1.0}


@given(st.integers(8, 200), st.sampled_from(SCALES), st.sampled_from([2, 3, 4]))
def test_matched_operators_do_not_depend_on_scale(size, scale, factor):
    """A channel on an image, and one `factor` coarser on an image `factor` larger."""
    (one,) = plan_channels((size, size), [scale], geometry())
    (other,) = plan_channels((size * factor, size * factor), [scale * factor], geometry())
    for a, b in zip(one.operators, other.operators, strict=True):
        np.testing.assert_allclose(a.rows, b.rows, atol=1e-9)
        np.testing.assert_allclose(a.columns, b.columns, atol=1e-9)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
@pytest.mark.parametrize("shape", [(112, 112), (113, 64), (9, 28)])
def test_operators_fit_together_and_end_at_the_centre(sampling, shape):
    for group in plan_channels(shape, SCALES, geometry(sampling)):
        for lift in group.lifts:
            assert (lift.rows.shape[1], lift.columns.shape[1]) == shape
            chain = (lift, *group.operators)
            for (height, width), op in zip(sizes(chain), chain[1:], strict=False):
                assert (op.rows.shape[1], op.columns.shape[1]) == (height, width)
            odd_or_even = [1 if sampling == "matched" else 2 - n % 2 for n in shape]
            assert sizes(chain)[-1] == tuple(odd_or_even)


def test_dense_maps_stay_on_the_image():
    for group in plan_channels((40, 31), SCALES, geometry("dense", center=False)):
        assert group.outputs is None
        assert set(sizes((*group.lifts, *group.operators))) == {(40, 31)}


def test_matched_maps_come_back_to_the_image():
    for group in plan_channels((40, 31), SCALES, geometry(center=False)):
        assert [(len(op.rows), len(op.columns)) for op in group.outputs] == [
            (40, 31) for _ in group.scales
        ]


def test_zero_boundary_mirrors_where_the_cone_ends_the_grid():
    for group in plan_channels((112, 112), SCALES[:1], geometry(boundary="zero")):
        for op in group.operators:
            np.testing.assert_allclose(op.rows.sum(axis=1), 1)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_multiply_adds_counts_what_the_plan_needs(sampling):
    groups = plan_channels((30, 22), SCALES[:2], geometry(sampling))
    assert not any(op.pays_factored(6, 7, 1) for group in groups for op in group.operators)
    widths = (2, 3, 4, 5, 6, 7)
    expected = 0
    for group in groups:
        for lift in group.lifts:
            x = np.ones((30, 22, 1))
            for k, op in enumerate((lift, *group.operators)):
                c = x.shape[-1]
                expected += op.rows.size * x.shape[1] * c
                expected += op.columns.size * len(op.rows) * c
                x = np.ones((len(op.rows) - 2, len(op.columns) - 2, widths[k]))
                expected += 9 * c * x.size
    assert multiply_adds(groups, widths, 1, (1,) * 6) == expected


def test_matched_is_far_cheaper_than_dense():
    widths = (16, 24, 32, 48, 64, 10)
    cost = {
        sampling: multiply_adds(
            plan_channels((112, 112), SCALES, geometry(sampling)), widths, 1, (1,) * 6
        )
        for sampling in ("matched", "dense")
    }
    assert cost["dense"] > 20 * cost["matched"]


def test_an_octave_of_coarser_channels_costs_next_to_nothing():
    widths = (16, 24, 32, 48, 64, 10)
    few, many = (
        multiply_adds(plan_channels((112, 112), scales, geometry()), widths, 1, (1,) * 6)
        for scales in (SCALES, (*SCALES, 8 * 2**0.5, 16.0))
    )
    assert many < 1.03 * few


def test_factored_operators_are_close_and_of_low_rank_at_coarse_scales():
    (group,) = plan_channels((112, 100), [8.0], geometry("dense", truncation=1e-4))
    for op in group.operators:
        for matrix, factors in zip((op.rows, op.columns), op.factors, strict=True):
            close = factors.expand @ factors.compress
            assert np.linalg.norm(close - matrix, 2) <= 1e-4 * np.linalg.norm(matrix, 2)
            # Frequencies up to w pass with exp(-w^2 sigma^2 / 2), 1e-4 at w = 4.3 / sigma.
            assert len(factors.compress) < 4.3 / op.sigma * matrix.shape[1] / np.pi + 4


def test_factored_operators_pay_at_coarse_scales_only():
    widths = (16, 24, 32, 48, 64, 10)
    for scale, pays in ((0.7071, False), (8.0, True)):
        (group,) = plan_channels((112, 112), [scale], geometry("dense", truncation=1e-4))
        for k, op in enumerate(group.operators[:-1]):
            assert op.pays_factored(widths[k], widths[k + 1], 1) == pays


def test_cost_of_a_factored_operator_counts_its_products():
    (group,) = plan_channels((112, 100), [8.0], geometry("dense", truncation=1e-4))
    op, c_in, c_out, taps = group.operators[1], 24, 32, 3
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
    sigmas = SIGMAS[:2]
    third = Geometry(sigmas, (2, 1), "dense", True, "symmetric", 1e-4, 1.0)
    (group,) = plan_channels((112, 112), [8.0], third)
    assert group.lifts[0].factors is None and group.operators[0].factors is not None
