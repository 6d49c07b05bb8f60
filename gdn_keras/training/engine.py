"""The run engine: train, evaluate, export and report any task, in one folder."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.export import export_saved_model, is_export_of
from gdn_keras.reporting import Reporter
from gdn_keras.training import distribution, run_folder
from gdn_keras.training.fitting import TrainingStopped, build, train
from gdn_keras.training.task import Task

_FILES = {
    run_folder.REPORT: "one page with everything on it",
    run_folder.PICTURES: "its pictures",
    run_folder.MODEL: "the trained network",
    run_folder.SAVED_MODEL: "the same for TensorFlow alone, without this package",
    run_folder.HISTORY: "the history of the training",
    run_folder.LOGS: "the same for TensorBoard",
}


class Run:
    """A task in a folder, with everything checked that a user could get wrong.

    Args:
        task: What to train, test and report.
        folder: Where everything goes. A folder with a run of equal settings is taken up where that
            run was stopped.
        compare: Folders of other finished runs, by name; their results are shown beside these.
        reporter: Prints the messages of the run; to standard output by default.

    Raises:
        ValueError, OSError, ImportError: With one sentence for the user.
    """

    def __init__(
        self,
        task: Task,
        folder: str | os.PathLike,
        compare: Mapping[str, str | os.PathLike] | None = None,
        reporter: Reporter | None = None,
    ):
        self.task, self.reporter = task, reporter or Reporter()
        self.compare = {name: Path(path).expanduser() for name, path in (compare or {}).items()}
        for path in self.compare.values():
            run_folder.read_results(path, task.results_file)
        distribution.device_count(task.recipe)  # which a batch must be a multiple of
        # A network that cannot be built must not leave a folder behind.
        done = run_folder.is_whole(Path(folder).expanduser() / run_folder.MODEL)
        self._model = None if done else build(task)
        self.settings = task.settings()
        self.folder = run_folder.open_run(self.settings, folder)

    @property
    def finished(self) -> bool:
        """Whether the run was finished before."""
        return (self.folder / run_folder.REPORT).exists()

    def files(self) -> dict[Path, str]:
        """The files that the run has left, and what they hold."""
        files = {**_FILES, **self.task.files}
        paths = {self.folder / name: text for name, text in files.items()}
        return {path: text for path, text in paths.items() if path.exists()}

    def train(self) -> None:
        """The training alone, which several processes do together."""
        with run_folder.taking_up(self.folder):
            if not distribution.agreed(run_folder.is_whole(self.folder / run_folder.MODEL)):
                self._train()

    def complete(self) -> dict[str, Any]:
        """Does what is left to do, and returns the results, as in the task's results file.

        Raises:
            OSError: If another process is at work on it.
            TrainingStopped: By Ctrl-C, a full disk or a non-finite loss; the message says how to
                go on.
        """
        with run_folder.taking_up(self.folder):
            file = self.folder / run_folder.MODEL
            model = run_folder.load_network(file) if run_folder.is_whole(file) else self._train()
            try:
                return self._after_training(model)
            except (KeyboardInterrupt, OSError) as error:
                interrupted = isinstance(error, KeyboardInterrupt)
                raise TrainingStopped(
                    f"Stopped{'' if interrupted else f': {error}'}. The trained network is in "
                    f"{file}; the same command goes on with what comes after the training.",
                    interrupted,
                ) from error

    def _train(self) -> keras.Model:
        model = self._model or build(self.task)
        train(model, self.task, self.folder, self.reporter)
        finished = self.task.finish(model)
        run_folder.save_model(finished, self.folder / run_folder.MODEL)
        return finished

    def _after_training(self, model: keras.Model) -> dict[str, Any]:
        task, name, folder = self.task, self.task.results_file, self.folder
        try:
            results = run_folder.read_results(folder, name)
        except ValueError:
            began = time.monotonic()
            results = {"settings": self.settings, **task.evaluate(model, self.reporter)}
            self.reporter.line(f"Tested in {time.monotonic() - began:.0f} s.")
            for file, text in task.tables(results).items():
                run_folder.write_text(folder / file, text)
            arrays = np.ndarray.tolist
            content = json.dumps(results, indent=1, allow_nan=False, default=arrays) + "\n"
            # Last, since its presence says that the results are complete.
            run_folder.write_text(folder / name, content)
            results = json.loads(content)
        if not is_export_of(model, folder / run_folder.SAVED_MODEL):
            export_by_tensorflow(model, folder / run_folder.SAVED_MODEL, task.export_options())
        others = {key: run_folder.read_results(path, name) for key, path in self.compare.items()}
        sections = [
            f"# {task.title}\n\n{task.summary(results)}",
            *task.sections(results, model, others),
            run_folder.settings_table(self.settings),
        ]
        run_folder.write_page(folder, sections, self.reporter)
        return results


def run(
    task: Task,
    folder: str | os.PathLike,
    compare: Mapping[str, str | os.PathLike] | None = None,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Trains, tests, exports and reports a task, and returns its results.

    Example:

    >>> data = gdn_keras.datasets.load_dataset("mnist_large_scale", count=1000)  # doctest: +SKIP
    >>> results = run(Classification(Recipe(epochs=3), data), "runs/quick")  # doctest: +SKIP

    Arguments and errors are those of `Run` and of its method `complete`.
    """
    return Run(task, folder, compare, reporter).complete()


def export_by_tensorflow(model: keras.Model, folder: Path, options: dict[str, Any]) -> None:
    """Writes a SavedModel; on other backends, in a process of its own, from model.keras beside."""
    if keras.backend.backend() == "tensorflow":
        export_saved_model(model, folder, **options)
        return
    given, call = io.BytesIO(), f"import {__name__} as engine; engine._export_file()"
    np.savez(given, **{name: value for name, value in options.items() if value is not None})
    done = subprocess.run(
        [sys.executable, "-c", call, folder.with_name(run_folder.MODEL), folder],
        input=given.getvalue(),
        # The GPUs' memory belongs to this process.
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise OSError(f"the export by TensorFlow failed: {said[-500:]}")


def _export_file() -> None:
    """In a process of its own: model.keras and the folder as arguments, options as input."""
    file, folder = map(Path, sys.argv[1:])
    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as content:
        options = {name: value if value.ndim else value.item() for name, value in content.items()}
    export_saved_model(run_folder.load_network(file), folder, **options)
