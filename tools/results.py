"""Keeps the results of finished runs in docs/results, and makes tables and pictures of them.

    python tools/results.py keep runs/large_size2 large_size2
    python tools/results.py table large_size2 default_size1
    python tools/results.py seeds traffic_signs gtsrb_seed1 gtsrb_seed2
    python tools/results.py draw

A table has accuracy over test size, the slope of scale selection from size 1 to 4, and by how much
the histograms at sizes a factor sqrt(2) apart differ from shifts of one another. Runs that differ
in their seeds are one row: the mean, and the lowest and highest; detectors have one for each
measure, and STIR-MNIST has means over groups of its 48 sizes.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdn_keras.analysis import plots
from gdn_keras.training.classification_task import RESULTS, curve
from gdn_keras.training.detection_task import AVERAGE_PRECISION
from gdn_keras.training.run_folder import read_results

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "results"
SHIPPED = ROOT / "saved_models"
PICTURES = ROOT / "docs" / "pictures"


_MEASURES = {
    "accuracy": "correct, %",
    "ap50": "IoU 0.5",
    "ap75": "IoU 0.75",
    "ap": "COCO mean",
    "size_error": "error of the size, %",
    "center_error": "error of the centre, %",
}


_EXTENSIONS = {
    "plain": "as it is",
    "zero_order=True": "zero order",
    "residual=True": "residual blocks",
    "order=3": "third order",
}


def keep(run: Path, name: str) -> Path:
    """Copies what a run found out, of a classifier or of a detector."""
    found = run / AVERAGE_PRECISION
    results = json.loads(found.read_text()) if found.exists() else read_results(run, RESULTS)
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{name}.json"
    path.write_text(json.dumps(results) + "\n")
    return path


def load(name: str) -> dict:
    """The results of a shipped model, or those kept under a name."""
    places = (SHIPPED / name / RESULTS, SHIPPED / name / AVERAGE_PRECISION, KEPT / f"{name}.json")
    return json.loads(next(place for place in places if place.exists()).read_text())


def table(names: Sequence[str]) -> str:
    """Markdown: a row for each network."""
    runs = {name: load(name) for name in names}
    sizes = [row["size"] for row in runs[names[0]]["sizes"]]
    head = ["", *(f"{size:.3g}" for size in sizes), "slope", "shifts to within"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, results in runs.items():
        accuracies = curve(results)
        cells = [f"{100 * accuracies[size]:.2f}" for size in sizes]
        slope = results.get("selection_slope")
        shifts = largest_difference_of_shifts(results)
        cells += ["–" if slope is None else f"{slope:.2f}"]
        cells += ["–" if shifts is None else f"{100 * shifts:.1f} %"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seeds(names: Sequence[str]) -> str:
    """Markdown: for each measure and size, the mean over runs, the lowest and the highest."""
    runs = [load(name) for name in names]
    if "mean" in runs[0]:
        return _groups(runs)
    sizes = [row["size"] for row in runs[0]["sizes"]]
    lines = [
        f"| | {' | '.join(f'{size:.3g}' for size in sizes)} |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for measure, title in _MEASURES.items():
        if measure not in runs[0]["sizes"][0]:
            continue
        factor, digits = (100, 2) if "%" in title else (1, 3)
        cells = []
        for k in range(len(sizes)):
            cells.append(_spread([factor * run["sizes"][k][measure] for run in runs], digits))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _groups(runs: Sequence[Mapping]) -> str:
    """The same for STIR-MNIST, whose sizes are too many for a table."""
    columns: dict[str, list[float]] = {}
    for run in runs:
        accuracy = {int(size): 100 * value for size, value in run["accuracy"].items()}
        for low, high in ((17, 32), (33, 48), (49, 64)):
            part = [accuracy[size] for size in range(low, high + 1)]
            columns.setdefault(f"{low}–{high}", []).append(sum(part) / len(part))
        means = {"all": "all sizes", "unseen": "sizes not trained on"}
        for key, title in means.items():
            if key in run["mean"]:
                columns.setdefault(title, []).append(100 * run["mean"][key])
        columns.setdefault("worst size", []).append(min(accuracy.values()))
    cells = [_spread(values, 2) for values in columns.values()]
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|\n| {' | '.join(cells)} |"


def _spread(values: Sequence[float], digits: int) -> str:
    """The mean, and the lowest and highest of several."""
    numbers = sum(values) / len(values), min(values), max(values)
    mean, low, high = (f"{number:.{digits}f}" for number in numbers)
    return f"{mean} ({low}–{high})" if len(values) > 1 else mean


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


def draw() -> list[Path]:
    """Accuracy over size, by training size and with extensions of the network."""
    curves: dict[str, dict] = {"training_sizes": {}}
    for size in (1, 2, 4):  # seed 0
        names = {f"10 channels, size {size}": f"large_size{size}"}
        names[f"1 channel, size {size}"] = f"single_size{size}"
        curves["training_sizes"] |= {title: curve(load(name)) for title, name in names.items()}
    for data in ("fashion_mnist", "cifar10"):
        variants = {_EXTENSIONS[name]: runs for name, runs in load(f"{data}_variants").items()}
        (variants["zero order and residual, all images"],) = load(f"{data}_all").values()
        curves[f"{data}_extensions"] = {
            title: {float(size): value for size, value in runs[0]["accuracy"].items()}
            for title, runs in variants.items()
        }
    paths = []
    for name, lines in curves.items():
        paths.append(PICTURES / f"{name}.png")
        plots.draw_generalization(lines, paths[-1], () if name == "training_sizes" else (1,))
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="copy a run's results")
    keeping.add_argument("run", type=Path)
    keeping.add_argument("name")
    commands.add_parser("table", help="print a table").add_argument("names", nargs="+")
    commands.add_parser("seeds", help="print their means").add_argument("names", nargs="+")
    commands.add_parser("draw", help="draw accuracy over size into docs/pictures")
    options = parser.parse_args()
    if options.command == "keep":
        print(keep(options.run, options.name))
    elif options.command == "table":
        print(table(options.names))
    elif options.command == "seeds":
        print(seeds(options.names))
    else:
        print(*draw(), sep="\n")
