"""The folder of a run: every file whole or not there, and one run only."""

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras

from gdn_keras.atomic_files import replacing
from gdn_keras.keras_files import DAMAGE, check_modest

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
