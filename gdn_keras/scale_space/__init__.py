"""The mathematics, in NumPy and SciPy alone: kernels, jets, grids and plans."""

from gdn_keras.scale_space.gaussian import (
    DEFAULT_TRUNCATION,
    discrete_gaussian,
    gaussian_kernel,
    kernel_moments,
    truncation_radius,
)
from gdn_keras.scale_space.grids import Grid, sampling_matrix
from gdn_keras.scale_space.jets import (
    derivative_stencil,
    directional_derivative,
    gaussian_derivative_kernel,
    jet_orders,
    jet_stencils,
    scale_normalization,
)
from gdn_keras.scale_space.operators import Factors, LayerCost, Operator, factored
from gdn_keras.scale_space.plans import (
    DEFAULT_TRUNCATIONS,
    SAMPLINGS,
    Geometry,
    Group,
    multiply_adds,
    plan_channels,
)
from gdn_keras.scale_space.validation import BOUNDARIES, MAX_ORDER

__all__ = [
    "BOUNDARIES",
    "DEFAULT_TRUNCATION",
    "DEFAULT_TRUNCATIONS",
    "MAX_ORDER",
    "SAMPLINGS",
    "Factors",
    "Geometry",
    "Grid",
    "Group",
    "LayerCost",
    "Operator",
    "derivative_stencil",
    "directional_derivative",
    "discrete_gaussian",
    "factored",
    "gaussian_derivative_kernel",
    "gaussian_kernel",
    "jet_orders",
    "jet_stencils",
    "kernel_moments",
    "multiply_adds",
    "plan_channels",
    "sampling_matrix",
    "scale_normalization",
    "truncation_radius",
]
