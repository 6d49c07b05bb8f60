"""How far each kind of work in a training step or in detection is from what the machine can do.

    python benchmarks/roofline.py --output DIR             `large`, 112×112, one minute
    python benchmarks/roofline.py --sampling dense --batch 10 --output DIR
    python benchmarks/roofline.py --detection --output DIR

The machine's two limits are measured first: a large matrix product, and adding arrays that no cache
holds, on all cores. Then the operations of a step are timed one at a time and counted: their
arithmetic, and the bytes that they read and write, from the shapes in TensorFlow's graph. The
larger of the two times that these would take at the limits is the bound, and "reached" its share
of the measured time. What TensorFlow fuses or keeps in caches moves fewer bytes than are counted,
so that a share can exceed 100 %. DIR/roofline.md has the table.

With --detection, it is detection in one picture of 224×224 and of 640×480 pixels, by the network of
detectors/speed.py and its image pyramid in octaves. DIR/detection_roofline.csv has a row for each
kind of work: its ms, those at the bound, and the share reached.
"""

import argparse
import csv
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from contest.profiling import (
    DECODING,
    FORWARD,
    KINDS,
    MOVES,
    POINTS,
    PRODUCTS,
    kind_of,
    one_operation_at_a_time,
    recorded,
)
from contest.tasks import WIDTHS, Task
from contest.tensorflow_steps import make_batch, make_network, matrix_product_rate, training_step
from detectors import speed
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_REDUCTIONS = ("Sum", "Mean", "Max", "Prod", "BiasAddGrad")

DETECTORS = "ours", "pyramid, octaves"
SHAPES = (224, 224), (480, 640)
_IN_DETECTION = {
    FORWARD: "convolutions",
    PRODUCTS: "smoothing and sampling",
    MOVES: "moving memory",
    POINTS: "elementwise",
    DECODING: "decoding",
}


@dataclass(frozen=True)
class Work:
    """Floating-point operations and bytes of an operation, or of a kind of them."""

    flops: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.bytes + other.bytes)


Found = dict[str, tuple[float, Work]]  # seconds and work of each kind


@dataclass(frozen=True)
class Limits:
    """What the machine can do: floating-point operations and bytes in a second."""

    flops: float
    bytes: float

    def bound(self, work: Work) -> tuple[str, float]:
        """Which limit is the tighter one, and the seconds that it allows at best."""
        seconds = {"arithmetic": work.flops / self.flops, "memory": work.bytes / self.bytes}
        name = max(seconds, key=seconds.__getitem__)
        return name, seconds[name]


def measure_limits(size: int = 3000, megabytes: int = 256) -> Limits:
    """The machine's limits, each the best of a few."""
    return Limits(max(matrix_product_rate(size).values()), bandwidth(megabytes))


