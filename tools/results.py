"""Tables and pictures from benchmarks/results, which has a row for each run and size.

    python tools/results.py table large_size1 large_size1:2 gtsrb detector stir_mnist_1
    python tools/results.py keep runs/large_size2 digits large_size2
    python tools/results.py draw

A table has the mean over the seeds of a name at each size, with the lowest and highest; NAME:SEED
is one run. `keep` adds a finished run to a file such as benchmarks/results/digits.csv.
STIR-MNIST, with 48 sizes, has means over groups of them. "Shifts to within" is by what share of
the images the histograms of selected channels at sizes 1 to 4 differ from shifts of one another.
"""

import argparse
import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "pictures"

Run = list[dict[str, str]]

_PERCENT = 100, 2
_MEASURES = {
    "accuracy": ("correct, %", *_PERCENT),
    "ap50": ("IoU 0.5", 1, 3),
    "ap75": ("IoU 0.75", 1, 3),
    "ap": ("COCO mean", 1, 3),
    "size_error": ("error of the size, %", *_PERCENT),
    "center_error": ("error of the center, %", *_PERCENT),
}
_OF_RUNS = {"slope": ("slope", 1, 2), "shifts": ("shifts to within, %", 100, 1)}
_MANY_SIZES = 20


def load(name: str) -> list[Run]:
    """The runs of a name, or of NAME:SEED, in the order of their seeds."""
    stem, seed = re.fullmatch(r"(.+?)(?::(\d+))?", name).groups()
    runs: dict[str, Run] = {}
    for file in sorted(KEPT.glob("*.csv")):
        with open(file, newline="") as stream:
            for row in csv.DictReader(stream):
                if row["name"] == stem and row["seed"] == (seed or row["seed"]):
                    runs.setdefault(row["seed"], []).append(row)
    if not runs:
        raise SystemExit(f"error: no run in {KEPT} has the name {name}")
    return [runs[key] for key in sorted(runs, key=int)]


def curve(run: Run) -> dict[float, float]:
    """Accuracy by size."""
    return {float(row["size"]): float(row["accuracy"]) for row in run}


def table(names: Sequence[str]) -> str:
    """Markdown: a row for each name and measure."""
    lines = []
    for name in names:
        runs = load(name)
        grouped = len(runs[0]) > _MANY_SIZES
        for line in _groups(runs) if grouped else _rows(name, runs):
            if line not in lines:  # the head, which most have in common
                lines.append(line)
    return "\n".join(lines)


