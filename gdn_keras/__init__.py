"""Gaussian derivative networks: scale-covariant and scale-invariant networks for Keras 3."""

from gdn_keras import (
    analysis,
    datasets,
    detection,
    export,
    layers,
    models,
    presets,
    scale_space,
    training,
)
from gdn_keras.detection import Detector
from gdn_keras.models import Classifier
from gdn_keras.presets import from_preset
from gdn_keras.version import __version__

__all__ = [
    "Classifier", "Detector", "__version__", "analysis", "datasets", "detection", "export",
    "from_preset", "layers", "models", "presets", "scale_space", "training",
]  # fmt: skip
