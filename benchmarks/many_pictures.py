"""Many pictures through Apache Beam in two processes, against the same one by one.

    python benchmarks/many_pictures.py                 500 pictures, 20 of them corrupt

Scenes of digits of three sizes go through `examples/detect.py --json` and through
`examples/detect_many.py`. All records are compared; the exit code is 1 unless each picture has one
record, the same in both but for rounding. Times are of whole commands, with the start of
TensorFlow: once in detect.py, once in detect_many.py and once in each of its processes. On a
machine with other work, compare the seconds of CPU, which are of all processes together. It needs
`pip install gdn_keras[beam,detection]`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gdn_keras.datasets import digit_scenes

ROOT = Path(__file__).parents[1]
SHAPES = ((96, 96), (128, 160), (224, 224))
# Batches of several pictures are summed in another order than one picture.
TOLERANCES = {"confidence": 0.002, "box": 0.05, "size": 0.005}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, runs both and prints a table: 0, or 1 where they differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    model = ROOT / "saved_models" / "digit_detector" / "model.keras"
    parser.add_argument("--model", type=Path, default=model, help="a detector")
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--corrupt", type=int, default=20, help="how many of them")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        files = make_pictures(Path(folder), options.pictures, options.corrupt)
        print("| | pictures | errors | seconds | of CPU | pictures/s |\n|---|---|---|---|---|---|")
        one_by_one = timed("detect.py", lambda: run_detect(options.model, files))
        many = timed("detect_many.py", lambda: run_detect_many(options.model, Path(folder)))
    faults = compare(one_by_one, many)
    print("\n" + ", ".join(f"{name}: {count}" for name, count in faults.items()))
    corrupt = sum("error" in record for record in many)
    return int(any(faults.values()) or corrupt != options.corrupt)


def timed(name: str, run: Callable[[], list[dict]]) -> list[dict]:
    """The records of a command, and a line of the table."""
    start, before = time.perf_counter(), os.times()
    records = run()
    seconds, after = time.perf_counter() - start, os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    errors = sum("error" in record for record in records)
    rate = len(records) / seconds
    row = f"| {name} | {len(records)} | {errors} | {seconds:.1f} | {cpu:.1f} | {rate:.2f} |"
    print(row, flush=True)
    return records


def make_pictures(folder: Path, count: int, corrupt: int) -> list[Path]:
    """PNG files of scenes of all shapes, and among them files that end too early."""
    scenes = [digit_scenes("test", sizes=(1, 2, 4), shape=shape) for shape in SHAPES]
    damaged = set(np.linspace(0, count - 1, corrupt).astype(int))
    files = []
    for k in range(count):
        file = folder / f"{k:05d}.png"
        Image.fromarray(scenes[k % len(scenes)].draw(0, k).image[..., 0]).save(file)
        if k in damaged:
            content = file.read_bytes()
            file.write_bytes(content[: len(content) * (k % 3) // 4])
        files.append(file)
    return files


def run_detect(model: Path, files: list[Path]) -> list[dict]:
    """Records of the pictures one by one."""
    command = [sys.executable, ROOT / "examples" / "detect.py", model, *files, "--json"]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def run_detect_many(model: Path, folder: Path) -> list[dict]:
    """Records of the pictures in batches, in two processes."""
    pattern, output = folder / "*.png", folder / "found"
    command = [sys.executable, ROOT / "examples" / "detect_many.py", pattern]
    subprocess.run([*command, "--model", model, "--output", output], check=True)
    return [json.loads(line) for file in output.glob("*.jsonl") for line in file.open()]


def compare(one_by_one: list[dict], many: list[dict]) -> dict[str, int]:
    """How many pictures were lost, came twice, or have other records."""
    counts = Counter(record["file"] for record in many)
    expected = {record["file"]: record for record in one_by_one}
    found = {record["file"]: record for record in many}
    return {
        "lost": len(expected.keys() - found.keys()),
        "twice": sum(count > 1 for count in counts.values()),
        "different": sum(not _same(expected.get(file), found[file]) for file in found),
    }


def _same(expected: dict | None, found: dict) -> bool:
    if expected is None or "error" in expected or "error" in found:
        return expected is not None and expected.keys() == found.keys()
    pairs = list(zip(expected["detections"], found["detections"], strict=False))
    return len(expected["detections"]) == len(found["detections"]) and all(
        one["label"] == two["label"]
        and all(np.allclose(one[k], two[k], rtol=0, atol=a) for k, a in TOLERANCES.items())
        for one, two in pairs
    )


if __name__ == "__main__":
    sys.exit(main())
