"""The network, its presets, and other models from its weights."""

from gdn_keras.models.gaussian_derivative_network import from_preset, gaussian_derivative_network
from gdn_keras.models.surgery import channel_model, parameter_counts, retarget, scale_channels_of

__all__ = [
    "channel_model",
    "from_preset",
    "gaussian_derivative_network",
    "parameter_counts",
    "retarget",
    "scale_channels_of",
]
