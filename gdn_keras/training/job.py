"""The whole job: train, test at all sizes, export, draw and report, in one folder."""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from gdn_keras.analysis import (
    SizeResult,
    effective_training_scales,
    evaluate_by_size,
    selection_slope,
)
from gdn_keras.datasets import ImageData
from gdn_keras.models import parameter_counts, retarget
from gdn_keras.reporting import Reporter
from gdn_keras.training.data import describe_data, image_shape, images_at, sizes_of
from gdn_keras.training.distribution import agreed, device_count
from gdn_keras.training.fitting import TrainingStopped, build_network, train_network
from gdn_keras.training.recipe import Recipe
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
    save_model,
    taking_up,
    write_text,
)

_IMAGES_FOR_SCALES = 1000
_REFERENCE_IMAGES = 100

_EXPORT = """
import json, sys
import keras, numpy as np
from gdn_keras.export import export_saved_model
model, folder, options = json.loads(sys.argv[1])
if "reference_file" in options:
    options["reference_images"] = np.load(options.pop("reference_file"), allow_pickle=False)
export_saved_model(keras.saving.load_model(model, compile=False), folder, **options)
"""


class TrainingJob(NamedTuple):
    """A run that is ready to start: nothing that a user could get wrong is left to check."""

    recipe: Recipe
    data: ImageData
    folder: Path
    compare: dict[str, Path]
    network: keras.Model
    reporter: Reporter
    settings: dict[str, Any]  # all that the result depends on

    @property
    def finished(self) -> bool:
        """Whether the run was finished before."""
        return (self.folder / REPORT).exists()


def prepare_training(
    recipe: Recipe,
    data: ImageData,
    folder: str | os.PathLike,
    compare: Mapping[str, str | os.PathLike] | None = None,
    reporter: Reporter | None = None,
) -> TrainingJob:
    """Checks everything that a run needs before the first step is taken.

    Args:
        recipe: What network to train, and how.
        data: What to train and to test it on.
        folder: Where everything goes. A folder with a run of equal settings is taken up where that
            run was stopped.
        compare: Folders of other finished runs, by name; their curves are drawn beside this one's.
        reporter: What the run speaks through; to standard output by default.

    Raises:
        ValueError, OSError, ImportError: With one sentence for the user.
    """
    compare = {name: Path(path).expanduser() for name, path in (compare or {}).items()}
    for path in compare.values():
        read_results(path)
    device_count(recipe)
    network = build_network(recipe, data)
    settings = {**recipe.as_dict(), **describe_data(data)}
    folder = open_run(settings, folder)
    return TrainingJob(recipe, data, folder, compare, network, reporter or Reporter(), settings)


def train(job: TrainingJob) -> None:
    """The training of a job alone, which several processes do together."""
    with taking_up(job.folder):
        _train(job)


def _train(job: TrainingJob) -> None:
    file = job.folder / MODEL
    if not agreed(is_whole(file)):
        trained = train_network(job.network, job.recipe, job.data, job.folder, job.reporter)
        finished = retarget(
            trained, image_shape(job.data), job.recipe.scales, surround=job.recipe.surround
        )
        save_model(finished, file)


def run_training(job: TrainingJob) -> dict[str, Any]:
    """Does what is still to do of a job, and returns its results, as in accuracy.json.

    Example:

    >>> data = gdn_keras.datasets.load_dataset("mnist_large_scale", count=1000)  # doctest: +SKIP
    >>> results = run_training(prepare_training(Recipe(epochs=3), data, "run"))  # doctest: +SKIP

    Raises:
        OSError: If another process is at work on it.
        TrainingStopped: By Ctrl-C or a non-finite loss; the message says how to go on.
    """
    with taking_up(job.folder):
        return _run(job)


def _run(job: TrainingJob) -> dict[str, Any]:
    folder = job.folder
    if not is_whole(folder / MODEL):
        _train(job)
    model = load_network(folder / MODEL)
    try:
        if not _has_results(folder):
            _evaluate(job, model)
        if not _has_export(folder, model):
            _export(job, model)
        write_report(folder, job.compare, job.reporter)
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


