"""A process that measures for `benchmarks/run.py`: one framework, requests and answers in JSON.

Each contestant has a process of its own, since the thread pools and allocators of two frameworks
(or of two large networks) would disturb each other.
"""

import importlib
import json
import os
import resource
import sys
import time
import traceback

from contest.tasks import Task


class Worker:
    """Answers requests `{"do": <name of a method>, ...}`; keeps the networks it has built."""

    def __init__(self, framework: str):
        self.steps = importlib.import_module(f"contest.{framework}_steps")
        self._built = {}

    def versions(self) -> dict:
        """Versions of the libraries."""
        return self.steps.VERSIONS

    def measure(self, task: dict, seconds: float) -> dict:
        """The shortest of the steps that fit in the given time, of one at least.

        The first request of a task computes a step beforehand, so that tracing does not count.
        """
        task = Task.from_dict(task)
        fresh = task.key not in self._built
        step = self._step(task)
        if fresh:
            step(task.batch)
        best, end = float("inf"), time.perf_counter() + seconds
        while best == float("inf") or time.perf_counter() < end:
            start = time.perf_counter()
            step(task.batch)
            best = min(best, time.perf_counter() - start)
        return {"seconds": best / task.batch, "flops": step.flops}

    def memory(self, task: dict) -> dict:
        """Peak memory of steps in bytes, beyond what the process has after its imports.

        Also its growth by image, from a batch of one to the task's, free of what a process
        needs once.
        """
        task = Task.from_dict(task)
        imported = peak_memory()
        peaks = []
        for batch in (1, task.batch):
            for _ in range(2):
                self._step(task)(batch)
            peaks.append(peak_memory())
        growth = (peaks[1] - peaks[0]) / max(task.batch - 1, 1)
        return {"peak": peaks[1] - imported, "per_image": growth}

    def matrix_product_rate(self, size: int) -> dict:
        """Flop/s of large matrix products."""
        return self.steps.matrix_product_rate(size)

    def covariance_errors(self, task: dict) -> dict:
        """Covariance errors of the task's network."""
        return self.steps.covariance_errors(Task.from_dict(task))

    def clear(self) -> None:
        """Forget all networks."""
        self._built.clear()

    def _step(self, task: Task):
        if task.key not in self._built:
            self._built[task.key] = self.steps.make_step(task)
        return self._built[task.key]


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    try:
        # Unlike getrusage, this does not count the process that started this one.
        with open("/proc/self/status") as status:
            return 1024 * next(int(x.split()[1]) for x in status if x.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def serve(framework: str) -> None:
    """Answer each line of the standard input by a line of the standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    # What libraries print must not get between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = Worker(framework)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": getattr(worker, request.pop("do"))(**request)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    serve(sys.argv[1])
