"""The one place through which the package speaks, and what it draws with."""

import os
import sys
from types import ModuleType
from typing import TextIO


class Reporter:
    """Writes lines, and one line that changes in place where a terminal shows it.

    It writes to `stream`, or to standard output as it is at the time. To silence a run:

    >>> run(task, "runs/quiet", reporter=Reporter(io.StringIO()))  # doctest: +SKIP
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream
        self._in_place = False

    def line(self, text: str = "") -> None:
        """Writes a line, in the place of one that changes."""
        self._write(f"{text}\n", in_place=False)

    def update(self, text: str) -> None:
        """Overwrites the current line of a terminal; silent elsewhere."""
        self._write(text, in_place=True)

    def error(self, text: str) -> None:
        """Writes a line to standard error, where shells look for what went wrong."""
        if self._in_place:
            self.line()
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def _write(self, text: str, in_place: bool) -> None:
        stream = self._stream or sys.stdout
        if in_place and not stream.isatty():
            return
        stream.write(f"\r{text}" if self._in_place else text)
        stream.flush()
        self._in_place = in_place


def import_pyplot() -> ModuleType:
    """matplotlib.pyplot, which draws into files where there is no screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install gdn_keras[plots]") from error
    if not os.environ.get("DISPLAY"):
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
