"""The operations of a step, timed by TensorFlow's profiler and sorted into kinds."""

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

PRODUCTS, FORWARD, INPUTS, FILTERS, MOVES, POINTS, OPTIMIZER, DECODING = (
    "matrix products (smoothing and sampling), both ways",
    "convolutions, forward",
    "convolutions, gradient of the input",
    "convolutions, gradient of the filter",
    "transposing, padding, joining, copying",
    "normalisation, ReLU, sums and other elementwise work",
    "optimizer",
    "decoding",  # of a detector's points, in a scope of this name
)
KINDS = (PRODUCTS, FORWARD, INPUTS, FILTERS, MOVES, POINTS, OPTIMIZER, DECODING)
_SAMPLING = ("MatMul", "Einsum", "ScaleAndTranslate")
_MOVING = ("Transpose", "Pad", "Concat", "Slice", "Split", "Pack", "Reshape", "Gather", "Tile")


def one_operation_at_a_time() -> None:
    """Have TensorFlow run one operation after the other, each on all cores."""
    with contextlib.suppress(RuntimeError):  # Something has run already, as in tests.
        tf.config.threading.set_inter_op_parallelism_threads(1)


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
    if f"{DECODING}/" in name:
        return DECODING
    if any(part in operation for part in _SAMPLING):
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
