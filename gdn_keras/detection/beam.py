"""Detections in more pictures than one machine takes, on Apache Beam."""

import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.detection.files import (
    LoadedDetector,
    as_records,
    load_detector,
    one_line,
    read_picture,
)

try:
    import apache_beam as beam
    from apache_beam.io import fileio
    from apache_beam.ml.inference.base import ModelHandler, RunInference
except ImportError as error:
    raise ImportError("Many pictures need Apache Beam: pip install gdn_keras[beam]") from error

MAX_BATCH = 16
DETECTIONS, ERRORS = "detections", "errors"


class Picture(NamedTuple):
    """A file and its pixels."""

    file: str
    pixels: np.ndarray


class DetectorHandler(ModelHandler[Picture, dict, LoadedDetector]):
    """A detector for Beam's RunInference, from pictures of any sizes to records.

    Args:
        model: A .keras file or the folder of a SavedModel, where each worker finds it.
    """

    def __init__(self, model: str | os.PathLike):
        super().__init__()
        self._model = os.fspath(model)

    def load_model(self) -> LoadedDetector:
        return load_detector(self._model)

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        return {"min_batch_size": 1, "max_batch_size": MAX_BATCH}

    def run_inference(
        self,
        batch: Sequence[Picture],
        model: LoadedDetector,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[dict[str, Any]]:
        """Records of a batch, pictures of one size at a time."""
        in_order = sorted(batch, key=_shape)
        for _, group in itertools.groupby(in_order, key=_shape):
            yield from _records(list(group), model)


def detect_many(
    pattern: str,
    model: str | os.PathLike,
    output: str | os.PathLike,
    options: Sequence[str] = (),
) -> None:
    """Writes what a detector finds in all files that match a pattern, as lines of JSON.

    OUTPUT/detections-*.jsonl holds a line for each picture, OUTPUT/errors-*.jsonl one for each that
    could not be used and why. All shards appear once they are complete. A picture that is damaged
    stops nothing.

    Args:
        pattern: Files, as in "pictures/*.png"; any file system that Beam knows.
        model: As in `DetectorHandler`.
        output: Folder to write to, in any such file system.
        options: Beam's own, such as "--runner=FlinkRunner". Two processes on this machine if empty.
    """
    channels = load_detector(model).channels
    options = options or (
        "--runner=FnApiRunner",
        "--direct_num_workers=2",
        "--direct_running_mode=multi_processing",
    )
    pipeline_options = beam.options.pipeline_options.PipelineOptions(list(options))
    with beam.Pipeline(options=pipeline_options) as pipeline:
        pictures = (
            pipeline
            | fileio.MatchFiles(pattern)
            | beam.Reshuffle()
            | fileio.ReadMatches()
            | beam.ParDo(_Read(channels)).with_outputs(ERRORS, main=DETECTIONS)
        )
        records = pictures[DETECTIONS] | RunInference(DetectorHandler(model))
        found, failed = records | beam.Partition(lambda record, _: int("error" in record), 2)
        broken = (pictures[ERRORS], failed) | beam.Flatten()
        for name, lines in ((DETECTIONS, found), (ERRORS, broken)):
            prefix = (
                str(PurePath(output) / name) if "://" not in str(output) else f"{output}/{name}"
            )
            _ = (
                lines
                | f"{name} as JSON" >> beam.Map(json.dumps)
                | f"write {name}" >> beam.io.WriteToText(prefix, file_name_suffix=".jsonl")
            )


class _Read(beam.DoFn):
    """From files to pictures, or to records of what is wrong with them."""

    def __init__(self, channels: int):
        self.channels = channels

    def process(self, file: Any) -> Iterator[Any]:
        path = file.metadata.path
        try:
            yield Picture(path, read_picture(io.BytesIO(file.read()), self.channels))
        except Exception as error:  # files of others: whatever it is, the rest goes on
            yield beam.pvalue.TaggedOutput(ERRORS, _error(path, error))


def _records(pictures: list[Picture], model: LoadedDetector) -> list[dict[str, Any]]:
    """Records of pictures of one size; where they fail together, of each alone."""
    try:
        found = as_records(model.detect(np.stack([picture.pixels for picture in pictures])))
    except Exception as error:
        if len(pictures) == 1:
            return [_error(pictures[0].file, error)]
        return [record for picture in pictures for record in _records([picture], model)]
    return [
        {"file": picture.file, "detections": detections}
        for picture, detections in zip(pictures, found, strict=True)
    ]


def _shape(picture: Picture) -> tuple[int, ...]:
    return picture.pixels.shape


def _error(file: str, error: Exception) -> dict[str, Any]:
    return {"file": file, "error": one_line(error)}
