"""Layers for derivatives, smoothing, normalization and scale channels."""

from gdn_keras.layers.contrast import ArctanContrast, ContrastStretch
from gdn_keras.layers.gaussian_derivative import GaussianDerivative, GaussianSmoothing
from gdn_keras.layers.pooling import CentralPixel, ScalePooling
from gdn_keras.layers.scale_batch_normalization import ScaleBatchNormalization
from gdn_keras.layers.scale_channels import ScaleChannels

__all__ = [
    "ArctanContrast", "CentralPixel", "ContrastStretch", "GaussianDerivative", "GaussianSmoothing",
    "ScaleBatchNormalization", "ScaleChannels", "ScalePooling",
]  # fmt: skip
