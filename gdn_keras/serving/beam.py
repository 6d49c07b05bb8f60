"""Detections or classes of more pictures than one machine takes, on Apache Beam."""

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gdn_keras.serving import Picture, Predictor, load_predictor, read_pictures
from gdn_keras.serving.predictor import WAITING, one_line

try:
    import apache_beam as beam
    from apache_beam.io import fileio
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.ml.inference.base import ModelHandler, RunInference
except ImportError as error:
    raise ImportError("Many pictures need Apache Beam: pip install gdn_keras[beam]") from error

ERRORS, SUFFIX = "errors", ".jsonl"
PROCESSES = "--runner=FnApiRunner --direct_num_workers=2 --direct_running_mode=multi_processing"


class PictureHandler(ModelHandler[Picture, dict, Predictor]):
    """For RunInference: pictures of any sizes to records, by the model in a file."""

    def __init__(self, model: str | os.PathLike):
        super().__init__()
        self._model = os.fspath(model)

    def load_model(self) -> Predictor:
        return load_predictor(self._model)

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        limits = {"min_batch_size": WAITING, "max_batch_size": WAITING}
        return {**limits, "element_size_fn": lambda picture: picture.weight}

    def run_inference(
        self,
        batch: Sequence[Picture],
        model: Predictor,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[dict[str, Any]]:
        return model.records(batch)


def predict_many(
    pattern: str,
    model: str | os.PathLike,
    output: str | os.PathLike,
    options: Sequence[str] = (),
    **reading: Any,
) -> None:
    """Writes what a model finds in all files that match a pattern, as lines of JSON.

    OUTPUT/detections-*.jsonl, or OUTPUT/classes-*.jsonl for a classifier, holds a line for each
    picture or page, OUTPUT/errors-*.jsonl one for each that could not be used and why. A shard is
    complete or absent, and says in its name how many there are. A damaged picture stops nothing.

    Args:
        pattern: Files, as in "pictures/*.png"; any file system that Beam knows.
        model: A .keras file or the folder of a SavedModel, where each worker finds it.
        output: Folder to write to, in any such file system.
        options: Beam's own, such as "--runner=FlinkRunner". Two processes on this machine if empty.
        **reading: How pictures are read, as in `read_pictures`, such as `enlarge`.

    Raises:
        OSError: If there is no such file or model, or the folder holds results.
    """
    output = os.fspath(output)
    if _exists(FileSystems.join(output, f"*{SUFFIX}")):
        raise FileExistsError(f"{output} holds results; choose another folder")
    if not _exists(pattern):
        raise FileNotFoundError(f"no file matches {pattern}")
    predictor = load_predictor(model)
    read = beam.FlatMap(_read, predictor.channels, predictor.frame, **reading)
    flags = list(options or PROCESSES.split())
    settings = beam.options.pipeline_options.PipelineOptions(flags)
    with beam.Pipeline(options=settings) as pipeline:
        pictures = (
            pipeline | fileio.MatchFiles(pattern) | beam.Reshuffle() | fileio.ReadMatches() | read
        )
        records = pictures | RunInference(PictureHandler(model))
        parts = records | beam.Partition(lambda record, _: int("error" in record), 2)
        for name, lines in zip((predictor.kind, ERRORS), parts, strict=True):
            prefix = FileSystems.join(output, name)
            _ = (
                lines
                | f"{name} as JSON" >> beam.Map(json.dumps)
                | f"write {name}" >> beam.io.WriteToText(prefix, file_name_suffix=SUFFIX)
            )


def _read(
    file: Any, channels: int, frame: tuple[int, int] | None, **reading: Any
) -> Iterator[Picture]:
    name = file.metadata.path
    try:
        content = io.BytesIO(file.read())
    except Exception as error:  # of any file system: the rest goes on
        yield Picture(name, error=one_line(error))
    else:
        yield from read_pictures(content, channels, frame, name=name, **reading)


def _exists(pattern: str) -> bool:
    return any(match.metadata_list for match in FileSystems.match([pattern], limits=[1]))
