"""An export is what the model is, or is not written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

# What an export may differ from the Keras model, in units of the largest logit or of 1.
TOLERANCE = 1e-4


def check_equal(model: keras.Model, run: Callable[[np.ndarray], Any], what: str) -> None:
    """Raises unless `run` gives the model's logits, on a batch and on a single image."""
    shape = [size or 32 for size in model.input_shape[1:]]
    rng = np.random.default_rng(0)
    low, high = (0, 255) if getattr(model, "takes_pixels", False) else (-0.76, 0.76)
    images = rng.uniform(low, high, (3, *shape)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(images, training=False))
    for batch in (slice(None), slice(1)):
        difference = np.abs(np.asarray(run(images[batch])) - expected[batch]).max()
        # Written so that NaN fails.
        if not difference <= TOLERANCE * max(1.0, np.abs(expected).max()):
            raise ValueError(
                f"The logits of the {what} differ from the model's by {difference:.2g}, more "
                f"than {TOLERANCE:g}. Nothing was written."
            )


def check_file(path: str | os.PathLike) -> Path:
    """A path for a file, in a folder that exists."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"`path` must be a file. Received: the folder {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
