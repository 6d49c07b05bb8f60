"""The mathematics, in NumPy and SciPy alone: kernels, jets, grids and plans."""

from gdn_keras.checks import BOUNDARIES
from gdn_keras.scale_space.grids import Band, Grid, sampling_matrix
from gdn_keras.scale_space.kernels import (
    DEFAULT_TRUNCATION,
    derivative_stencil,
    directional_derivative,
    discrete_gaussian,
    gaussian_derivative_kernel,
    gaussian_kernel,
    jet_orders,
    jet_stencils,
    kernel_moments,
    scale_normalization,
    truncation_radius,
)
from gdn_keras.scale_space.sampling_plan import (
    DEFAULT_CONE,
    SAMPLINGS,
    Batch,
    Cost,
    Node,
    Operator,
    Plan,
    PointGrid,
    cascade,
    dense_costs,
    grid_spacings,
)

__all__ = [
    "BOUNDARIES", "DEFAULT_CONE", "DEFAULT_TRUNCATION", "SAMPLINGS", "Band", "Batch",
    "Cost", "Grid", "Node", "Operator", "Plan", "PointGrid", "cascade", "dense_costs",
    "derivative_stencil", "directional_derivative", "discrete_gaussian",
    "gaussian_derivative_kernel", "gaussian_kernel", "grid_spacings", "jet_orders", "jet_stencils",
    "kernel_moments", "sampling_matrix", "scale_normalization", "truncation_radius",
]  # fmt: skip
