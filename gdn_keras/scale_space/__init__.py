"""The mathematics, in NumPy and SciPy alone: kernels, jets, grids and plans."""

from gdn_keras.checks import BOUNDARIES, MAX_ORDER
from gdn_keras.scale_space.channel_grids import PointGrid, point_grids
from gdn_keras.scale_space.gaussian import (
    DEFAULT_TRUNCATION,
    discrete_gaussian,
    gaussian_kernel,
    kernel_moments,
    truncation_radius,
)
from gdn_keras.scale_space.geometry import (
    DEFAULT_CONE,
    DEFAULT_TRUNCATIONS,
    MAPS,
    SAMPLINGS,
    Geometry,
    Node,
    cascade,
)
from gdn_keras.scale_space.grids import Band, Grid, sampling_matrix
from gdn_keras.scale_space.jets import (
    derivative_stencil,
    directional_derivative,
    gaussian_derivative_kernel,
    jet_orders,
    jet_stencils,
    scale_normalization,
)
from gdn_keras.scale_space.operators import Crop, Factors, LayerCost, Operator, factored
from gdn_keras.scale_space.plans import Group, layer_costs, multiply_adds, plan_channels

__all__ = [
    "BOUNDARIES",
    "DEFAULT_CONE",
    "DEFAULT_TRUNCATION",
    "DEFAULT_TRUNCATIONS",
    "MAPS",
    "MAX_ORDER",
    "SAMPLINGS",
    "Band",
    "Crop",
    "Factors",
    "Geometry",
    "Grid",
    "Group",
    "LayerCost",
    "Node",
    "Operator",
    "PointGrid",
    "cascade",
    "derivative_stencil",
    "directional_derivative",
    "discrete_gaussian",
    "factored",
    "gaussian_derivative_kernel",
    "gaussian_kernel",
    "jet_orders",
    "jet_stencils",
    "kernel_moments",
    "layer_costs",
    "multiply_adds",
    "plan_channels",
    "point_grids",
    "sampling_matrix",
    "scale_normalization",
    "truncation_radius",
]
