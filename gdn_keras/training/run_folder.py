"""The folder of a run: every file whole or not there, and one run only."""

import contextlib
import json
import math
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.atomic_files import replacing

SETTINGS = "settings.json"
LAST = "last.keras"
BEST = "best.keras"
MODEL = "model.keras"
SAVED_MODEL = "saved_model"
HISTORY = "history.csv"
LOGS = "logs"
PICTURES = "pictures"
REPORT = "report.md"
_EPOCHS = "epochs.json"  # in a checkpoint, beside what Keras writes there

# Bytes that a .keras file may unpack to, in all and in units of its size: Keras does not compress
# weights.
_MODEST_BYTES = 100_000_000
_MODEST_RATIO = 10
# Values in an image of a network, since its grids are made for it.
_MODEST_IMAGE = 200_000_000

# What reading a damaged .keras file may raise: RuntimeError if its flags say that it is encrypted,
# NotImplementedError if they name an unknown compression.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def open_run(settings: Mapping[str, Any], folder: str | os.PathLike) -> Path:
    """The folder of a run with these settings: a new one, or one that such a run was begun in.

    Args:
        settings: All that the result depends on, as JSON would give it back.
        folder: Created if it is missing.

    Raises:
        ValueError: If the folder holds a run with other settings, or files that no run wrote.
        OSError: If it cannot be written to, or is not a folder.
    """
    folder = Path(folder).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable-"):
            pass
    except OSError as error:
        raise OSError(
            f"`folder` must be one that can be written to, and {folder} cannot be written to "
            f"({error.strerror or error})."
        ) from error
    known = read_settings(folder)
    if known is None:
        _require_no_run(folder)
        try:
            with replacing(folder / SETTINGS, exclusive=True) as temporary:
                temporary.write_text(json.dumps(settings, indent=2) + "\n")
            return folder
        except FileExistsError:  # another process was faster
            known = read_settings(folder) or {}
    # Settings missing from older folders count as disabled; missing checksums are ignored.
    names = [
        name
        for name in {**known, **settings}
        if (known.get(name) or None) != (settings.get(name) or None)
        and not (name.endswith("_checksum") and name not in known)
    ]
    if names:
        differences = ", ".join(
            f"{name} is {known.get(name)!r} there and {settings.get(name)!r} now" for name in names
        )
        raise ValueError(
            f"{folder} holds a run with other settings: {differences}. Give another `folder`, or "
            "repeat the settings of that run to go on with it, or remove it."
        )
    return folder


@contextlib.contextmanager
def taking_up(folder: Path) -> Iterator[None]:
    """Locks the run in a folder against other processes; a kill releases it.

    Raises:
        OSError: If another process is at work on it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / SETTINGS, "r+b") as settings:
        try:
            fcntl.flock(settings, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(
                f"Another process is at work on the run in {folder}. Wait for its end, or give "
                "another folder."
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


def _require_no_run(folder: Path) -> None:
    """Refuses to overwrite the files of a run whose settings are missing."""
    names = (LAST, BEST, MODEL, SAVED_MODEL, HISTORY, REPORT)
    found = [name for name in names if (folder / name).exists()]
    if found:
        raise ValueError(
            f"{folder} holds {', '.join(found)} but no {SETTINGS}, so their run is unknown. Give "
            "another `folder`."
        )


def read_settings(folder: Path) -> dict | None:
    """The settings of the run in a folder, or `None` where there is none."""
    file = folder / SETTINGS
    if not file.exists():
        return None
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}). Give another folder.") from error


def read_results(folder: str | os.PathLike, name: str) -> dict[str, Any]:
    """The results of a finished run, from its file of this name."""
    file = Path(folder).expanduser() / name
    try:
        return json.loads(file.read_text())
    except OSError as error:
        raise ValueError(
            f"{folder} holds no finished run: {file} is missing. Train there first."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{folder} holds no finished run: {file} is damaged ({error}). Train there again."
        ) from error


def write_text(file: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(file) as temporary:
        temporary.write_text(text)


def save_model(model: keras.Model, file: Path, epochs: int | None = None) -> None:
    """Writes a .keras file in one step; with the number of epochs done, it is a checkpoint."""
    with replacing(file) as temporary:
        model.save(temporary)
        if epochs is not None:
            with zipfile.ZipFile(temporary, "a") as archive:
                archive.writestr(_EPOCHS, json.dumps(epochs))


def load_network(file: Path) -> keras.Model:
    """The network of a .keras file, without running code from it.

    Raises:
        OSError: If it cannot be loaded, with one sentence.
    """
    try:
        check_modest(file)
        return keras.saving.load_model(file, compile=False, safe_mode=True)
    except (ValueError, TypeError, KeyError, *DAMAGE) as error:
        reason = " ".join(str(error).split())[:200]
        raise OSError(f"{file} cannot be loaded as a network ({reason}).") from error


def check_modest(file: Path) -> None:
    """Checks that a .keras file needs no more memory than its size suggests, before it is loaded.

    Raises:
        ValueError: If its archive unpacks to much more, or its network has more weights than the
            file holds, or images that are too large.
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


def read_epochs(file: Path) -> int:
    """The number of epochs done at a checkpoint."""
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read(_EPOCHS))


def is_whole(file: Path) -> bool:
    """Whether a .keras file is there, with every byte as it was written."""
    if not file.exists():
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is None
    except DAMAGE:
        return False
