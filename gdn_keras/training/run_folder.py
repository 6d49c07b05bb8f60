"""The folder of a run: every file whole or not there, one run only, checkpoints and report."""

import contextlib
import csv
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from gdn_keras.atomic_files import replacing
from gdn_keras.keras_files import DAMAGE, check_modest
from gdn_keras.reporting import Reporter

SETTINGS = "settings.json"
LAST = "last.keras"
BEST = "best.keras"
MODEL = "model.keras"
SAVED_MODEL = "saved_model"
HISTORY = "history.csv"
LOGS = "logs"
PICTURES = "pictures"
REPORT = "report.md"
_ROWS = "history.json"  # in a checkpoint, beside what Keras writes there

Row = dict[str, Any]


def open_run(settings: Mapping[str, Any], folder: str | os.PathLike) -> Path:
    """The folder of a run with these settings: a new one, or one that such a run was begun in.

    Raises:
        ValueError: If the folder holds a run with other settings, or files that no run wrote.
        OSError: If it cannot be written to.
    """
    folder = Path(folder).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"{folder} cannot be written to ({error.strerror or error})"
        raise OSError(f"`folder` must be one that can be written to, and {reason}.") from error
    known = read_settings(folder)
    if known is None:
        names = (LAST, BEST, MODEL, SAVED_MODEL, HISTORY, REPORT)
        if found := ", ".join(name for name in names if (folder / name).exists()):
            text = f"{folder} holds {found} but no {SETTINGS}, so their run is unknown."
            raise ValueError(f"{text} Give another `folder`.")
        try:
            with replacing(folder / SETTINGS, exclusive=True) as temporary:
                temporary.write_text(json.dumps(settings, indent=2) + "\n")
            return folder
        except FileExistsError:  # another process was faster
            known = read_settings(folder) or {}
    differences = ", ".join(
        f"{name} is {known.get(name)!r} there and {settings.get(name)!r} now"
        for name in {**known, **settings}
        if known.get(name) != settings.get(name)
    )
    if differences:
        raise ValueError(
            f"{folder} holds a run with other settings: {differences}. Give another `folder`, or "
            "repeat the settings of that run to go on with it, or remove it."
        )
    return folder


@contextlib.contextmanager
def taking_up(folder: Path) -> Iterator[None]:
    """Locks the run in a folder against other processes; a kill releases it."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / SETTINGS, "r+b") as settings:
        try:
            fcntl.flock(settings, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"Another process is at work on the run in {folder}."
            raise OSError(f"{text} Wait for its end, or give another folder.") from None
        except OSError:  # a file system without locks
            pass
        yield


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
        reason, said = "is missing. Train there first.", error
    except ValueError as error:
        reason, said = f"is damaged ({error}). Train there again.", error
    raise ValueError(f"{folder} holds no finished run: {file} {reason}") from said


def write_text(file: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(file) as temporary:
        temporary.write_text(text)


def csv_text(rows: Sequence[Row]) -> str:
    """A CSV file with the names of the first row as its head."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def save_model(model: keras.Model, file: Path, rows: Sequence[Row] | None = None) -> None:
    """Writes a .keras file in one step; with the history of a training, it is a checkpoint."""
    with replacing(file) as temporary:
        model.save(temporary)
        if rows is not None:
            with zipfile.ZipFile(temporary, "a") as archive:
                archive.writestr(_ROWS, json.dumps(rows))


def load_network(file: Path) -> keras.Model:
    """The network of a .keras file, without running code from it; an `OSError` if that fails."""
    try:
        check_modest(file)
        return keras.saving.load_model(file, compile=False, safe_mode=True)
    except (ValueError, TypeError, KeyError, *DAMAGE) as error:
        reason = " ".join(str(error).split())[:200]
        raise OSError(f"{file} cannot be loaded as a network ({reason}).") from error


def is_whole(file: Path, part: str = "config.json") -> bool:
    """Whether a .keras file is there with this part, every byte as it was written."""
    if not file.exists():
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            return part in archive.namelist() and archive.testzip() is None
    except DAMAGE:
        return False


class Checkpoints(keras.callbacks.Callback):
    """Keeps the last epoch, that of the highest score, and the history: a killed run can go on.

    `keras.callbacks.BackupAndRestore` writes into the file that it would restore from, and the
    epoch into a second one: a kill at that moment loses both. Here each epoch replaces last.keras
    (weights, optimizer and history) in one step. The best epoch is kept in the same way, and stands
    in for a damaged last.keras.
    """

    def __init__(self, folder: Path, reporter: Reporter, score: str | None = None):
        super().__init__()
        self.folder, self.reporter, self.score = folder, reporter, score
        self.rows: list[Row] = []  # the history in last.keras

    def restore(self, model: keras.Model) -> int:
        """Puts `model` (compiled) into the state of last.keras; the number of epochs done."""
        files = [file for file in (self.folder / LAST, self.folder / BEST) if file.exists()]
        if not files:
            return 0
        file = next((file for file in files if is_whole(file, _ROWS)), None)
        if file is None:
            text = f"{files[0]} is damaged, and there is no other checkpoint to go on from."
            raise OSError(f"{text} Put a copy of it back, or remove it to begin anew.")
        if file != files[0]:
            self.reporter.line(f"{files[0]} is damaged; {file} takes its place.")
        model.load_weights(file)
        with zipfile.ZipFile(file) as archive:
            self.rows = json.loads(archive.read(_ROWS))
        write_text(self.folder / HISTORY, csv_text(self.rows))
        return len(self.rows)

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in logs.items()}}
        row["learning_rate"] = float(self.model.optimizer.learning_rate)
        rows, score = [*self.rows, row], self.score
        write_text(self.folder / HISTORY, csv_text(rows))
        if score and row[score] > max((r[score] for r in self.rows), default=-math.inf):
            save_model(self.model, self.folder / BEST, rows)
        save_model(self.model, self.folder / LAST, rows)
        self.rows = rows

    def what_is_kept(self) -> str:
        """What a run that ends now leaves behind, in a sentence."""
        if not self.rows:
            return "No epoch was complete, so nothing was kept."
        row = self.rows[-1]
        score = f" (validation {row[self.score]:.2%})" if self.score else ""
        return f"{self.folder / LAST} holds the network after epoch {row['epoch']}{score}."


class Picture(NamedTuple):
    """A picture of a report, which is left out where `draw(path)` raises `ImportError`."""

    name: str
    caption: str
    draw: Callable[[Path], Any]


Section = str | Picture  # Markdown, or a picture


def write_page(folder: Path, sections: Iterable[Section], reporter: Reporter) -> None:
    """Draws the pictures and writes report.md; the reporter is told if they are left out."""
    (folder / PICTURES).mkdir(exist_ok=True)
    parts, missing = [], ""
    for section in sections:
        if isinstance(section, str):
            parts.append(section.strip())
            continue
        try:
            with replacing(folder / PICTURES / section.name) as temporary:
                section.draw(temporary)
        except ImportError as error:
            missing = f"Pictures were left out. {error}"
        else:
            caption = section.caption
            parts.append(f"![{caption}]({PICTURES}/{section.name})\n\n*{caption}*")
    if missing:
        reporter.line(missing)
        parts.append(missing)
    write_text(folder / REPORT, "\n\n".join(parts) + "\n")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def settings_table(settings: dict[str, Any]) -> str:
    """Settings that are not `None`, one per row."""
    rows = [(name, shown(value)) for name, value in settings.items() if value is not None]
    return markdown_table(("setting", "value"), rows)


def shown(value: Any) -> str:
    """A value or a list of values as a report prints it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