def _rows(name: str, runs: Sequence[Run]) -> list[str]:
    """For each measure a line of all sizes, below a head."""
    first = [row for row in runs[0] if row["size"] != "all"]
    extra = [key for key in _OF_RUNS if first[0].get(key)]
    head = [f"{float(row['size']):.3g}" for row in first] + [_OF_RUNS[key][0] for key in extra]
    lines = [f"| | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for measure, (title, *form) in _MEASURES.items():
        if measure not in first[0]:
            continue
        columns = [[run[k][measure] for run in runs] for k in range(len(first))]
        cells = [_spread(values, *form) for values in columns]
        cells += [_spread([run[0][key] for run in runs], *_OF_RUNS[key][1:]) for key in extra]
        lines.append(f"| {name}, {title} | {' | '.join(cells)} |")
    return lines


def _groups(runs: Sequence[Run]) -> list[str]:
    """A line of means over sizes, and of the worst size."""
    columns: dict[str, list[float]] = {}
    for run in runs:
        thirds = {f"{low}–{low + 15}": range(low, low + 16) for low in (17, 33, 49)}
        parts = {
            title: [r for r in run if int(r["size"]) in part] for title, part in thirds.items()
        }
        parts["all sizes"] = run
        parts["sizes not trained on"] = [row for row in run if row["trained"] == "0"]
        for title, part in parts.items():
            if part:
                accuracies = curve(part).values()
                columns.setdefault(title, []).append(sum(accuracies) / len(accuracies))
        columns.setdefault("worst size", []).append(min(curve(run).values()))
    cells = [_spread(values, *_PERCENT) for values in columns.values()]
    return [
        f"| {' | '.join(['', *columns])} |",
        "|---" * (len(columns) + 1) + "|",
        f"| {' | '.join([runs[0][0]['name'], *cells])} |",
    ]


def _spread(values: Sequence[float | str], factor: float, digits: int) -> str:
    """The mean, and the lowest and highest of several; a dash where a value is missing."""
    if "" in values:
        return "–"
    numbers = [factor * float(value) for value in values]
    mean, low, high = (
        f"{x:.{digits}f}" for x in (sum(numbers) / len(numbers), min(numbers), max(numbers))
    )
    return f"{mean} ({low}–{high})" if len(numbers) > 1 else mean


def keep(folder: Path, table: str, name: str) -> Path:
    """Adds what a run found out, of a classifier or of a detector, to a file."""
    import json

    from gdn_keras.training.classification_task import RESULTS
    from gdn_keras.training.detection_task import AVERAGE_PRECISION
    from gdn_keras.training.run_folder import read_results

    found = folder / AVERAGE_PRECISION
    results = json.loads(found.read_text()) if found.exists() else read_results(folder, RESULTS)
    path = KEPT / f"{table}.csv"
    with open(path, newline="") as stream:
        columns = csv.DictReader(stream).fieldnames or []
    run = {
        "name": name,
        "seed": results["settings"]["seed"],
        "slope": results.get("selection_slope", results.get("slope")),
    }
    if "shifts" in columns:
        run["shifts"] = largest_difference_of_shifts(results)
    trained = results["settings"].get("train_sizes", ())
    with open(path, "a", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
        for row in results["sizes"]:
            facts = {"trained": int(row["size"] in trained)}
            if "selected" in row:
                facts["selected"] = " ".join(map(str, row["selected"]))
            values = {**run, **row, **facts}
            writer.writerow({k: f"{v:.6g}" if type(v) is float else v for k, v in values.items()})
    return path


def largest_difference_of_shifts(results: Mapping) -> float | None:
    """Between the histograms at sizes 1, sqrt(2), 2, 2 sqrt(2) and 4, as a share of the images.

    Shifted by one channel for each factor of sqrt(2), they should be the same. `None` where scale
    channels are not that far apart, or too few.
    """
    scales = results["scales"]
    if len(scales) < 6 or abs(scales[1] / scales[0] - math.sqrt(2)) > 1e-3:
        return None
    shifted = []
    for k in range(5):
        row = next(r for r in results["sizes"] if math.isclose(r["size"], 2 ** (k / 2)))
        total = sum(row["selected"])
        shares = [won / total for won in row["selected"]]
        shifted.append(shares[k : len(scales) - 4 + k])
    return max(max(column) - min(column) for column in zip(*shifted, strict=True))


def draw() -> Path:
    """Accuracy over size, by training size; seed 0."""
    from gdn_keras.analysis import draw_generalization

    lines: dict[str, dict] = {}
    for size in (1, 2, 4):
        names = {f"10 channels, size {size}": f"large_size{size}"}
        names[f"1 channel, size {size}"] = f"single_size{size}"
        lines |= {title: curve(load(n)[0]) for title, n in names.items()}
    path = PICTURES / "training_sizes.png"
    draw_generalization(lines, path, ())
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print a table").add_argument("names", nargs="+")
    keeping = commands.add_parser("keep", help="add a run's results")
    keeping.add_argument("run", type=Path)
    keeping.add_argument("table")
    keeping.add_argument("name")
    commands.add_parser("draw", help="draw accuracy over size into docs/pictures")
    options = parser.parse_args()
    if options.command == "table":
        print(table(options.names))
    elif options.command == "keep":
        print(keep(options.run, options.table, options.name))
    else:
        print(draw())
