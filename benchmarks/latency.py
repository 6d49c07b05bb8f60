"""How long one image takes in the formats that a network is exported to.

    python benchmarks/latency.py --output DIR            `default`, 112×112, about 5 minutes
    python benchmarks/latency.py --threads 1 4 --turns 5 --output DIR

The same network as SavedModel (its signature `serve`, called in the process), ONNX Runtime and
LiteRT, with so many threads each. Every combination runs in a process of its own, in turns. "Best"
is the best of all calls, "median" the median over the turns of each turn's median. "Start" is the
time from the import of the runtime to the first answer. LiteRT is `ai_edge_litert` where it is
installed, else the one in TensorFlow, whose import counts as well.
DIR/latency.md has the table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

FORMATS = {"saved_model": "SavedModel", "onnx": "ONNX Runtime", "litert": "LiteRT"}
_WARM_UP = 10


def saved_model_runner(path: Path, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """The signature `serve` of a SavedModel, with so many threads."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    served = tf.saved_model.load(os.fspath(path))

    def run(images: np.ndarray) -> np.ndarray:
        return served.signatures["serve"](images=tf.constant(images))["logits"].numpy()

    return run


def onnx_runner(path: Path, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """An ONNX file in ONNX Runtime, with so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        os.fspath(path), options, providers=["CPUExecutionProvider"]
    )
    return lambda images: session.run(None, {"images": images})[0]


def litert_runner(path: Path, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """A LiteRT file, with so many threads."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        import tensorflow as tf

        Interpreter = tf.lite.Interpreter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own says that it will move to ai_edge_litert
        runner = Interpreter(os.fspath(path), num_threads=threads).get_signature_runner()
    return lambda images: runner(images=images)["output_0"]


RUNNERS = {"saved_model": saved_model_runner, "onnx": onnx_runner, "litert": litert_runner}


def measure(path: str, name: str, threads: int, calls: int) -> dict[str, float | list[float]]:
    """Milliseconds of the start, of the best and of the median call, and the logits."""
    path = Path(path)
    images = np.load(path.parent / "image.npy")
    began = time.perf_counter()
    run = RUNNERS[name](path, threads)
    logits = run(images)
    start = time.perf_counter() - began
    times = []
    for _ in range(_WARM_UP + calls):
        began = time.perf_counter()
        run(images)
        times.append(1e3 * (time.perf_counter() - began))
    times = times[_WARM_UP:]
    return {
        "start": 1e3 * start,
        "best": min(times),
        "median": median(times),
        "logits": logits.ravel().tolist(),
    }


def export(preset: str, folder: Path) -> dict[str, Path]:
    """The network in every format, with an image to call it with."""
    import keras

    from gdn_keras import from_preset
    from gdn_keras.export import export_saved_model

    keras.utils.set_random_seed(0)
    model = from_preset(preset, load_weights=False)
    image = np.random.default_rng(0).uniform(-0.7, 0.7, (1, *model.input_shape[1:]))
    np.save(folder / "image.npy", image.astype("float32"))
    paths = {"onnx": folder / "network.onnx", "litert": folder / "network.tflite"}
    for name, path in paths.items():
        model.export(path, format=name, verbose=False)
    return {"saved_model": export_saved_model(model, folder / "saved_model"), **paths}


def in_own_process(**case: str | int) -> dict[str, float | list[float]]:
    """What `measure` returns, in a new process."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{case} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def describe(found: dict[tuple[str, int], list[dict]], calls: int) -> str:
    """The table, in Markdown."""
    turns = len(next(iter(found.values())))
    lines = [
        f"Milliseconds, one image. Best of all calls, and median over {turns} turns of the median "
        f"of {calls} calls.",
        "",
        "| | threads | best | median | start |",
        "|---|---:|---:|---:|---:|",
    ]
    for (name, threads), results in found.items():
        best = min(result["best"] for result in results)
        middle = median(result["median"] for result in results)
        start = min(result["start"] for result in results)
        lines.append(f"| {FORMATS[name]} | {threads} | {best:.2f} | {middle:.2f} | {start:.0f} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Exports, measures each combination in its own process, in turns, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="default")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--output", type=Path, metavar="DIR")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        print(json.dumps(measure(**json.loads(options.case))))
        return
    if options.output is None:
        parser.error("--output is needed")
    for name, value in (("turns", options.turns), ("calls", options.calls)):
        if value < 1:
            parser.error(f"--{name} must be at least 1. Received: {value}")
    found = {(name, threads): [] for name in options.formats for threads in options.threads}
    with tempfile.TemporaryDirectory() as folder:
        paths = export(options.preset, Path(folder))
        for _ in range(options.turns):
            for (name, threads), results in found.items():
                case = {"path": os.fspath(paths[name]), "name": name, "threads": threads}
                results.append(in_own_process(**case, calls=options.calls))
    _check_equal(found)
    table = describe(found, options.calls)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "latency.md").write_text(f"# Latency of `{options.preset}`\n\n{table}")
    print(table)


def _check_equal(found: dict[tuple[str, int], list[dict]]) -> None:
    """Raise unless all computed the same, since otherwise their times mean nothing."""
    logits = np.array([result["logits"] for results in found.values() for result in results])
    if np.ptp(logits, axis=0).max() > 1e-4 * max(1.0, np.abs(logits).max()):
        raise RuntimeError(f"The formats differ: {logits}")


if __name__ == "__main__":
    main()
