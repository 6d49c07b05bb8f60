"""Networks as LiteRT (TensorFlow Lite) files."""

import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from gdn_keras.atomic_files import replacing
from gdn_keras.checks import check_choice
from gdn_keras.export.checks import check_equal, check_file
from gdn_keras.export.endpoints import PROBABILITIES, plain_function
from gdn_keras.export.freezing import freeze, in_float32, require_tensorflow

LABELS = "labels.txt"


def export_litert(
    model: keras.Model, path: str | os.PathLike, *, probabilities: str = "sigmoid"
) -> Path:
    """Writes a LiteRT (TensorFlow Lite) file with the signature `serve`.

    It takes float32 `images` and gives `logits`, `probabilities` and `channel_logits`. The names of
    the classes are in labels.txt, one a line, attached as LiteRT attaches files: as a zip archive
    (`zipfile.ZipFile(path).read("labels.txt")`).

    Args:
        model: As in `export_saved_model`. What it takes, raw pixels included, the file takes.
        path: The file; one that exists is replaced.
        probabilities: As in `export_saved_model`.

    Returns:
        The file.

    Raises:
        ValueError: If the file's logits, computed by LiteRT, differ from the model's.
    """
    tf = require_tensorflow()
    check_choice("probabilities", probabilities, PROBABILITIES)
    model, path = in_float32(model), check_file(path)
    module, function = plain_function(freeze(model), probabilities)
    content = tf.lite.TFLiteConverter.from_concrete_functions([function], module).convert()
    with replacing(path) as temporary:
        temporary.write_bytes(content)
        if hasattr(model, "class_names"):
            with zipfile.ZipFile(temporary, "a") as archive:
                archive.writestr(LABELS, "\n".join(model.class_names))
        check_equal(model, litert_runner(temporary), "LiteRT file")
    return path


def litert_runner(path: str | os.PathLike) -> Callable[[np.ndarray], np.ndarray]:
    """A function from images to the logits of a LiteRT file."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        Interpreter = require_tensorflow().lite.Interpreter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own says that it will move to ai_edge_litert
        runner = Interpreter(str(path)).get_signature_runner()
    return lambda images: runner(images=images)["logits"]
