"""Checkpoints that survive a kill, the history, and one progress line."""

import csv
import io
import math
import time
from pathlib import Path

import keras

from gdn_keras.reporting import Reporter
from gdn_keras.training.run_folder import (
    BEST,
    HISTORY,
    LAST,
    is_whole,
    read_epochs,
    save_model,
    write_text,
)


class Checkpoints(keras.callbacks.Callback):
    """Keeps the last and the best epoch, and the history, so that a killed run can go on.

    `keras.callbacks.BackupAndRestore` writes into the file that it would restore from, and the
    epoch into a second one: a kill at that moment loses both. Here each epoch replaces last.keras
    (weights, optimizer and number of epochs) in one step. The best epoch is kept in the same way,
    and stands in for a damaged last.keras.

    Args:
        folder: The folder of the run.
        reporter: Told of a damaged checkpoint.
        score: The logged value whose highest epoch is kept in best.keras, if any.
    """

    def __init__(self, folder: Path, reporter: Reporter | None = None, score: str | None = None):
        super().__init__()
        self.folder, self.score = folder, score
        self.reporter = reporter or Reporter()
        self.rows: list[dict[str, float]] = []
        self.kept: dict[str, float] | None = None  # the row of last.keras

    def restore(self, model: keras.Model) -> int:
        """Puts `model` (compiled) into the state of last.keras; the number of epochs done.

        Raises:
            OSError: If there are checkpoints and all are damaged.
        """
        files = [file for file in (self.folder / LAST, self.folder / BEST) if file.exists()]
        if not files:
            return 0
        file = next(filter(is_whole, files), None)
        if file is None:
            raise OSError(
                f"{files[0]} is damaged, and there is no other checkpoint to go on from. Put a "
                "copy of it back, or remove it to begin anew."
            )
        if file != files[0]:
            self.reporter.line(f"{files[0]} is damaged; {file} takes its place.")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(file)
        epochs = read_epochs(file)
        self.rows = read_history(self.folder, epochs)
        self.kept = self.rows[-1] if self.rows else None
        return epochs

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in (logs or {}).items()}}
        row["learning_rate"] = float(self.model.optimizer.learning_rate)
        earlier, score = self.rows, self.score
        self.rows = [*earlier, row]
        write_history(self.folder, self.rows)
        if score and row[score] > max((r[score] for r in earlier), default=-math.inf):
            save_model(self.model, self.folder / BEST, epoch + 1)
        save_model(self.model, self.folder / LAST, epoch + 1)
        self.kept = row

    def what_is_kept(self) -> str:
        """What a run that ends now leaves behind, in a sentence."""
        if not self.kept:
            return "No epoch was complete, so nothing was kept."
        score = f" (validation {self.kept[self.score]:.2%})" if self.score else ""
        return f"{self.folder / LAST} holds the network after epoch {self.kept['epoch']}{score}."


class ProgressLine(keras.callbacks.Callback):
    """One line for the whole training, with the time left; in a log file, one line an epoch.

    Args:
        epochs: Epochs in all.
        steps: Steps in an epoch.
        reporter: What shows it.
        score: The logged value to show after each epoch, if any.
    """

    def __init__(
        self, epochs: int, steps: int, reporter: Reporter | None = None, score: str | None = None
    ):
        super().__init__()
        self.epochs, self.steps, self.score = epochs, steps, score
        self.reporter = reporter or Reporter()
        self.loss = 0.0
        self._began: float | None = None
        self._shown = -math.inf
        self._done = self._done_before = 0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._done = epoch * self.steps

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        self._done += 1
        self.loss = float(logs["loss"])
        now = time.monotonic()
        if self._began is None:
            # The first step includes the tracing of the network, which happens once.
            self._began, self._done_before = now, self._done
        if now - self._shown > 0.5:
            self._shown = now
            self.reporter.update(self._line())

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        self.loss = float(logs["loss"])
        score = f"  validation {logs[self.score]:.2%}" if self.score in logs else ""
        self.reporter.line(self._line() + score)

    def _line(self) -> str:
        share = self._done / (self.steps * self.epochs)
        epoch = -(-self._done // self.steps)
        return (
            f"epoch {epoch:>{len(str(self.epochs))}}/{self.epochs} [{'=' * int(20 * share):<20}] "
            f"{share:4.0%}  {self._left()}  loss {self.loss:.4f}"
        )

    def _left(self) -> str:
        steps = self._done - self._done_before
        if not steps or self._began is None:
            return "ETA --:--"
        pace = (time.monotonic() - self._began) / steps
        return f"ETA {clock(pace * (self.steps * self.epochs - self._done))}"


def clock(seconds: float) -> str:
    """A time as hours, minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"


def write_history(folder: Path, rows: list[dict[str, float]]) -> None:
    """history.csv, one row an epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / HISTORY, text.getvalue())


def read_history(folder: Path, epochs: int | None = None) -> list[dict[str, float]]:
    """history.csv as it was written.

    Args:
        epochs: The number of epochs, if known. A kill leaves one row too many, since the history
            is written before the checkpoint.

    Raises:
        OSError: If it is damaged.
    """
    file = folder / HISTORY
    if not file.exists():
        return []
    try:
        text = file.read_text()
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))]
        rows = [{**row, "epoch": int(row["epoch"])} for row in rows]
        if not text.endswith("\n") or rows[-1]["epoch"] < (epochs or 1):
            raise ValueError("its end is missing")
    except (ValueError, TypeError, LookupError) as error:
        raise OSError(
            f"{file} is damaged ({error}). Put a copy of it back, or remove it to go on without "
            "the history so far."
        ) from error
    return rows if epochs is None else [row for row in rows if row["epoch"] <= epochs]
