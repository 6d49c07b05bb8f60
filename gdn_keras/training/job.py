"""The whole job: train, measure scale generalisation, export, draw and report, in one folder."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import keras

from gdn_keras.analysis.evaluation import SizeResult, evaluate_by_size
from gdn_keras.analysis.selection import effective_training_scales, selection_slope
from gdn_keras.models import parameter_counts
from gdn_keras.training.data import RunData, load_data
from gdn_keras.training.distribution import device_count, from_first, is_first
from gdn_keras.training.fitting import TrainingStopped, build_network, train_network
from gdn_keras.training.report import write_report
from gdn_keras.training.run_folder import (
    ACCURACY,
    MODEL,
    REPORT,
    RESULTS,
    SAVED_MODEL,
    is_whole,
    load_network,
    open_run,
    read_results,
    write_text,
)
from gdn_keras.training.settings import Settings

_IMAGES_FOR_EFFECTIVE_SCALES = 1000

_EXPORT = """
import json, sys
import keras
from gdn_keras.export import export_saved_model
model, folder, options = json.loads(sys.argv[1])
export_saved_model(keras.saving.load_model(model, compile=False), folder, **options)
"""


class Job(NamedTuple):
    """A run that is ready to start: nothing that a user could get wrong is left to check."""

    settings: Settings
    folder: Path
    data: RunData
    compare: dict[str, Path]

    @property
    def finished(self) -> bool:
        """Whether the run was finished before."""
        return (self.folder / REPORT).exists()


def prepare(
    settings: Settings,
    folder: str | os.PathLike,
    compare: Mapping[str, str | os.PathLike] | None = None,
) -> Job:
    """Checks everything that a run needs before the first step is taken.

    Args:
        settings: What to train and to test.
        folder: Where everything goes. A folder with a run of equal settings is taken up where that
            run was stopped.
        compare: Folders of other finished runs, by name; their curves are drawn beside this one's.

    Raises:
        ValueError, OSError, ImportError: With one sentence for the user.
    """
    compare = {name: Path(path).expanduser() for name, path in (compare or {}).items()}
    for path in compare.values() if is_first() else ():
        read_results(path)
    device_count(settings)
    build_network(settings)
    data = load_data(settings)
    folder = open_run(settings, folder) if is_first() else Path(folder)
    return Job(settings, folder, data, compare)


def train(job: Job) -> None:
    """The training of a job alone, which several processes do together."""
    if not from_first(is_whole(job.folder / MODEL)):
        train_network(job.settings, job.data, job.folder)


def run(job: Job) -> dict:
    """Does what is still to do of a job, and returns its results, as in accuracy.json.

    Example:

    >>> settings = Settings(digits=1000, epochs=3)
    >>> results = run(prepare(settings, "runs/quick"))  # doctest: +SKIP

    Raises:
        TrainingStopped: By Ctrl-C or a non-finite loss; the message says how to go on.
    """
    folder, settings = job.folder, job.settings
    if is_whole(folder / MODEL):
        model = load_network(folder / MODEL)
    else:
        model = train_network(settings, job.data, folder)
    try:
        if not _has_results(folder):
            _evaluate(job, model)
        if not _has_export(folder, model):
            _export(model, settings, folder / SAVED_MODEL)
        write_report(folder, job.compare)
    except KeyboardInterrupt:
        raise TrainingStopped(f"Stopped. {_how_to_go_on(folder)}", interrupted=True) from None
    except OSError as error:
        raise TrainingStopped(f"Stopped: {error}. {_how_to_go_on(folder)}") from error
    return read_results(folder)


def _how_to_go_on(folder: Path) -> str:
    return (
        f"The trained network is in {folder / MODEL}; the same command goes on with what comes "
        "after the training."
    )


def _has_results(folder: Path) -> bool:
    try:
        return bool(read_results(folder))
    except ValueError:
        return False


def _has_export(folder: Path, model: keras.Model) -> bool:
    from gdn_keras.export import is_export_of

    return (folder / SAVED_MODEL).exists() and is_export_of(model, folder / SAVED_MODEL)


def _evaluate(job: Job, model: keras.Model) -> None:
    settings = job.settings
    began = time.monotonic()
    results = evaluate_by_size(
        model, job.data.test, settings.test_sizes, settings.batch_size, report=_say
    )
    print(f"Tested in {time.monotonic() - began:.0f} s.", flush=True)
    write_text(job.folder / ACCURACY, _as_csv(results))
    content = {
        "settings": settings.as_dict(),
        "training_images": len(job.data.train.labels),
        "parameters": parameter_counts(model),
        "scales": list(settings.scales),
        **_selection(job, model, results),
        "sizes": [_as_dict(result) for result in results],
    }
    # The last of the results, so that its presence says that they are complete.
    write_text(job.folder / RESULTS, json.dumps(content, indent=1) + "\n")


def _selection(job: Job, model: keras.Model, results: list[SizeResult]) -> dict:
    """What there is to say of scale selection, for several channels and sizes."""
    settings = job.settings
    sizes = [result.size for result in results]
    if len(settings.scales) < 2 or sum(1 <= size <= 4 for size in sizes) < 2:
        return {}
    size = settings.train_sizes[0]
    images = job.data.train.images[: min(len(job.data.train.labels), _IMAGES_FOR_EFFECTIVE_SCALES)]
    if settings.training_frame != settings.frame:
        images = job.data.test(size).images[:_IMAGES_FOR_EFFECTIVE_SCALES]
    counts = [result.selected for result in results]
    return {
        "effective_training_scales": effective_training_scales(model, images),
        "selection_slope": selection_slope(sizes, settings.scales, counts),
    }


def _export(model: keras.Model, settings: Settings, folder: Path) -> None:
    from gdn_keras.export import export_saved_model

    options = export_options(settings)
    if keras.backend.backend() == "tensorflow":
        export_saved_model(model, folder, **options)
        return
    # A process of its own has Keras on TensorFlow; the GPUs' memory is this one's.
    arguments = json.dumps([str(folder.with_name(MODEL)), str(folder), options])
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", _EXPORT, arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"the export by TensorFlow failed: {done.stderr.strip()[-500:]}")


def export_options(settings: Settings) -> dict:
    """What `export_saved_model` has to know of how a network was trained."""
    rescaled, one_size = settings.images == "large_scale", len(settings.train_sizes) == 1
    return {
        "training_size": settings.train_sizes[0] if one_size and rescaled else None,
        "probabilities": "softmax" if settings.loss == "softmax" else "sigmoid",
        "pixels": "large_scale" if rescaled else "unit",
    }


def _say(result: SizeResult) -> None:
    print(f"test size {result.size:<6.3g} {result.accuracy:7.2%}", flush=True)


def _as_csv(results: list[SizeResult]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "images", "accuracy"])
    writer.writerows([r.size, r.images, r.accuracy] for r in results)
    return text.getvalue()


def _as_dict(result: SizeResult) -> dict:
    selected = None if result.selected is None else result.selected.tolist()
    return {**result._asdict(), "confusion": result.confusion.tolist(), "selected": selected}
