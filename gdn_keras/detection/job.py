"""The whole job: train a detector, measure it at all sizes, export, draw and report."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import keras

from gdn_keras.detection.average_precision import import_pycocotools
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import import_drawing
from gdn_keras.detection.evaluation import SizePrecision, evaluate_detector
from gdn_keras.detection.report import summary, write_detection_report
from gdn_keras.detection.settings import DetectorSettings
from gdn_keras.detection.training import NetworkBuilder, points_network, train_detector
from gdn_keras.export import export_saved_model
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.run_folder import (
    MODEL,
    REPORT,
    SAVED_MODEL,
    is_whole,
    load_network,
    open_run,
    taking_up,
    write_text,
)

AVERAGE_PRECISION = "average_precision.json"

FILES = {
    REPORT: "one page with everything on it",
    "pictures": "its pictures",
    AVERAGE_PRECISION: "average precision and errors at each size",
    MODEL: "the trained detector",
    SAVED_MODEL: "the same for TensorFlow alone, without this package",
    "history.csv": "loss over the epochs",
}


def run_detection(
    settings: DetectorSettings,
    folder: str | os.PathLike,
    build: NetworkBuilder = points_network,
) -> dict[str, Any]:
    """Does what is still to do of a job in a folder, and returns its results.

    Example:

    >>> results = run_detection(DetectorSettings(epochs=2), "runs/quick")  # doctest: +SKIP

    Args:
        settings: What to train and to test.
        folder: Where everything goes. A folder with a run of equal settings is taken up where that
            run was stopped.
        build: As in `train_detector`.

    Raises:
        ValueError, OSError, ImportError: With one sentence for the user, before anything is done.
        TrainingStopped: By Ctrl-C, a full disk or a non-finite loss; the message says how to go on.
    """
    import_pycocotools()  # missed now, not after the training
    import_drawing()
    folder = open_run(settings.as_dict(), folder)
    with taking_up(folder):
        return _run(settings, folder, build)


def _run(settings: DetectorSettings, folder: Path, build: NetworkBuilder) -> dict[str, Any]:
    if is_whole(folder / MODEL):
        detector = load_network(folder / MODEL)
    else:
        detector = train_detector(settings, folder, build)
    try:
        scenes = settings.test_set()
        results = _read(folder / AVERAGE_PRECISION) or _evaluate(detector, settings, scenes, folder)
        if not (folder / SAVED_MODEL).exists() and keras.backend.backend() == "tensorflow":
            export_saved_model(detector, folder / SAVED_MODEL)
        write_detection_report(folder, results, detector, scenes)
    except (KeyboardInterrupt, OSError) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        raise TrainingStopped(
            f"Stopped{'' if interrupted else f': {error}'}. The trained detector is in "
            f"{folder / MODEL}; the same command goes on with what comes after the training.",
            interrupted=interrupted,
        ) from None
    return results


def _evaluate(
    detector: Detector, settings: DetectorSettings, scenes: Any, folder: Path
) -> dict[str, Any]:
    began = time.monotonic()
    (everything, *sizes), slope = evaluate_detector(detector, scenes, settings.test_sizes)
    seconds = time.monotonic() - began
    results = {
        "settings": settings.as_dict(),
        "parameters": sum(math.prod(w.shape) for w in detector.trainable_weights),
        "seconds_per_scene": seconds / len(scenes.images),
        "slope": slope,
        "all": _as_json(everything),
        "sizes": [_as_json(result) for result in sizes],
    }
    write_text(folder / AVERAGE_PRECISION, json.dumps(results, indent=1, allow_nan=False) + "\n")
    return results


def _as_json(result: SizePrecision) -> dict[str, Any]:
    """JSON has no NaN, which precision without objects is."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in result._asdict().items()
    }


def _read(file: Path) -> dict[str, Any] | None:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


__all__ = ["AVERAGE_PRECISION", "FILES", "TrainingStopped", "run_detection", "summary"]
