"""The network, its presets, and other models from its weights."""

from gdn_keras.models.class_scores import ClassScores
from gdn_keras.models.classifier import as_classifier, class_names_of, preprocessing_of
from gdn_keras.models.gaussian_derivative_network import gaussian_derivative_network
from gdn_keras.models.image_model import ImageModel
from gdn_keras.models.loading import from_preset
from gdn_keras.models.raw_pixels import RawPixels
from gdn_keras.models.surgery import channel_model, parameter_counts, retarget, scale_channels_of

__all__ = [
    "ClassScores",
    "ImageModel",
    "RawPixels",
    "as_classifier",
    "channel_model",
    "class_names_of",
    "from_preset",
    "gaussian_derivative_network",
    "parameter_counts",
    "preprocessing_of",
    "retarget",
    "scale_channels_of",
]
