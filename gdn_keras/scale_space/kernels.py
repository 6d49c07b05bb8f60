"""The discrete Gaussian, central-difference stencils, scale-normalized jets, directions."""

import math
from functools import reduce

import numpy as np
from scipy.special import ive

from gdn_keras.checks import check_non_negative, check_order, check_truncation, require

DEFAULT_TRUNCATION = 1e-3
MAX_SIGMA = 1e4  # grid steps; beyond 3.2e4 SciPy's Bessel functions are not a number

# delta_x and delta_xx of the paper's section 5.1; higher orders are their products.
_FIRST = np.array([-0.5, 0.0, 0.5])
_SECOND = np.array([1.0, -2.0, 1.0])


def discrete_gaussian(n: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
    """The discrete analogue of the Gaussian, `T(n; s) = e^{-s} I_n(s)`.

    I_n is the modified Bessel function of integer order. T has variance exactly s, sums to one
    over the integers, and `T(.; s1) * T(.; s2) = T(.; s1 + s2)`, as the continuous Gaussian does.

    Args:
        n: Integer positions, in grid steps.
        variance: s = sigma^2 >= 0, in squared grid steps. Broadcasts against `n`. 0 gives the unit
            impulse.
    """
    return ive(np.abs(n), np.asarray(variance, dtype=np.float64))


def truncation_radius(sigma: float, truncation: float = DEFAULT_TRUNCATION) -> int:
    """The smallest radius R for which the mass of T(n; sigma^2) over |n| > R is below `truncation`.

    Args:
        sigma: Standard deviation in grid steps, any value >= 0.
        truncation: Bound on the mass that is cut off, both tails together, in (0, 1).
    """
    sigma = check_non_negative("sigma", sigma)
    require(sigma <= MAX_SIGMA, "sigma", f"be at most {MAX_SIGMA:g} grid steps", sigma)
    truncation = check_truncation(truncation)
    # Far enough for any `truncation`: 40 terms of (s/2)^n / n! at small s, and twelve standard
    # deviations where T is close to the continuous Gaussian.
    n = np.arange(1, 40 + int(np.ceil(12 * sigma)))
    taps = 2 * discrete_gaussian(n, sigma**2)
    tail_beyond = np.append(np.cumsum(taps[::-1])[::-1], 0.0)
    return int(np.argmax(tail_beyond < truncation))


def gaussian_kernel(
    sigma: float, truncation: float = DEFAULT_TRUNCATION, normalize: bool = True
) -> np.ndarray:
    """The discrete Gaussian kernel on the integers -R ... R, a float64 array of length 2R + 1.

    Args:
        sigma: Standard deviation in grid steps. 0 gives the identity, `[1.0]`.
        truncation: Bound on the mass that is cut off; it sets R (see `truncation_radius`).
        normalize: Scale the truncated kernel to sum one, so that constants stay constant.
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


def derivative_stencil(order: int) -> np.ndarray:
    """The central difference of an order, to be applied as a correlation.

    Order 0 is `[1]`, order 1 is (-1/2, 0, 1/2), order 2 is (1, -2, 1), and order 3 is their
    product (-1/2, 1, 0, -1, 1/2). Differences of order n are exact on polynomials of degree n.
    """
    factors = [_SECOND] * (order // 2) + [_FIRST] * (order % 2)
    # Convolution of correlation stencils is the stencil of the composed operator.
    return reduce(np.convolve, factors, np.ones(1))


def jet_orders(order: int = 2, zero_order: bool = False) -> tuple[tuple[int, int], ...]:
    """Orders (along x, along y) of the jet's terms, lowest total order first: x, y, xx, xy, yy, ...

    `zero_order` puts the smoothed image itself, (0, 0), in front.
    """
    order = check_order(order)
    lowest = 0 if zero_order else 1
    return tuple((n - j, j) for n in range(lowest, order + 1) for j in range(n + 1))


def jet_stencils(order: int = 2, zero_order: bool = False) -> np.ndarray:
    """The jet's stencils and Taylor factors, eq. (lin-comb-2-jet): [terms, size, size].

    The factor of d^{a+b}/dx^a dy^b is 1 / (a! b!): 1/2, 1, 1/2 at second order. Rows are along y
    and columns along x; the size is 3 up to order 2 and 5 for order 3.
    """
    size = 3 if check_order(order) <= 2 else 5
    stencils = []
    for a, b in jet_orders(order, zero_order):
        along_x, along_y = (_centered(derivative_stencil(n), size) for n in (a, b))
        stencils.append(np.outer(along_y, along_x) / (math.factorial(a) * math.factorial(b)))
    return np.stack(stencils)


def scale_normalization(sigma: float, order: int = 2, zero_order: bool = False) -> np.ndarray:
    """The factors sigma^(a+b) of scale-normalized derivatives (gamma = 1), one for each term."""
    sigma = check_non_negative("sigma", sigma)
    return np.array([sigma ** (a + b) for a, b in jet_orders(order, zero_order)])


def directional_derivative(order: int, angle: float) -> np.ndarray:
    """Weights of the partial derivatives in the directional derivative along `angle`.

    First order: (cos, sin) for L_x, L_y, eq. (1st-order-dir-der). Second order: (cos^2,
    2 cos sin, sin^2) for L_xx, L_xy, L_yy, eq. (2nd-order-dir-der). Third order likewise. The angle
    is in radians, from the x axis (columns) towards the y axis (rows).
    """
    order = check_order(order)
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([math.comb(order, j) * cos ** (order - j) * sin**j for j in range(order + 1)])


def gaussian_derivative_kernel(
    a: int, b: int, sigma: float, truncation: float = 1e-6
) -> np.ndarray:
    """The scale-normalized derivative kernel of order `a` along x and `b` along y, written out.

    It is what a receptive field looks like. Layers never form it: they smooth once for all orders.

    Args:
        a, b: Orders along x and y.
        sigma: Standard deviation in pixels.
        truncation: Bound on the mass of the smoothing kernel that is cut off.
    """
    smooth = gaussian_kernel(sigma, truncation)
    along_x, along_y = (np.convolve(smooth, _centered(derivative_stencil(n), 5)) for n in (a, b))
    return sigma ** (a + b) * np.outer(along_y, along_x)


def _centered(stencil: np.ndarray, size: int) -> np.ndarray:
    return np.pad(stencil, (size - len(stencil)) // 2)