def _evaluate(job: TrainingJob, model: keras.Model) -> None:
    began = time.monotonic()

    def say(result: SizeResult) -> None:
        what = f"test size {result.size:<6.3g}" if result.size is not None else "validation"
        job.reporter.line(f"{what} {result.accuracy:7.2%}")

    results = evaluate_by_size(
        model,
        lambda size: images_at(job.data, size),
        sizes_of(job.data),
        job.recipe.batch_size,
        report=say,
    )
    job.reporter.line(f"Tested in {time.monotonic() - began:.0f} s.")
    write_text(job.folder / ACCURACY, _as_csv(results))
    content = {
        "settings": job.settings,
        "size_name": job.data.size_name,
        "parameters": parameter_counts(model),
        "scales": list(job.recipe.scales),
        **_selection(job, model, results),
        "sizes": [_as_dict(result) for result in results],
    }
    # The last of the results, so that its presence says that they are complete.
    write_text(job.folder / RESULTS, json.dumps(content, indent=1) + "\n")


def _selection(job: TrainingJob, model: keras.Model, results: list[SizeResult]) -> dict[str, Any]:
    """What there is to say of scale selection, for several channels and sizes."""
    if len(job.recipe.scales) < 2:
        return {}
    trained_on = retarget(model, job.data.train.images.shape[1:], surround=0.0)
    images = _first(job.data, _IMAGES_FOR_SCALES)
    scales = effective_training_scales(trained_on, images)
    found: dict[str, Any] = {"effective_training_scales": scales}
    sizes = [result.size for result in results if result.size is not None]
    inside = middle_sizes(sizes)
    if len(inside) > 1:
        counts = [result.selected for result in results if result.selected is not None]
        within = inside[0], inside[-1]
        found["selection_slope"] = selection_slope(sizes, job.recipe.scales, counts, within)
        found["selection_sizes"] = within
    return found


def middle_sizes(sizes: list[float]) -> list[float]:
    """The middle half of the test sizes, in logarithm: beyond it, winning channels run out."""
    if not sizes:
        return []
    low, high = min(sizes), max(sizes)
    quarter = (high / low) ** 0.25
    return [s for s in sizes if low * quarter * 0.999 <= s <= high / quarter * 1.001]


def _export(job: TrainingJob, model: keras.Model) -> None:
    from gdn_keras.export import export_saved_model

    folder = job.folder / SAVED_MODEL
    options = export_options(job.recipe, job.data)
    if keras.backend.backend() == "tensorflow":
        export_saved_model(model, folder, **options)
        return
    # A process of its own has Keras on TensorFlow; the GPUs' memory is this one's.
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.NamedTemporaryFile(suffix=".npy") as references:
        if "reference_images" in options:
            np.save(references, options.pop("reference_images"), allow_pickle=False)
            references.flush()
            options["reference_file"] = references.name
        arguments = json.dumps([str(job.folder / MODEL), str(folder), options])
        command = [sys.executable, "-c", _EXPORT, arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"the export by TensorFlow failed: {done.stderr.strip()[-500:]}")


def export_options(recipe: Recipe, data: ImageData) -> dict[str, Any]:
    """What `export_saved_model` has to know of how a network was trained."""
    options: dict[str, Any] = {
        "probabilities": "softmax" if recipe.loss == "softmax" else "sigmoid"
    }
    if len(data.train_sizes) == 1:
        options["training_size"] = data.train_sizes[0]
        options["reference_images"] = _first(data, _REFERENCE_IMAGES)
    return options


def _first(data: ImageData, count: int) -> np.ndarray:
    """The first training images."""
    return np.asarray(data.train.images[: min(count, len(data.train.labels))])


def _as_csv(results: list[SizeResult]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "images", "accuracy"])
    writer.writerows([r.size, r.images, r.accuracy] for r in results)
    return text.getvalue()


def _as_dict(result: SizeResult) -> dict[str, Any]:
    selected = None if result.selected is None else result.selected.tolist()
    return {**result._asdict(), "confusion": result.confusion.tolist(), "selected": selected}
