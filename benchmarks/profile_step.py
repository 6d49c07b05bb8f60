"""Where the time of a training step goes.

    python benchmarks/profile_step.py                      matched sampling, half a minute
    python benchmarks/profile_step.py --sampling dense --batch 10

TensorFlow's profiler records every operation of a few steps of `large` (112×112, 8 scale channels),
one operation at a time on all cores, so that the times of operations add up. They are sorted
into kinds by what the operation is and on which side of the gradient it stands. What remains
of the time between start and end of a step is TensorFlow's own: scheduling, and waiting.
"""

import argparse
import contextlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from contest.tasks import WIDTHS, Task
from contest.tensorflow_steps import make_step
from tensorflow.tsl.profiler.protobuf import xplane_pb2

PRODUCTS, FORWARD, INPUTS, FILTERS, MOVES, POINTS, OPTIMIZER = (
    "matrix products (smoothing and sampling), both ways",
    "convolutions, forward",
    "convolutions, gradient of the input",
    "convolutions, gradient of the filter",
    "transposing, padding, joining, copying",
    "normalisation, ReLU, sums and other elementwise work",
    "optimizer",
)
KINDS = (PRODUCTS, FORWARD, INPUTS, FILTERS, MOVES, POINTS, OPTIMIZER)
_MOVING = ("Transpose", "Pad", "Concat", "Slice", "Split", "Pack", "Reshape", "Gather", "Tile")


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--net", choices=tuple(WIDTHS), default="large")
    parser.add_argument("--sampling", choices=("matched", "dense"), default="matched")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--side", type=int, default=112)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args(arguments)
    for name in ("batch", "side", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1. Received: {getattr(options, name)}")
    one_operation_at_a_time()
    task = Task(options.sampling, "training", WIDTHS[options.net], options.side, 8, options.batch)
    print(describe(*profile(task, options.steps)))


def one_operation_at_a_time() -> None:
    """Have TensorFlow run one operation after the other, each on all cores."""
    with contextlib.suppress(RuntimeError):  # Something has run already, as in tests.
        tf.config.threading.set_inter_op_parallelism_threads(1)


def profile(task: Task, steps: int) -> tuple[dict[tuple[str, str], float], float]:
    """Milliseconds an image by (kind, operation), and of a whole step.

    They are means over the steps, unlike the best times of `run.py`.
    """
    step = make_step(task)
    operations, whole = recorded(lambda: step(task.batch), steps)
    times = Counter()
    for (name, operation), seconds in operations.items():
        times[kind_of(name, operation), operation] += seconds
    unit = 1e3 / task.batch
    return {key: unit * seconds for key, seconds in times.items()}, unit * whole


def recorded(run: Callable[[], None], steps: int) -> tuple[dict[tuple[str, str], float], float]:
    """Seconds a step by (name, type) of the operation, and of a whole step."""
    run()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        start = time.perf_counter()
        for _ in range(steps):
            run()
        whole = time.perf_counter() - start
        tf.profiler.experimental.stop()
        times = Counter()
        for name, operation, seconds in recorded_operations(folder):
            times[name, operation] += seconds / steps
    return times, whole / steps


def recorded_operations(folder: str):
    """Name, type and seconds of each operation in the profiler's files.

    An operation that runs inside another one (a function's call) counts for itself only.
    """
    for file in Path(folder).rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
        for plane in space.planes:
            for line in plane.lines:
                events = sorted(line.events, key=lambda e: (e.offset_ps, -e.duration_ps))
                for name, seconds in _own_times(plane, events):
                    yield (*name.rsplit(":", 1), seconds)


def _own_times(plane, events):
    """Operations ("name:Type") of one thread, less the operations inside them."""
    open_events, own = [], []
    for event in events:
        name = plane.event_metadata[event.metadata_id].name
        if not is_operation(name):
            continue
        while open_events and event.offset_ps >= open_events[-1][0]:
            open_events.pop()
        if open_events:
            own[open_events[-1][1]][1] -= event.duration_ps * 1e-12
        own.append([name, event.duration_ps * 1e-12])
        open_events.append((event.offset_ps + event.duration_ps, len(own) - 1))
    return own


def is_operation(name: str) -> bool:
    """Whether the profiler's event is an operation of the graph, "scope/name:Type"."""
    left, _, right = name.rpartition(":")
    return bool(left) and right.lstrip("_").isalnum() and ":" not in left and " " not in name


def kind_of(name: str, operation: str) -> str:
    """The kind of an operation, from its name in the graph and its type."""
    # Gradients are computed outside the scopes of layers, or in a tape's; those of the convolutions
    # in a function that is called without a scope.
    backward = "gradient_tape" in name or "/" not in name or name.startswith("PartitionedCall")
    if "MatMul" in operation or "Einsum" in operation:
        return PRODUCTS
    if operation.endswith("Conv2DBackpropFilter"):
        return FILTERS
    if operation.endswith("Conv2DBackpropInput"):
        return INPUTS
    if "Conv2D" in operation:
        return INPUTS if backward else FORWARD
    if "adam" in name.lower() or "Assign" in operation:
        return OPTIMIZER
    return MOVES if any(part in operation for part in _MOVING) else POINTS


def describe(times: dict[tuple[str, str], float], whole: float) -> str:
    """A table of the kinds, and the costliest operations of each."""
    lines = [f"A training step takes {whole:.3g} ms an image. Of this go to", ""]
    lines += ["| | ms/image | share | mostly |", "|---|---:|---:|---|"]
    for kind in KINDS:
        found = {op: value for (k, op), value in times.items() if k == kind}
        total = sum(found.values())
        mostly = sorted(found, key=found.get, reverse=True)[:4]
        names = ", ".join(f"{op} {found[op]:.2g}" for op in mostly)
        lines.append(f"| {kind} | {total:.3g} | {total / whole:.0%} | {names} |")
    rest = whole - sum(times.values())
    lines.append(f"| scheduling and waiting | {rest:.3g} | {rest / whole:.0%} | |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
