"""Gaussian derivative networks: scale-covariant and scale-invariant networks for Keras 3."""

from gdn_keras import datasets, layers, models, presets, scale_space
from gdn_keras.version import __version__

__all__ = ["__version__", "datasets", "layers", "models", "presets", "scale_space"]
