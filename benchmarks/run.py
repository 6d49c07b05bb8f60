"""How fast the networks are, beside literal implementations and the machine's own limit.

    python benchmarks/run.py --output DIR            about half an hour on 2 cores
    python benchmarks/run.py --output DIR --quick    under two minutes

Literal networks in Keras and in PyTorch (where torch and pyscsp are installed), a plain CNN, and
`gdn_keras` with dense and with matched sampling take turns on the same images; the shortest time
of each counts. Written are DIR/benchmark.md, DIR/benchmark.json and, but for `--quick`, plots of
the growth with image side, scale channels and batch. A machine that does nothing else gives the
times that count; the load before and after is written down.
"""

import argparse
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

from contest.report import write_markdown
from contest.suite import Settings, run_suite

QUICK = Settings(nets=("large",), rounds=2, turn=0.5, literal_batch=1, dense_batch=4, extras=False)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="the main table of `large` only")
    parser.add_argument("--rounds", type=positive, help="turns of each contestant")
    parser.add_argument(
        "--truncation",
        type=fraction,
        default=1e-4,
        help="mass cut off the literal networks' kernels (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    settings = replace(QUICK if options.quick else Settings(), truncation=options.truncation)
    if options.rounds:
        settings = replace(settings, rounds=options.rounds)
    check_writable(parser, options.output)
    drawing = settings.extras and has_matplotlib()
    results = run_suite(settings, save=lambda so_far: write_numbers(so_far, options.output))
    write_results(results, options.output, drawing)
    print((options.output / "benchmark.md").read_text())


def write_numbers(results: dict, folder: Path) -> None:
    """Write all that has been measured."""
    (folder / "benchmark.json").write_text(json.dumps(results, indent=1) + "\n")


def write_results(results: dict, folder: Path, drawing: bool) -> None:
    """Write the table, the numbers and the plots."""
    write_numbers(results, folder)
    plots = []
    if drawing:
        from contest.plots import draw

        plots = draw(results, folder)
    (folder / "benchmark.md").write_text(write_markdown(results, plots))


def check_writable(parser: argparse.ArgumentParser, folder: Path) -> None:
    """End with an error before anything is measured if nothing could be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        parser.error(f"--output: cannot write to {str(folder)!r}: {error.strerror}")


def has_matplotlib() -> bool:
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    print("No plots: matplotlib is not installed (pip install gdn_keras[plots]).", file=sys.stderr)
    return False


def positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1. Received: {text!r}")
    return value


def fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie strictly between 0 and 1. Received: {text!r}")
    return value


if __name__ == "__main__":
    main()
