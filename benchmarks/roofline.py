"""How far each kind of work in a training step is from what the machine can do.

    python benchmarks/roofline.py --output DIR             `large`, 112×112, one minute
    python benchmarks/roofline.py --sampling dense --batch 10 --output DIR

The machine's two limits are measured first: a large matrix product, and adding arrays that no cache
holds, on all cores. Then the operations of a step are timed one at a time and counted: their
arithmetic, and the bytes that they read and write, from the shapes in TensorFlow's graph. The
larger of the two times that these would take at the limits is the bound, and "reached" its share
of the measured time. What TensorFlow fuses or keeps in caches moves fewer bytes than are counted,
so that a share can exceed 100 %. DIR/roofline.md has the table.
"""

import argparse
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from contest.profiling import KINDS, MOVES, kind_of, one_operation_at_a_time, recorded
from contest.tasks import WIDTHS, Task
from contest.tensorflow_steps import make_batch, make_network, matrix_product_rate, training_step
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_REDUCTIONS = ("Sum", "Mean", "Max", "Prod", "BiasAddGrad")


@dataclass(frozen=True)
class Work:
    """Floating-point operations and bytes of an operation, or of a kind of them."""

    flops: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.bytes + other.bytes)


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


def measure(task: Task, steps: int) -> tuple[dict[str, tuple[float, Work]], float]:
    """Seconds and work of each kind in a step, and the seconds of a whole step."""
    step = training_step(make_network(task), task, batch=task.batch)
    batch = make_batch(task, task.batch)
    seconds, whole = recorded(lambda: step(*batch).numpy(), steps)
    graph = step.get_concrete_function(*batch).graph
    works = {name: work_of(operation) for name, operation in operations_of(graph)}
    times, totals = Counter(), defaultdict(Work)
    for (name, operation), spent in seconds.items():
        kind = kind_of(name, operation)
        times[kind] += spent
        # What the optimiser of graphs has added has no count.
        totals[kind] += works.get(name, Work())
    return {kind: (times[kind], totals[kind]) for kind in KINDS if times[kind]}, whole


def describe(found: dict[str, tuple[float, Work]], whole: float, batch: int, limits: Limits) -> str:
    """The table, in Markdown, for one image."""
    lines = [
        f"Matrix product: {limits.flops / 1e9:.0f} Gflop/s. Memory: {limits.bytes / 1e9:.1f} GB/s. "
        f"A training step takes {1e3 * whole / batch:.3g} ms per image (batch {batch}).",
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


def main(arguments: list[str] | None = None) -> None:
    """Measures, prints the table and writes it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--net", choices=tuple(WIDTHS), default="large")
    parser.add_argument("--sampling", choices=("matched", "dense"), default="matched")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--side", type=int, default=112)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    for name in ("batch", "side", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1. Received: {getattr(options, name)}")
    one_operation_at_a_time()
    limits = measure_limits()
    task = Task(options.sampling, "training", WIDTHS[options.net], options.side, 8, options.batch)
    table = describe(*measure(task, options.steps), options.batch, limits)
    title = (
        f"# A training step of `{options.net}`, {options.sampling}, {options.side}×{options.side}"
    )
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "roofline.md").write_text(f"{title}\n\n{table}")
    print(table)


if __name__ == "__main__":
    main()
