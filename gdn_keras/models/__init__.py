"""The network, its presets, and other models from its weights."""

from gdn_keras.models.gaussian_derivative_network import PAPER_SCALES, gaussian_derivative_network
from gdn_keras.models.image_model import Classifier, ImageModel
from gdn_keras.models.retargeting import (
    channel_model,
    network_of,
    parameter_counts,
    retarget,
    scale_channels_of,
    with_channels,
)

__all__ = [
    "PAPER_SCALES", "Classifier", "ImageModel", "channel_model", "gaussian_derivative_network",
    "network_of", "parameter_counts", "retarget", "scale_channels_of", "with_channels",
]  # fmt: skip
