"""The discrete analogue of the Gaussian kernel."""

import numpy as np
from scipy.special import ive

from gdn_keras.checks import check_non_negative, check_truncation

DEFAULT_TRUNCATION = 1e-3
MAX_SIGMA = 1e4  # grid steps; beyond 3.2e4 SciPy's Bessel functions are not a number


def discrete_gaussian(n: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
    """The discrete analogue of the Gaussian, `T(n; s) = e^{-s} I_n(s)`.

    I_n is the modified Bessel function of integer order. T has variance exactly s, sums to one
    over the integers, and `T(.; s1) * T(.; s2) = T(.; s1 + s2)`, as the continuous Gaussian does.

    Args:
        n: Integer positions, in grid steps.
        variance: s = sigma^2 >= 0, in squared grid steps. Broadcasts against `n`.

    Returns:
        float64 array of the broadcast shape. Variance 0 gives the unit impulse.
    """
    return ive(np.abs(n), np.asarray(variance, dtype=np.float64))


def truncation_radius(sigma: float, truncation: float = DEFAULT_TRUNCATION) -> int:
    """The smallest radius R for which the mass of T(n; sigma^2) over |n| > R is below `truncation`.

    Args:
        sigma: Standard deviation in grid steps, any value >= 0.
        truncation: Bound on the mass that is cut off, both tails together, in (0, 1).
    """
    sigma = check_non_negative("sigma", sigma)
    if sigma > MAX_SIGMA:
        raise ValueError(
            f"`sigma` must be at most {MAX_SIGMA:g} grid steps. Received: sigma={sigma!r}"
        )
    truncation = check_truncation(truncation)
    # Far enough for any admissible `truncation`: 40 terms of (s/2)^n / n! at small s, and
    # twelve standard deviations where T is close to the continuous Gaussian.
    n = np.arange(1, 40 + int(np.ceil(12 * sigma)))
    taps = 2 * discrete_gaussian(n, sigma**2)
    tail_beyond = np.append(np.cumsum(taps[::-1])[::-1], 0.0)
    return int(np.argmax(tail_beyond < truncation))


def gaussian_kernel(
    sigma: float, truncation: float = DEFAULT_TRUNCATION, normalize: bool = True
) -> np.ndarray:
    """The discrete Gaussian kernel on the integers -R ... R.

    Args:
        sigma: Standard deviation in grid steps. 0 gives the identity, `[1.0]`.
        truncation: Bound on the mass that is cut off; it sets R (see `truncation_radius`).
        normalize: Scale the truncated kernel to sum one, so that constants stay constant.

    Returns:
        float64 array of odd length 2R + 1.
    """
    radius = truncation_radius(sigma, truncation)
    kernel = discrete_gaussian(np.arange(-radius, radius + 1), sigma**2)
    return kernel / kernel.sum() if normalize else kernel


def kernel_moments(kernel: np.ndarray) -> tuple[float, float, float]:
    """Mass, mean and variance of a kernel given on the integers -R ... R."""
    radius = len(kernel) // 2
    n = np.arange(-radius, radius + 1)
    mass = kernel.sum()
    mean = (n * kernel).sum() / mass
    return float(mass), float(mean), float(((n - mean) ** 2 * kernel).sum() / mass)
