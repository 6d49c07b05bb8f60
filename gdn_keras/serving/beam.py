"""Detections or classes of more pictures than one machine takes, on Apache Beam."""

import io
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdn_keras.serving.loading import Predictor, load_predictor, one_line

try:
    import apache_beam as beam
    from apache_beam.io import fileio
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.ml.inference.base import ModelHandler, RunInference
except ImportError as error:
    raise ImportError("Many pictures need Apache Beam: pip install gdn_keras[beam]") from error

MAX_BATCH = 16
# Pictures among which those of one size are looked for, so that batches of a few sizes fill up.
WAITING = 4 * MAX_BATCH
ERRORS = "errors"
SUFFIX = ".jsonl"
PROCESSES = (
    "--runner=FnApiRunner",
    "--direct_num_workers=2",
    "--direct_running_mode=multi_processing",
)


class Picture(NamedTuple):
    """A file and its pixels."""

    file: str
    pixels: np.ndarray


class PictureHandler(ModelHandler[Picture, dict, Predictor]):
    """A detector or classifier for Beam's RunInference, from pictures of any sizes to records.

    Args:
        model: A .keras file or the folder of a SavedModel, where each worker finds it.
    """

    def __init__(self, model: str | os.PathLike):
        super().__init__()
        self._model = os.fspath(model)

    def load_model(self) -> Predictor:
        return load_predictor(self._model)

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        return {"min_batch_size": WAITING, "max_batch_size": WAITING}

    def run_inference(
        self,
        batch: Sequence[Picture],
        model: Predictor,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[dict[str, Any]]:
        """Records of pictures, at most `MAX_BATCH` of one size at a time."""
        for _, group in itertools.groupby(sorted(batch, key=_shape), key=_shape):
            while pictures := list(itertools.islice(group, MAX_BATCH)):
                yield from _records(pictures, model)


def predict_many(
    pattern: str,
    model: str | os.PathLike,
    output: str | os.PathLike,
    options: Sequence[str] = (),
) -> None:
    """Writes what a model finds in all files that match a pattern, as lines of JSON.

    OUTPUT/detections-*.jsonl, or OUTPUT/classes-*.jsonl for a classifier, holds a line for each
    picture, OUTPUT/errors-*.jsonl one for each that could not be used and why. A shard is complete
    or absent, and says in its name how many there are. A picture that is damaged stops nothing.

    Args:
        pattern: Files, as in "pictures/*.png"; any file system that Beam knows.
        model: As in `PictureHandler`.
        output: Folder to write to, in any such file system.
        options: Beam's own, such as "--runner=FlinkRunner". Two processes on this machine if empty.

    Raises:
        OSError: If there is no such file or model, or the folder holds results.
    """
    output = os.fspath(output)
    if _exists(FileSystems.join(output, f"*{SUFFIX}")):
        raise FileExistsError(f"{output} holds results; choose another folder")
    if not _exists(pattern):
        raise FileNotFoundError(f"no file matches {pattern}")
    predictor = load_predictor(model)
    pipeline_options = beam.options.pipeline_options.PipelineOptions(list(options or PROCESSES))
    with beam.Pipeline(options=pipeline_options) as pipeline:
        pictures = (
            pipeline
            | fileio.MatchFiles(pattern)
            | beam.Reshuffle()
            | fileio.ReadMatches()
            | beam.ParDo(_Read(predictor.read)).with_outputs(ERRORS, main="pictures")
        )
        records = pictures["pictures"] | RunInference(PictureHandler(model))
        found, failed = records | beam.Partition(lambda record, _: int("error" in record), 2)
        broken = (pictures[ERRORS], failed) | beam.Flatten()
        for name, lines in ((predictor.kind, found), (ERRORS, broken)):
            prefix = FileSystems.join(output, name)
            _ = (
                lines
                | f"{name} as JSON" >> beam.Map(json.dumps)
                | f"write {name}" >> beam.io.WriteToText(prefix, file_name_suffix=SUFFIX)
            )


class _Read(beam.DoFn):
    """From files to pictures, or to records of what is wrong with them."""

    def __init__(self, read: Callable[[Any], np.ndarray]):
        self.read = read

    def process(self, file: Any) -> Iterator[Any]:
        path = file.metadata.path
        try:
            yield Picture(path, self.read(io.BytesIO(file.read())))
        except Exception as error:  # files of others: whatever it is, the rest goes on
            yield beam.pvalue.TaggedOutput(ERRORS, _error(path, error))


def _records(pictures: list[Picture], model: Predictor) -> list[dict[str, Any]]:
    """Records of pictures of one size; where they fail together, of each alone."""
    try:
        found = model.records(np.stack([picture.pixels for picture in pictures]))
    except Exception as error:
        if len(pictures) == 1:
            return [_error(pictures[0].file, error)]
        return [record for picture in pictures for record in _records([picture], model)]
    return [
        {"file": picture.file, model.kind: objects}
        for picture, objects in zip(pictures, found, strict=True)
    ]


def _exists(pattern: str) -> bool:
    return any(match.metadata_list for match in FileSystems.match([pattern], limits=[1]))


def _shape(picture: Picture) -> tuple[int, ...]:
    return picture.pixels.shape


def _error(file: str, error: Exception) -> dict[str, Any]:
    return {"file": file, "error": one_line(error)}
