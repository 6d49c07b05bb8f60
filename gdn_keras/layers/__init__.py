"""Layers for derivatives, smoothing, normalization and scale channels."""

from gdn_keras.layers.arctan_contrast import ArctanContrast
from gdn_keras.layers.central_pixel import CentralPixel
from gdn_keras.layers.contrast_stretch import ContrastStretch
from gdn_keras.layers.gaussian_derivative import GaussianDerivative
from gdn_keras.layers.gaussian_smoothing import GaussianSmoothing
from gdn_keras.layers.scale_batch_normalization import ScaleBatchNormalization
from gdn_keras.layers.scale_channels import ScaleChannels
from gdn_keras.layers.scale_pooling import ScalePooling

__all__ = [
    "ArctanContrast",
    "CentralPixel",
    "ContrastStretch",
    "GaussianDerivative",
    "GaussianSmoothing",
    "ScaleBatchNormalization",
    "ScaleChannels",
    "ScalePooling",
]
