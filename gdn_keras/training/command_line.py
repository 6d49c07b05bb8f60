"""From the flags of a command to its results."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gdn_keras.datasets import TEST_SIZES
from gdn_keras.presets import PAPER_SCALES
from gdn_keras.training.distribution import abandon, is_first, join, leave, prepare_together
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.job import Job, prepare, run, train
from gdn_keras.training.report import summary
from gdn_keras.training.run_folder import (
    ACCURACY,
    HISTORY,
    LOGS,
    MODEL,
    PICTURES,
    REPORT,
    SAVED_MODEL,
)
from gdn_keras.training.settings import Settings

_FILES = {
    REPORT: "one page with everything on it",
    PICTURES: "its pictures",
    ACCURACY: "accuracy at each test size (accuracy.json: confusions and selected scales too)",
    MODEL: "the trained network (best.keras: the epoch of the best validation accuracy)",
    SAVED_MODEL: "the same for TensorFlow alone, without this package",
    HISTORY: "loss and accuracy over the epochs",
    LOGS: "the same for TensorBoard",
}


def large_scale_settings(options: argparse.Namespace) -> Settings:
    """The settings that the flags ask for."""
    embedded = options.data == "embedded" or not (options.data or options.mnist_dir)
    if options.paper and embedded:
        raise ValueError("--paper needs all of MNIST: give --mnist-dir FOLDER, or --data tfds")
    settings = Settings(
        network=options.network,
        widths=options.widths,
        scales=_scales(options.scales) or PAPER_SCALES,
        train_scales=_scales(options.train_scales),
        pooling=options.pooling,
        train_sizes=options.train_size,
        test_sizes=options.test_sizes or TEST_SIZES,
        frame=options.frame,
        train_frame=options.train_frame,
        **_common_settings(options, epochs=20 if options.paper else options.default_epochs),
    )
    return settings.single_channel() if options.single_channel else settings


def mnist_settings(options: argparse.Namespace) -> Settings:
    """The settings that the flags ask for."""
    return Settings(
        network="mnist",
        images="mnist",
        frame=28,
        scales=(options.sigma,),
        train_sizes=(1,),
        test_sizes=(1,),
        **_common_settings(options, epochs=options.default_epochs),
    )


def _common_settings(options, epochs):
    first, *last = options.learning_rate
    if len(last) > 1:
        raise ValueError("--learning-rate takes one or two values")
    data = options.data or ("mnist" if options.mnist_dir else "embedded")
    if data == "embedded" and options.mnist_dir:
        raise ValueError("--data embedded needs no --mnist-dir: leave out one of them")
    return {
        "sampling": options.sampling,
        "data": data,
        "data_dir": options.mnist_dir,
        "digits": options.digits,
        "test_digits": options.test_digits,
        "augment": data == "embedded" if options.augment is None else options.augment,
        "epochs": epochs if options.epochs is None else options.epochs,
        "batch_size": options.batch_size,
        "learning_rate": first,
        "final_learning_rate": last[0] if last else 0.005 * first,
        "loss": options.loss,
        "seed": options.seed,
        "precision": options.mixed_precision or "float32",
        "distribute": options.distribute or options.cluster is not None,
        "jit": options.jit,
    }


def _scales(values):
    if values is None:
        return None
    low, high, count = values
    if not 0 < low <= high or count != int(count) or count < 1:
        raise ValueError(
            "--scales and --train-scales take LOW HIGH N, with 0 < LOW <= HIGH and a whole number "
            f"N of channels. Received: {low:g} {high:g} {count:g}"
        )
    return tuple(np.geomspace(low, high, int(count)).tolist())


def run_command(
    parser: argparse.ArgumentParser,
    settings_of: Callable[[argparse.Namespace], Settings],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parses, runs and prints.

    Args:
        parser: With the flags of `gdn_keras.training.flags`.
        settings_of: Function from the parsed flags to settings.
        arguments: The command line; that of the process if `None`.

    Returns:
        The exit code: 0, or 2 for a mistake in the command, 130 after Ctrl-C, 1 for a run that
        had to end.
    """
    options = parser.parse_args(arguments)
    try:
        if options.cluster is not None:
            _join(options.cluster)
        jobs = prepare_together(lambda: _prepare(options, settings_of(options)))
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        if options.cluster is None:
            for job in jobs:
                _announce(job)
                _run_and_say(job, time.monotonic())
        else:
            _run_together(jobs)
    except TrainingStopped as stop:
        print(f"\n{stop}", file=sys.stderr)
        return abandon(130 if stop.interrupted else 1)
    except OSError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return abandon(1)
    return 0


def _join(values):
    try:
        address, processes, process = values or (None, None, None)
        numbers = [None if n is None else int(n) for n in (processes, process)]
    except ValueError:
        raise ValueError(
            "--cluster takes HOST:PORT, the number of processes and the number of this one, or "
            f"nothing. Received: {' '.join(values)}"
        ) from None
    join(address, *numbers)


def _prepare(options, settings) -> list[Job]:
    """The jobs of a command, all checked before the first begins."""
    names = [Path(folder).resolve().name for folder in options.compare]
    compare = {
        name if names.count(name) == 1 else folder: folder
        for name, folder in zip(names, options.compare, strict=True)
    }
    job = prepare(settings, options.output, compare)
    if not options.with_single_channel:
        return [job]
    single = prepare(settings.single_channel(), Path(options.output) / "single_channel")
    beside = {"single scale channel": single.folder, **job.compare}
    return [single, job._replace(compare=beside)]


def _run_together(jobs: list[Job]) -> None:
    """All processes train; the first one does the rest, for which it needs no other."""
    began = time.monotonic()
    for job in jobs:
        if is_first():
            _announce(job)
        train(job)
    leave()
    if is_first():
        for job in jobs:
            _run_and_say(job, began)


def _announce(job: Job) -> None:
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


def _run_and_say(job: Job, began: float) -> None:
    folder = job.folder
    results = run(job)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"\n{summary(results)} ({minutes} min {seconds} s)\n")
    for name, content in _FILES.items():
        if (folder / name).exists():
            print(f"  {folder / name}: {content}")
    print(flush=True)
