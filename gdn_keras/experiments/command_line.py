"""What happens between a command and its results."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gdn_keras.experiments.job import Job, prepare, run
from gdn_keras.experiments.report import summary
from gdn_keras.experiments.run_folder import (
    ACCURACY,
    HISTORY,
    LOGS,
    MODEL,
    PICTURES,
    REPORT,
    SAVED_MODEL,
)
from gdn_keras.experiments.settings import Settings
from gdn_keras.experiments.training import TrainingStopped

_FILES = {
    REPORT: "one page with everything on it",
    PICTURES: "its pictures",
    ACCURACY: "accuracy at each test size (accuracy.json: confusions and selected scales too)",
    MODEL: "the trained network (best.keras: the epoch of the best validation accuracy)",
    SAVED_MODEL: "the same for TensorFlow alone, without this package",
    HISTORY: "loss and accuracy over the epochs",
    LOGS: "the same for TensorBoard",
}


def run_command(
    parser: argparse.ArgumentParser,
    settings_of: Callable[[argparse.Namespace], Settings],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parses, runs and prints.

    Args:
        parser: With the flags of `gdn_keras.experiments.flags`.
        settings_of: Function from the parsed flags to settings.
        arguments: The command line; that of the process if `None`.

    Returns:
        The exit code: 0, or 2 for a mistake in the command, 130 after Ctrl-C, 1 for a run that
        had to end.
    """
    options = parser.parse_args(arguments)
    try:
        jobs = _prepare(options, settings_of(options))
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        for job in jobs:
            _run_and_say(job)
    except TrainingStopped as stop:
        print(f"\n{stop}", file=sys.stderr)
        return 130 if stop.interrupted else 1
    except OSError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    return 0


def _prepare(options, settings) -> list[Job]:
    """The jobs of a command, all checked before the first begins."""
    compare = {Path(folder).resolve().name: folder for folder in options.compare}
    job = prepare(settings, options.output, compare)
    if not options.with_single_channel:
        return [job]
    single = prepare(settings.single_channel(), Path(options.output) / "single_channel")
    beside = {"single scale channel": single.folder, **job.compare}
    return [single, job._replace(compare=beside)]


def _run_and_say(job: Job) -> None:
    folder, settings = job.folder, job.settings
    if job.finished:
        print(
            f"The run in {folder} was finished before. Its pictures and report are drawn again; to "
            "train anew, give another --output or remove the folder."
        )
    else:
        sizes = ", ".join(f"{size:g}" for size in settings.train_sizes)
        print(
            f"{folder}: the {settings.network} network with {len(settings.training_scales)} scale "
            f"channel{'s' * (len(settings.training_scales) > 1)}, on {len(job.data.train.labels)} "
            f"images of size {sizes}, {settings.epochs} epochs."
        )
    began = time.monotonic()
    results = run(job)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"\n{summary(results)} ({minutes} min {seconds} s)\n")
    for name, content in _FILES.items():
        if (folder / name).exists():
            print(f"  {folder / name}: {content}")
    print(flush=True)
