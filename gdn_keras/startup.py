"""Imports Keras, silently where the variable TF_CPP_MIN_LOG_LEVEL asks for errors only.

TensorFlow writes its first lines before it looks at that variable.
"""

import contextlib
import importlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") >= "2":
    with _without_stderr():
        importlib.import_module("keras")
