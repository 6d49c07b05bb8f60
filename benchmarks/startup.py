"""What has to be waited for until a network is of use, beside a plain Keras network.

    python benchmarks/startup.py --output DIR            about 3 minutes, alone on the machine

The network `default` and a plain CNN of the same widths, 112×112, each read from a .keras file in a
fresh process, in turns: importing the package, loading the file, the first prediction (one image)
and the first training step (10 images). Seconds are the best of the turns. DIR/startup.md has the
table.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

PACKAGES = {"gdn_keras": "`default`", "keras": "plain CNN"}
PHASES = ("import", "loading", "first prediction", "first step")
_BATCH = 10


def measure(path: str, package: str) -> dict[str, float]:
    """Seconds of each phase, in this process."""
    times = [time.perf_counter()]
    importlib.import_module(package)
    times.append(time.perf_counter())
    import keras
    import numpy as np

    model: Any = keras.saving.load_model(path)
    times.append(time.perf_counter())
    images = np.zeros((_BATCH, *model.input_shape[1:]), "float32")
    model.predict(images[:1], verbose=0)
    times.append(time.perf_counter())
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    model.train_on_batch(images, np.zeros((_BATCH, model.output_shape[-1]), "float32"))
    times.append(time.perf_counter())
    spent = (later - earlier for earlier, later in pairwise(times))
    return dict(zip(PHASES, spent, strict=True))


def write_networks(folder: Path) -> dict[str, Path]:
    """The files to start with."""
    from contest.tasks import WIDTHS
    from contest.tensorflow_steps import plain_cnn

    from gdn_keras import from_preset

    networks = {
        "gdn_keras": from_preset("default", load_weights=False),
        "keras": plain_cnn((112, 112, 1), WIDTHS["default"]),
    }
    paths = {package: folder / f"{package}.keras" for package in networks}
    for package, network in networks.items():
        network.save(paths[package])
    return paths


def describe(found: dict[str, list[dict[str, float]]]) -> str:
    """The table, in Markdown: the best of the turns, and their ratio."""
    best = {
        package: {phase: min(turn[phase] for turn in turns) for phase in PHASES}
        for package, turns in found.items()
    }
    lines = [
        f"| seconds | {' | '.join(PACKAGES.values())} | ratio | added |",
        "|---|---:|---:|---:|---:|",
    ]
    for phase in PHASES:
        ours, plain = best["gdn_keras"][phase], best["keras"][phase]
        cells = f"{ours:.2f} | {plain:.2f} | {ours / plain:.2f} | {ours - plain:+.2f}"
        lines.append(f"| {phase} | {cells} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Measures in fresh processes, in turns, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--output", type=Path, metavar="DIR")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        print(json.dumps(measure(*options.case)))
        return
    if options.output is None:
        parser.error("--output is needed")
    if options.turns < 1:
        parser.error(f"--turns must be at least 1. Received: {options.turns}")
    found = {package: [] for package in PACKAGES}
    with tempfile.TemporaryDirectory() as folder:
        paths = write_networks(Path(folder))
        for _ in range(options.turns):
            for package, path in paths.items():
                command = [sys.executable, __file__, "--case", os.fspath(path), package]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{package} failed: {done.stderr.strip()[-500:]}")
                found[package].append(json.loads(done.stdout.splitlines()[-1]))
    table = describe(found)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "startup.md").write_text(f"# Start-up\n\n{table}")
    print(table)


if __name__ == "__main__":
    main()
