"""What is being measured, and how long it will still take."""

import sys
import time


class Progress:
    """Lines on the standard error.

    Args:
        turns: How many turns there will be. Turns differ in length, so that the time left is a
            rough guess.
    """

    def __init__(self, turns: int, stream=None):
        self.turns, self.done = turns, 0
        self._stream = stream or sys.stderr
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Tell what begins now."""
        left = f"[{self.done}/{self.turns}{self._left()}]"
        print(f"{left} {text}", file=self._stream, flush=True)

    def advance(self, result: str) -> None:
        """One turn more is done."""
        self.done += 1
        print(f"    {result}", file=self._stream, flush=True)

    def end(self) -> None:
        print(f"done in {_minutes(time.monotonic() - self._began)}", file=self._stream)

    def _left(self) -> str:
        if self.done == 0:
            return ""
        elapsed = time.monotonic() - self._began
        return f", about {_minutes(elapsed * (self.turns - self.done) / self.done)} left"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