def bandwidth(megabytes: int, repeats: int = 5) -> float:
    """Bytes a second that all cores together read and write, adding large arrays."""
    cores = len(os.sched_getaffinity(0))
    count = megabytes * 2**20 // 4
    arrays = [[np.ones(count // cores, "float32") for _ in range(3)] for _ in range(cores)]
    best = 0.0
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(repeats + 1):
            start = time.perf_counter()
            list(pool.map(lambda abc: np.add(abc[0], abc[1], out=abc[2]), arrays))
            best = max(best, 12 * (count // cores) * cores / (time.perf_counter() - start))
    return best


def operations_of(graph: tf.Graph) -> Iterator[tuple[str, tf.Operation]]:
    """Name and operation, those of called functions included, as the profiler names them."""
    functions = {f.signature.name: f for f in graph.as_graph_def().library.function}
    for operation in graph.get_operations():
        yield operation.name, operation
        if operation.type in _CALLS:
            called = functions[operation.get_attr("f").name]
            body = _body(called, operation)
            for outer, inner in zip(operation.outputs, body.outputs, strict=True):
                outer.set_shape(inner.shape)  # for the calls that read it, backward
            for name, inner in operations_of(body):
                yield f"{operation.name}/{name}", inner


def _body(called: Any, operation: tf.Operation) -> tf.Graph:
    """A called function as a graph, with the shapes of this call."""
    called = deepcopy(called)
    for part in (*called.node_def, *called.arg_attr.values()):
        part.attr.pop("_output_shapes", None)
    return function_def_to_graph(called, input_shapes=[x.shape for x in operation.inputs])


def work_of(operation: tf.Operation) -> Work:
    """The work of one operation; none for constants, and where shapes are not known."""
    tensors = [*operation.inputs, *operation.outputs]
    if not operation.inputs or not operation.outputs or any(not _is_counted(x) for x in tensors):
        return Work()
    moved = sum(_elements(x) * x.dtype.size for x in tensors)
    return Work(_flops(operation), float(moved))


def _flops(operation: tf.Operation) -> float:
    inputs, result = operation.inputs, operation.outputs[0]
    if "MatMul" in operation.type:
        transposed = any(_attribute(operation, key) for key in ("transpose_a", "adj_x"))
        return 2.0 * _elements(result) * inputs[0].shape[-2 if transposed else -1]
    if operation.type == "Conv2D":
        return 2.0 * _elements(result) * _elements(inputs[1]) / inputs[1].shape[-1]
    if operation.type == "Conv2DBackpropInput":
        return 2.0 * _elements(inputs[2]) * _elements(inputs[1]) / inputs[1].shape[-1]
    if operation.type == "Conv2DBackpropFilter":
        return 2.0 * _elements(inputs[2]) * _elements(result) / result.shape[-1]
    if kind_of(operation.name, operation.type) == MOVES:
        return 0.0
    return float(_elements(inputs[0] if operation.type in _REDUCTIONS else result))


def _attribute(operation: tf.Operation, name: str) -> Any:
    return name in operation.node_def.attr and operation.get_attr(name)


def _is_counted(tensor: tf.Tensor) -> bool:
    return tensor.dtype in (tf.resource, tf.variant) or tensor.shape.is_fully_defined()


def _elements(tensor: tf.Tensor) -> int:
    return 0 if tensor.dtype in (tf.resource, tf.variant) else tensor.shape.num_elements()


def measure(run: Callable[[], Any], graph: tf.Graph, steps: int) -> tuple[Found, float]:
    """Seconds and work of each kind in a step, and the seconds of a whole step."""
    seconds, whole = recorded(run, steps)
    operations = dict(operations_of(graph))
    times, totals = Counter(), defaultdict(Work)
    for (name, operation), spent in seconds.items():
        kind = kind_of(name, operation)
        times[kind] += spent
        if name in operations:  # What the optimiser of graphs has added has no count.
            fused = "Fused" in operation
            totals[kind] += work_of(_fused(operations[name]) if fused else operations[name])
    return {kind: (times[kind], totals[kind]) for kind in KINDS if times[kind]}, whole


def _fused(operation: tf.Operation) -> tf.Operation:
    """The convolution or product of a fused operation, which has the name of its last part."""
    while operation.inputs and not ("Conv" in operation.type or "MatMul" in operation.type):
        operation = operation.inputs[0].op
    return operation


def training(task: Task) -> tuple[Callable[[], Any], tf.Graph]:
    """A training step, and its graph."""
    step = training_step(make_network(task), task, batch=task.batch)
    batch = make_batch(task, task.batch)
    return lambda: step(*batch).numpy(), step.get_concrete_function(*batch).graph


def detection(name: str, shape: tuple[int, int]) -> tuple[Callable[[], Any], tf.Graph]:
    """Detection in one picture, as `Detector.detect` does it, and its graph."""
    detector = speed.detector_of(*speed.CONTESTANTS[name])
    images = tf.constant(np.random.default_rng(0).integers(0, 256, (1, *shape, 3), "uint8"))

    def detect(images: Any) -> dict[str, Any]:
        points = detector(images, training=False)
        with tf.name_scope(DECODING):
            return detector.decode_predictions(points, images)

    step = tf.function(detect)
    return lambda: step(images)["boxes"].numpy(), step.get_concrete_function(images).graph


def describe(
    found: Found, whole: float, batch: int, limits: Limits, step: str = "A training step"
) -> str:
    """The table, in Markdown, for one image."""
    lines = [
        f"Matrix product: {limits.flops / 1e9:.0f} Gflop/s. Memory: {limits.bytes / 1e9:.1f} GB/s. "
        f"{step} takes {1e3 * whole / batch:.3g} ms per image (batch {batch}).",
        "",
        "| | Mflop | MB | ms | Gflop/s | GB/s | bound | at the bound, ms | reached |",
        "|---|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for kind, (seconds, work) in found.items():
        name, least = limits.bound(work)
        counts = [f"{total / batch / 1e6:.3g}" for total in (work.flops, work.bytes)]
        rates = [f"{total / seconds / 1e9:.3g}" for total in (work.flops, work.bytes)]
        times = [f"{1e3 * value / batch:.3g}" for value in (seconds, least)]
        cells = [kind, *counts, times[0], *rates, name, times[1], f"{least / seconds:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    rest = whole - sum(seconds for seconds, _ in found.values())
    lines.append(f"| scheduling and waiting | | | {1e3 * rest / batch:.3g} | | | | | |")
    return "\n".join(lines) + "\n"


def detection_tables(steps: int, limits: Limits, folder: Path) -> str:
    """The tables of detection, in Markdown; writes the CSV file."""
    pages, rows = [], {}
    for name in DETECTORS:
        for height, width in SHAPES:
            found, whole = measure(*detection(name, (height, width)), steps)
            found = {_IN_DETECTION[kind]: found[kind] for kind in _IN_DETECTION if kind in found}
            size = f"{width}x{height}"
            table = describe(found, whole, 1, limits, "Detection")
            pages.append(f"## {name}, {size}\n\n{table}")
            times = {kind: (spent, limits.bound(work)[1]) for kind, (spent, work) in found.items()}
            times["all"] = whole, sum(least for _, least in times.values())
            for kind, (spent, least) in times.items():
                title = f"roofline: {name}, {kind}"
                row = rows.setdefault(title, {"name": title, "seed": 0, "size": "all"})
                row |= {size: round(1e3 * spent, 2), f"{size} bound": round(1e3 * least, 2)}
                row[f"{size} reached"] = round(least / spent, 3)
    with open(folder / "detection_roofline.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, next(iter(rows.values())), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    return "\n".join(pages)


def main(arguments: list[str] | None = None) -> None:
    """Measures, prints the table and writes it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--detection", action="store_true", help="not a training step")
    parser.add_argument("--net", choices=tuple(WIDTHS), default="large")
    parser.add_argument("--sampling", choices=("matched", "dense"), default="matched")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--side", type=int, default=112)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    for name in ("batch", "side", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1. Received: {getattr(options, name)}")
    one_operation_at_a_time()
    limits = measure_limits()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.detection:
        title, table = "Detection", detection_tables(options.steps, limits, options.output)
    else:
        net, side, batch = options.net, options.side, options.batch
        task = Task(options.sampling, "training", WIDTHS[net], side, 8, batch)
        table = describe(*measure(*training(task), options.steps), batch, limits)
        title = f"A training step of `{net}`, {options.sampling}, {side}×{side}"
    (options.output / "roofline.md").write_text(f"# {title}\n\n{table}")
    print(table)


if __name__ == "__main__":
    main()
