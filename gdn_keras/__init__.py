"""Gaussian derivative networks: scale-covariant and scale-invariant networks for Keras 3."""

from gdn_keras import analysis, datasets, export, layers, models, presets, scale_space, training
from gdn_keras.pretrained import load_pretrained, pretrained_names
from gdn_keras.version import __version__

__all__ = [
    "__version__",
    "analysis",
    "datasets",
    "export",
    "layers",
    "load_pretrained",
    "models",
    "presets",
    "pretrained_names",
    "scale_space",
    "training",
]
