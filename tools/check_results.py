"""Compares the tables of README.md and RESULTS.md, cell by cell, with benchmarks/results.

    python tools/check_results.py

A comment before each table names what its rows show, a dash what was measured by others:

    <!-- rows: large_size1; digits: ours x 2; detector@ap75; stir_mnist_2 of 17-32 49-64; - -->

A cell is the mean over the seeds of a name; what one has not, another behind a plus sign has. Its
column is a size, a group of pictures or a column of the CSV file. With "of", the column gdn_keras
alone is checked: the mean over these sizes, or the lowest and highest, 86.6–87.4. Behind x is the
size that columns of relative size are multiples of.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from results import ROOT, Run, load

PAGES = "README.md", "RESULTS.md"
_COLUMNS = {
    "ms": "inference_ms",
    "ms per image": "inference_ms",
    "training, s": "training_seconds",
    "GiB": "peak_gib",
}
_NUMBER = re.compile(r"\d+(?: \d{3})*(?:\.\d+)?")


def tables(text: str) -> Iterator[tuple[list[str] | None, list[list[str]]]]:
    """Each table of a page with the names of its rows."""
    names, table = None, []
    for line in [*text.splitlines(), ""]:
        comment = re.fullmatch(r"<!-- rows: (.*) -->", line)
        if comment:
            names = [name.strip() for name in comment[1].split(";")]
        elif line.startswith("|"):
            table.append([cell.strip(" *`") for cell in line.strip("|").split("|")])
        elif table:
            yield names, table
            names, table = None, []


def check(text: str) -> list[str]:
    """What the tables of a page say otherwise than the results."""
    wrong = []
    for names, (head, _, *body) in tables(text):
        if names is None or len(names) != len(body):
            wrong.append(f"{len(body)} rows below {head}, of which these are named: {names}")
            continue
        for name, row in zip(names, body, strict=True):
            for column, cell in zip(head[1:], row[1:], strict=True):
                shown = _NUMBER.findall(cell)[: 2 if "–" in cell else 1]
                unchecked = name == "-" or (" of " in name and column != "gdn_keras")
                if unchecked or not shown:
                    continue
                kept = (
                    measured(name, column)[: len(shown)]
                    if len(shown) > 1
                    else [measured(name, column)[-1]]
                )
                if not all(map(_agree, shown, kept)):
                    wrong.append(f"{name}, {column}: {cell}, but measured: {kept}")
    return wrong


def measured(names: str, column: str) -> list[float]:
    """Lowest, highest and mean of what is in a column of a table."""
    column = _COLUMNS.get(column, column)
    for entry in names.split(" + "):
        name, _, ranges = entry.partition(" of ")
        name, _, factor = name.partition(" x ")
        name, _, measure = name.partition("@")
        sought = f"{float(factor) * float(column):g}" if factor and _is_number(column) else column
        runs = [_values(run, sought, measure, ranges.split()) for run in load(name)]
        values = [sum(column) / len(runs) for column in zip(*runs, strict=True)]
        if values:
            return [min(values), max(values), sum(values) / len(values)]
    raise SystemExit(f"error: {names} has no {column}")


def _values(run: Run, column: str, measure: str, ranges: Sequence[str]) -> list[float]:
    measure = measure or ("accuracy" if "accuracy" in run[0] else "ap50")
    if column in run[0] and column != "size":
        rows, measure = run, column
    elif ranges:
        ends = [tuple(map(float, part.split("-"))) for part in ranges]
        rows = [r for r in run if any(low <= float(r["size"]) <= high for low, high in ends)]
    else:
        rows = [row for row in run if _same_size(row["size"], column)]
    if measure == "error":
        return [1 - float(row["accuracy"]) for row in rows]
    return [float(row[measure]) for row in rows if row[measure]]


def _same_size(size: str, column: str) -> bool:
    if _is_number(size) and _is_number(column):
        return abs(float(size) / float(column) - 1) < 0.02
    return size == column


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+", text) is not None


def _agree(shown: str, kept: float) -> bool:
    """Whether a number is this one, or this share in percent, rounded."""
    half = 0.5001 * 10 ** -len(shown.replace(" ", "").partition(".")[2])
    return any(abs(factor * kept - float(shown.replace(" ", ""))) <= half for factor in (1, 100))


if __name__ == "__main__":
    wrong = [line for page in PAGES for line in check((ROOT / page).read_text(encoding="utf-8"))]
    raise SystemExit("\n".join(wrong) or 0)
