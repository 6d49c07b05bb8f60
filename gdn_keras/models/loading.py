"""One way to get a network: by the name of its preset."""

from pathlib import Path
from typing import Any

import keras

from gdn_keras.checks import check_choice
from gdn_keras.models.gaussian_derivative_network import gaussian_derivative_network
from gdn_keras.models.surgery import retarget
from gdn_keras.presets import PRESETS

# Inside the package where it was installed from a wheel, beside it in a clone of the repository.
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "saved_models", _PACKAGE.parent / "saved_models")

# What weights do not depend on.
_FREE = ("input_shape", "scales", "readout", "surround")


def from_preset(preset: str, load_weights: bool = True, **overrides: Any) -> keras.Model:
    """A network by its name, with trained weights where the preset has some.

    A trained classifier takes pixels of 0 to 255 and knows the names of its classes
    (`model.class_names`).

    Example:

    >>> trained = gdn_keras.from_preset("default_size2")
    >>> larger = gdn_keras.from_preset("default_size2", input_shape=(224, 224, 1))
    >>> untrained = gdn_keras.from_preset("default", input_shape=(64, 64, 3), num_classes=5)

    Args:
        preset: A key of `gdn_keras.presets.PRESETS`.
        load_weights: Whether to load trained weights. Without them, and for presets that have
            none, weights are random.
        **overrides: Arguments of `gaussian_derivative_network` that replace the preset's. With
            trained weights only those that `retarget` has: `input_shape`, `scales`, `readout` and
            `surround`; of a detector, those of `Detector`, such as thresholds.

    Raises:
        ValueError: If there is no such preset, or its weights were not trained for the overrides.
    """
    check_choice("preset", preset, tuple(PRESETS))
    entry = PRESETS[preset]
    if "parameters" not in entry:  # a detector, which knows all about itself
        return _load_detector(preset, load_weights, overrides)
    if not load_weights or "weights" not in entry:
        return gaussian_derivative_network(**{**entry["parameters"], **overrides})
    unfit = {name: value for name, value in overrides.items() if name not in _FREE}
    if unfit:
        given = ", ".join(f"{name}={value!r}" for name, value in unfit.items())
        raise ValueError(
            f"The weights of {preset!r} are for another network; pass `load_weights=False` to "
            f"train one of your own. Received: {given}"
        )
    trained = keras.saving.load_model(_file(entry["weights"]), compile=False)
    return retarget(trained, **overrides) if overrides else trained


def _load_detector(preset: str, load_weights: bool, overrides: dict[str, Any]) -> keras.Model:
    from gdn_keras import detection  # whose models Keras must know to load them

    if not load_weights:
        raise ValueError(
            f"{preset!r} comes with its weights only; `gdn_keras.detection.Detector` makes others. "
            "Received: load_weights=False"
        )
    trained = keras.saving.load_model(_file(PRESETS[preset]["weights"]), compile=False)
    if not isinstance(trained, detection.Detector):
        raise ValueError(f"The file of {preset!r} holds no detector. Reinstall gdn_keras.")
    return trained.changed(**overrides) if overrides else trained


def _file(folder: str) -> Path:
    files = [parent / folder / "model.keras" for parent in _FOLDERS]
    found = next((file for file in files if file.exists()), None)
    if found is None:
        raise FileNotFoundError(f"{files[0]} is missing. Reinstall gdn_keras.")
    return found
