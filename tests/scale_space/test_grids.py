import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import convolve1d

from gdn_keras.scale_space import BOUNDARIES, Grid, gaussian_kernel, sampling_matrix

SCIPY_MODES = {"symmetric": "reflect", "edge": "nearest", "constant": "constant"}


@pytest.mark.parametrize("moments", [2, 4])
@given(st.floats(-3, 3), st.floats(0.51, 6), st.floats(0.2, 3))
def test_rows_have_the_asked_mean_and_variance(moments, position, sigma_steps, step):
    source = Grid(161, step)
    target = Grid(1, 1.0, center=position)
    sigma = sigma_steps * step
    (row,) = sampling_matrix(source, target, sigma, truncation=1e-15, moments=moments)
    mean = row @ source.positions()
    variance = row @ (source.positions() - mean) ** 2
    assert row.sum() == pytest.approx(1, abs=1e-12)
    # Positions within 1e-9 steps of a sample are taken for it.
    assert mean == pytest.approx(position, abs=1.1e-9 * max(step, 1))
    assert variance == pytest.approx(sigma**2, abs=1e-9)
    if moments == 4:
        third, fourth = (row @ (source.positions() - mean) ** k for k in (3, 4))
        assert third == pytest.approx(0, abs=1e-8 * max(1, step**3))
        assert fourth == pytest.approx(3 * sigma**4, rel=1e-6)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("size", [1, 2, 3, 10, 41])
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0, 7.0, 40.0])
def test_on_the_same_grid_it_is_convolution(boundary, size, sigma):
    signal = np.random.default_rng(size).normal(size=size)
    matrix = sampling_matrix(Grid(size), Grid(size), sigma, boundary, truncation=1e-6)
    expected = convolve1d(signal, gaussian_kernel(sigma, 1e-6), mode=SCIPY_MODES[boundary])
    np.testing.assert_allclose(matrix @ signal, expected, atol=1e-12)


@pytest.mark.parametrize("boundary", ["symmetric", "edge"])
@given(st.integers(1, 30), st.integers(1, 20), st.floats(0.1, 4), st.floats(0.5, 20))
def test_constants_stay_constant(boundary, source, target, step, sigma):
    matrix = sampling_matrix(Grid(source), Grid(target, step), sigma, boundary)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    assert np.all(matrix >= 0)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_four_moments_beyond_the_edges(boundary):
    """On a longer signal that continues by the boundary rule, nothing is folded near the middle."""
    signal = np.random.default_rng(0).normal(size=9)
    padding = {"symmetric": "symmetric", "edge": "edge", "constant": "constant"}[boundary]
    longer = np.pad(signal, 40, mode=padding)
    target = Grid(23, 0.6)
    here = sampling_matrix(Grid(9), target, 0.8, boundary, moments=4) @ signal
    np.testing.assert_allclose(
        here, sampling_matrix(Grid(89), target, 0.8, moments=4) @ longer, atol=1e-12
    )


def test_crop_is_rows_of_the_whole():
    whole = sampling_matrix(Grid(50), Grid(50), 2.0)
    crop = sampling_matrix(Grid(50), Grid(20), 2.0)
    np.testing.assert_allclose(crop, whole[15:35])


def test_sampling_between_pixels_follows_a_smooth_function():
    # exp(-x^2 / 2 a^2) smoothed with sigma is known in closed form.
    a, sigma = 6.0, 2.0
    source, target = Grid(101), Grid(31, 0.77)
    smoothed = sampling_matrix(source, target, sigma, truncation=1e-9) @ np.exp(
        -(source.positions() ** 2) / (2 * a**2)
    )
    b = np.hypot(a, sigma)
    expected = a / b * np.exp(-(target.positions() ** 2) / (2 * b**2))
    np.testing.assert_allclose(smoothed, expected, atol=2e-3)


def test_four_moments_follow_it_more_closely():
    """What is left is of fifth and sixth order: it falls with the width of the blob."""
    a, sigma = 4.0, 0.75
    source, target = Grid(41), Grid(21, 0.77)
    signal = np.exp(-(source.positions() ** 2) / (2 * a**2))
    b = np.hypot(a, sigma)
    expected = a / b * np.exp(-(target.positions() ** 2) / (2 * b**2))
    two, four = (
        np.abs(
            sampling_matrix(source, target, sigma, truncation=1e-9, moments=m) @ signal - expected
        )
        for m in (2, 4)
    )
    assert four.max() < 0.1 * two.max()


def test_sigma_below_half_a_step_is_refused_between_pixels():
    with pytest.raises(ValueError, match=r"`sigma` is too small.*Received: sigma=0.4"):
        sampling_matrix(Grid(11), Grid(11, 0.7), 0.4)


def test_bad_moments():
    with pytest.raises(ValueError, match=r"`moments` must be one of 2, 4. Received: moments=3"):
        sampling_matrix(Grid(5), Grid(5), 1.0, moments=3)
