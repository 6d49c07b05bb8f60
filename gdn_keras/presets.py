"""Networks as plain data, for `gdn_keras.from_preset`.

`parameters` are arguments of `gdn_keras.models.gaussian_derivative_network`; `weights` is the
folder of `saved_models` where trained weights are, with a README that says how well they do.
"""

from pathlib import Path
from typing import Any

import keras

from gdn_keras.checks import check_choice
from gdn_keras.models import PAPER_SCALES, gaussian_derivative_network, retarget

# One more below and one above, as the trained networks have them.
_WIDE_SCALES = tuple(2 ** (i / 2) for i in range(-2, 8))

_DIGITS = {"input_shape": (112, 112, 1), "num_classes": 10}
_MNIST = {"input_shape": (28, 28, 1), "num_classes": 10, "widths": (12, 14, 16, 20, 64)}
_DEFAULT = {**_DIGITS, "widths": (12, 16, 24, 32, 64)}
_LARGE = {**_DIGITS, "widths": (16, 24, 32, 48, 64)}
_SIGNS = {"input_shape": (112, 112, 3), "num_classes": 43, "widths": (24, 32, 48, 64, 96)}

PRESETS = {
    "mnist": {
        "description": "One scale channel, for the original 28x28 MNIST (section 5).",
        "parameters": {**_MNIST, "scales": (0.9,)},
    },
    "default": {
        "description": "Eight scale channels, for MNIST Large Scale (section 6).",
        "parameters": {**_DEFAULT, "scales": PAPER_SCALES},
    },
    "large": {
        "description": "The larger network of section 6, eight scale channels.",
        "parameters": {**_LARGE, "scales": PAPER_SCALES},
    },
    **{
        f"default_size{size}": {
            "description": f"`default`, ten scale channels, trained on digits of size {size} only.",
            "parameters": {**_DEFAULT, "scales": _WIDE_SCALES},
            "weights": f"default_size{size}",
        }
        for size in (1, 2, 4)
    },
    "traffic_signs": {
        "description": "43 German traffic signs, nine scale channels, trained on 28 to 40 pixels.",
        "parameters": {**_SIGNS, "scales": tuple(2 ** (i / 2) for i in range(-2, 7))},
        "weights": "traffic_signs",
    },
    "large_size2": {
        "description": "`large`, ten scale channels, trained on digits of size 2 only.",
        "parameters": {**_LARGE, "scales": _WIDE_SCALES, "surround": 0.5},
        "weights": "large_size2",
    },
}

# Detectors, which come with their weights only, and know all about themselves.
_DETECTORS = {
    "digit_detector": "Finds digits of any size in grey pictures, trained on size 1 only.",
    "nuclei": "Finds cell nuclei in fluorescence microscopy at any magnification, trained at one.",
    "road_signs": "Finds four kinds of road signs in photographs, trained on 32 to 48 pixels only.",
}
PRESETS |= {name: {"description": text, "weights": name} for name, text in _DETECTORS.items()}

# Inside the package where it was installed from a wheel, beside it in a clone of the repository.
_PACKAGE = Path(__file__).parent
_FOLDERS = (_PACKAGE / "saved_models", _PACKAGE.parent / "saved_models")

# What weights do not depend on.
_FREE = ("input_shape", "scales", "readout", "surround")


def from_preset(preset: str, load_weights: bool = True, **overrides: Any) -> keras.Model:
    """A network by its name, with trained weights where the preset has some.

    A trained classifier takes pixels of 0 to 255 and knows its `class_names`.

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
    is_detector = preset in _DETECTORS
    if is_detector and not load_weights:
        text = "comes with its weights only; `gdn_keras.detection.Detector` makes others."
        raise ValueError(f"{preset!r} {text} Received: load_weights=False")
    if not load_weights or "weights" not in entry:
        return gaussian_derivative_network(**{**entry["parameters"], **overrides})
    unfit = {name: value for name, value in overrides.items() if name not in _FREE}
    if unfit and not is_detector:
        given = ", ".join(f"{name}={value!r}" for name, value in unfit.items())
        raise ValueError(
            f"The weights of {preset!r} are for another network; pass `load_weights=False` to "
            f"train one of your own. Received: {given}"
        )
    trained: Any = keras.saving.load_model(_file(entry["weights"]), compile=False)
    if not overrides:
        return trained
    return trained.with_thresholds(**overrides) if is_detector else retarget(trained, **overrides)


def _file(folder: str) -> Path:
    files = [parent / folder / "model.keras" for parent in _FOLDERS]
    found = next((file for file in files if file.exists()), None)
    if found is None:
        raise FileNotFoundError(f"{files[0]} is missing. Reinstall gdn_keras.")
    return found
