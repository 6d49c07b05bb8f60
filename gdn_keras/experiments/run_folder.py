"""The folder of a run: every file whole or not there, and one run only."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import keras

from gdn_keras.experiments.settings import Settings

SETTINGS = "settings.json"
LAST = "last.keras"
BEST = "best.keras"
MODEL = "model.keras"
SAVED_MODEL = "saved_model"
HISTORY = "history.csv"
LOGS = "logs"
ACCURACY = "accuracy.csv"
RESULTS = "accuracy.json"
PICTURES = "pictures"
REPORT = "report.md"


def open_run(settings: Settings, folder: str | os.PathLike) -> Path:
    """The folder of a run with these settings: a new one, or one that such a run was begun in.

    Raises:
        ValueError: If the folder holds a run with other settings.
        OSError: If it cannot be written to, or is not a folder.
    """
    folder = Path(folder).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable-"):
            pass
    except OSError as error:
        raise OSError(
            f"The output folder {folder} cannot be written to ({error.strerror or error}). "
            "Give another one with --output."
        ) from error
    known = read_settings(folder)
    if known is None:
        write_text(folder / SETTINGS, json.dumps(settings.as_dict(), indent=2) + "\n")
        return folder
    wanted = settings.as_dict()
    names = [name for name in {**known, **wanted} if known.get(name) != wanted.get(name)]
    if names:
        differences = ", ".join(
            f"{name} is {known.get(name)!r} there and {wanted.get(name)!r} now" for name in names
        )
        raise ValueError(
            f"{folder} holds a run with other settings: {differences}. Give another folder with "
            "--output, or repeat the settings of that run to go on with it, or remove it."
        )
    return folder


def read_settings(folder: Path) -> dict | None:
    """The settings of the run in a folder, or `None` where there is none."""
    file = folder / SETTINGS
    if not file.exists():
        return None
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}). Give another folder.") from error


def read_results(folder: str | os.PathLike) -> dict:
    """The results of a finished run, as in its accuracy.json."""
    file = Path(folder).expanduser() / RESULTS
    try:
        return json.loads(file.read_text())
    except OSError as error:
        raise ValueError(
            f"{folder} holds no finished run: {file} is missing. Train there first."
        ) from error


def write_text(file: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(file) as temporary:
        temporary.write_text(text)


def save_model(model: keras.Model, file: Path) -> None:
    """Writes a .keras file in one step."""
    with replacing(file) as temporary:
        model.save(temporary)


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Writes a folder by `write(path)`; it appears under its name when it is complete."""
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        write(temporary / folder.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary / folder.name, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary path of the same ending; on success it takes the place of `file`."""
    temporary = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        yield temporary
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
