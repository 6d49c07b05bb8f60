"""What may be wrong with a .keras file, found before it is loaded."""

import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np

# Bytes that a .keras file may unpack to, in all and in units of its size: Keras does not compress
# weights.
_MODEST_BYTES = 100_000_000
_MODEST_RATIO = 10
# Values in an image of a network, since its grids are made for it.
_MODEST_IMAGE = 200_000_000

# What reading a damaged .keras file may raise: RuntimeError if its flags say that it is encrypted,
# NotImplementedError if they name an unknown compression.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def check_modest(file: Path) -> None:
    """Raises ValueError for a .keras file that needs more memory than its size suggests, unloaded.

    Its archive unpacks to much more, its network has more weights than it holds, or large images.
    """
    with zipfile.ZipFile(file) as archive:
        held = sum(entry.file_size for entry in archive.infolist())
        if held > max(_MODEST_BYTES, _MODEST_RATIO * file.stat().st_size):
            raise ValueError(f"it would unpack to {held} bytes")
        # Optimizers allocate their values at once.
        config = json.loads(archive.read("config.json"), object_hook=_without_optimizer)
    largest = max(map(math.prod, _image_shapes(config)), default=0)
    if largest > _MODEST_IMAGE:
        raise ValueError(f"it asks for images of {largest} values")
    # Keras's state belongs to the thread, so variables without values go away with it.
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(_weight_bytes, config).result()
    if asked > held:
        raise ValueError(f"it asks for {asked} bytes of weights, but holds {held}")


def _without_optimizer(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "compile_config"}


def _image_shapes(config: Any) -> Iterator[list[int]]:
    """The shapes of inputs, wherever they stand, without sizes that are unknown."""
    if isinstance(config, dict):
        for name in ("batch_shape", "batch_input_shape", "input_shape"):
            if isinstance(config.get(name), list):
                yield [n for n in config[name] if isinstance(n, int)]
    if isinstance(config, dict | list):
        for part in config.values() if isinstance(config, dict) else config:
            yield from _image_shapes(part)


def _weight_bytes(config: dict[str, Any]) -> int:
    """The bytes of a model's weights, which are given shapes but no values."""
    with keras.StatelessScope(initialize_variables=False):
        model = keras.saving.deserialize_keras_object(config, safe_mode=True)
        return sum(math.prod(v.shape) * np.dtype(v.dtype).itemsize for v in model.variables)
