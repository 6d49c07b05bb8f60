"""Starting the measuring processes and talking to them."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


class Process:
    """A `contest.worker` in a process of its own.

    Args:
        framework: "tensorflow" or "torch".
    """

    def __init__(self, framework: str):
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by `close`
        folder = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "contest.worker", framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )

    def ask(self, do: str, **arguments):
        """Have the worker do something; wait for the result."""
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            raise RuntimeError(
                f"A measuring process died while asked to {do!r} {arguments}, perhaps for lack of "
                f"memory (exit code {self._process.wait()}).\n{self._tail()}"
            ) from None
        if "error" in answer:
            raise RuntimeError(f"Measuring {arguments} failed.\n{answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _tail(self) -> str:
        self._log.seek(0)
        return "".join(self._log.readlines()[-20:])
