import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.scale_space import (
    derivative_stencil,
    directional_derivative,
    gaussian_derivative_kernel,
    jet_orders,
    jet_stencils,
    scale_normalization,
)


def test_stencils_are_the_papers():
    np.testing.assert_array_equal(derivative_stencil(0), [1])
    np.testing.assert_array_equal(derivative_stencil(1), [-0.5, 0, 0.5])
    np.testing.assert_array_equal(derivative_stencil(2), [1, -2, 1])
    np.testing.assert_array_equal(derivative_stencil(3), [-0.5, 1, 0, -1, 0.5])


def test_second_order_jet_is_the_papers():
    assert jet_orders(2) == ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    x, y, xx, xy, yy = jet_stencils(2)
    np.testing.assert_array_equal(x, [[0, 0, 0], [-0.5, 0, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_array_equal(xx, [[0, 0, 0], [0.5, -1, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(xy, np.array([[1, 0, -1], [0, 0, 0], [-1, 0, 1]]) / 4)
    np.testing.assert_array_equal(yy, xx.T)
    np.testing.assert_array_equal(scale_normalization(3.0), [3, 3, 9, 9, 9])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("zero_order", [False, True])
def test_jet_gives_taylor_coefficients_of_polynomials(order, zero_order):
    stencils = jet_stencils(order, zero_order)
    size = stencils.shape[-1]
    n = np.arange(size) - size // 2
    y, x = np.meshgrid(n, n, indexing="ij")
    for i, j in itertools.product(range(order + 1), repeat=2):
        if i + j > order:
            continue
        responses = (stencils * (x**i * y**j)).sum(axis=(1, 2))
        # Third differences of central type see x^3 in the first derivative too: x^3 -> 1.
        for (a, b), response in zip(jet_orders(order, zero_order), responses, strict=True):
            expected = float((a, b) == (i, j))
            if (i, j) in ((3, 0), (0, 3)) and (a, b) in ((1, 0), (0, 1)):
                expected = float((a > 0) == (i > 0))
            assert response == pytest.approx(expected, abs=1e-12), ((i, j), (a, b))


@given(st.floats(-10, 10), st.integers(1, 3))
def test_directional_derivative_of_a_ridge(angle, order):
    # f = (x cos + y sin)^n / n! has n-th directional derivative 1 along `angle`.
    partials = [math.cos(angle) ** (order - j) * math.sin(angle) ** j for j in range(order + 1)]
    assert directional_derivative(order, angle) @ partials == pytest.approx(1)


@pytest.mark.parametrize("angle", [0, math.pi / 6, math.pi / 2, 2.0])
def test_directional_derivatives_are_the_papers(angle):
    c, s = math.cos(angle), math.sin(angle)
    np.testing.assert_allclose(directional_derivative(1, angle), [c, s])
    np.testing.assert_allclose(directional_derivative(2, angle), [c * c, 2 * c * s, s * s])


def test_derivative_kernel_approaches_the_continuous_one():
    sigma = 8.0
    kernel = gaussian_derivative_kernel(1, 1, sigma)
    n = np.arange(len(kernel)) - len(kernel) // 2
    y, x = np.meshgrid(n, n, indexing="ij")
    gaussian = np.exp(-(x**2 + y**2) / (2 * sigma**2)) / (2 * np.pi * sigma**2)
    # As a correlation template: (-1)^|order| times the derivative of the Gaussian.
    continuous = sigma**2 * (x * y / sigma**4) * gaussian
    assert np.abs(kernel - continuous).max() < 0.01 * np.abs(continuous).max()
