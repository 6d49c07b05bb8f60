"""Trained networks that come with the package."""

from pathlib import Path

import keras

# Beside the package in a clone of the repository, inside it where it was installed from a wheel.
_FOLDERS = (Path(__file__).parent / "saved_models", Path(__file__).parents[1] / "saved_models")


def pretrained_names() -> tuple[str, ...]:
    """Names of the trained networks, for `load_pretrained`."""
    return tuple(sorted(_files()))


def load_pretrained(name: str) -> keras.Model:
    """A trained network, for grey 112×112 images in the convention of MNIST Large Scale.

    Example:

    >>> model = gdn_keras.load_pretrained("default_size2")
    >>> larger = gdn_keras.models.retarget(model, input_shape=(224, 224, 1))

    Args:
        name: One of `pretrained_names()`. The README in its folder of `saved_models` says what it
            was trained on and how well it does.

    Returns:
        The Keras model from images to logits.

    Raises:
        ValueError: If there is no such network.
    """
    files = _files()
    if name not in files:
        listed = ", ".join(repr(known) for known in sorted(files)) or "none, as none came with it"
        raise ValueError(f"`name` must be one of {listed}. Received: name={name!r}")
    return keras.saving.load_model(files[name], compile=False)


def _files() -> dict[str, Path]:
    return {file.parent.name: file for folder in _FOLDERS for file in folder.glob("*/model.keras")}
