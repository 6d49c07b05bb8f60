import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyscsp.discscsp import make1Ddiscgaussfilter

from gdn_keras.scale_space import gaussian_kernel, kernel_moments, truncation_radius

SIGMAS = st.floats(0, 40)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 0.9, 1.0, 2**0.5, 3.05, 8.0, 24.4, 40.0])
def test_kernel_equals_pyscsp(sigma):
    ours = gaussian_kernel(sigma, 1e-12, normalize=False)
    theirs = make1Ddiscgaussfilter(sigma, 1e-12)
    radius = min(len(ours), len(theirs)) // 2
    for_both = [k[len(k) // 2 - radius : len(k) // 2 + radius + 1] for k in (ours, theirs)]
    np.testing.assert_allclose(*for_both, rtol=0, atol=1e-12)


@given(SIGMAS, SIGMAS)
def test_semigroup(sigma1, sigma2):
    cascade = np.convolve(gaussian_kernel(sigma1, 1e-13), gaussian_kernel(sigma2, 1e-13))
    direct = gaussian_kernel(np.hypot(sigma1, sigma2), 1e-13)
    size = max(len(cascade), len(direct))
    cascade, direct = (np.pad(k, (size - len(k)) // 2) for k in (cascade, direct))
    np.testing.assert_allclose(cascade, direct, rtol=0, atol=1e-10)


@given(SIGMAS)
def test_moments_at_tight_truncation(sigma):
    mass, mean, variance = kernel_moments(gaussian_kernel(sigma, 1e-14))
    assert mass == pytest.approx(1, abs=1e-14)
    assert mean == pytest.approx(0, abs=1e-12)
    assert variance == pytest.approx(sigma**2, abs=1e-6)


@given(SIGMAS, st.floats(1e-10, 0.3))
def test_truncation_radius_is_the_smallest_that_holds(sigma, truncation):
    radius = truncation_radius(sigma, truncation)
    whole = gaussian_kernel(sigma, 1e-15, normalize=False)
    center = len(whole) // 2

    def cut_off(r):
        return whole[: max(center - r, 0)].sum() + whole[center + r + 1 :].sum()

    assert cut_off(radius) <= truncation * (1 + 1e-4)
    assert radius == 0 or cut_off(radius - 1) >= truncation * (1 - 1e-4)


@pytest.mark.parametrize("sigma", [0, 1e-6, 1e-3, 0.1, 1.0, 100.0, 1e3])
@pytest.mark.parametrize("truncation", [1e-2, 1e-4, 1e-12])
def test_any_sigma_gives_a_symmetric_finite_kernel_of_mass_one(sigma, truncation):
    kernel = gaussian_kernel(sigma, truncation)
    assert np.all(np.isfinite(kernel)) and np.all(kernel >= 0)
    np.testing.assert_array_equal(kernel, kernel[::-1])
    assert kernel.sum() == pytest.approx(1, abs=1e-15 * len(kernel))


def test_zero_sigma_is_the_identity():
    np.testing.assert_array_equal(gaussian_kernel(0), [1.0])
