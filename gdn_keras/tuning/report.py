"""What a search leaves in its folder: a table of the trials, the Pareto picture and a report."""

import csv
import io
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gdn_keras.training.run_folder import (
    MODEL,
    PICTURES,
    REPORT,
    SAVED_MODEL,
    replacing,
    write_text,
)
from gdn_keras.tuning.hypermodel import OBJECTIVE, size_metric
from gdn_keras.tuning.job import SearchJob
from gdn_keras.tuning.pareto import draw_pareto, pareto_front
from gdn_keras.tuning.results import TrialResult
from gdn_keras.tuning.tuner import trial_number

TABLE = "trials.csv"
TRIALS = "trials.json"
PARETO = "pareto.png"
_SHOWN = 10


def write_results(
    job: SearchJob, results: Sequence[TrialResult], tested: dict[str, float], failed: int = 0
) -> None:
    """Table, picture and report of a search; trials.json last, as it says that all is there."""
    folder = job.folder
    rows = [_row(result) for result in results]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / TABLE, text.getvalue())
    picture = _draw(job, results)
    write_text(folder / REPORT, report(job, results, tested, failed, picture))
    content = {
        "settings": job.settings,
        "best": results[0].trial_id,
        "test": tested,
        "failed": failed,
        "asked_for": job.search.trials,
        "trials": rows,
    }
    write_text(folder / TRIALS, json.dumps(content, indent=1) + "\n")


def read_search_results(folder: Path) -> dict[str, Any] | None:
    """What `write_results` left in trials.json, or `None` where no search was finished."""
    file = folder / TRIALS
    return json.loads(file.read_text()) if file.exists() else None


def report(
    job: SearchJob,
    results: Sequence[TrialResult],
    tested: dict[str, float],
    failed: int,
    picture: str,
) -> str:
    """The search on one page."""
    search = job.search
    sizes = ", ".join(size_metric(s) for s in job.hypermodel.validation_sizes)
    limits = [f"{k} {v:g}" for k, v in search.budget.as_dict().items() if v is not None]
    parts = [
        f"# {len(results)} trials, {search.tuner} search\n",
        summarize_search(job, results) + "\n",
        *(f"{line}\n" for line in baseline_answers(results)),
        picture,
        f"Accuracy in %, mean of {sizes}; `p` and `m` mark the Pareto fronts of "
        "parameters and multiply-adds. All trials: "
        f"[{TABLE}]({TABLE}).\n",
        best_table(results),
        f"The best network, kept in `{MODEL}` and `{SAVED_MODEL}`, on test images:\n",
        _test_table(tested),
        f"Budget: {', '.join(limits) or 'none'}. Failed trials: {failed}. Training: "
        f"{len(job.hypermodel.data.train.labels)} images, {search.recipe.epochs} epochs, seed "
        f"{search.recipe.seed}.\n",
    ]
    return "\n".join(parts)


def summarize_search(job: SearchJob, results: Sequence[TrialResult]) -> str:
    """The best and the median trial, and how far chance goes."""
    best = results[0]
    median = statistics.median(r.accuracy for r in results)
    images = len(job.hypermodel.validation(job.hypermodel.validation_sizes[0]).labels)
    error = math.sqrt(best.accuracy * (1 - best.accuracy) / images)
    return (
        f"Best: {best.accuracy:.2%} with {_network(best)} ({best.cost}). "
        f"Median trial: {median:.2%}, so that the best is "
        f"{100 * (best.accuracy - median):.2f} points above it; one standard error of an accuracy "
        f"on {images} images is {100 * error:.2f} points."
    )


def baseline_answers(results: Sequence[TrialResult]) -> list[str]:
    """For each of the paper's networks, what the search found for its cost."""
    lines = []
    for rank, base in enumerate(results, 1):
        if not base.name:
            continue
        text = f"`{base.name}` ({base.candidate.widths_text}): {base.accuracy:.2%}, {base.cost}, "
        text += f"rank {rank} of {len(results)}."
        for what, costs in _costs(results).items():
            limit = costs[rank - 1]
            rival = next(r for r, cost in zip(results, costs, strict=True) if cost <= limit)
            if rival is base:
                text += f" No trial with as few {what} is better."
            else:
                text += f" Best with no more {what}: {_network(rival)}, "
                text += f"{rival.accuracy:.2%}, {rival.cost}."
        cheaper = [r for r in results[:rank] if r.cost.parameters < base.cost.parameters]
        if cheaper:
            least = min(cheaper, key=lambda r: r.cost.parameters)
            text += f" Fewest parameters that are as good: {least.candidate.widths_text}, "
            text += f"{least.cost}."
        lines.append(text)
    return lines


def best_table(results: Sequence[TrialResult]) -> str:
    accuracies = [r.accuracy for r in results]
    fronts = [pareto_front(costs, accuracies) for costs in _costs(results).values()]
    lines = [
        "| trial | widths | r | pooling | rate | epochs | parameters | paper's count | "
        "M multiply-adds | accuracy | front |",
        "|---" * 11 + "|",
    ]
    for i, r in enumerate(results):
        if i >= _SHOWN and not r.name:
            continue
        front = "".join(mark for mark, best in zip("pm", fronts, strict=True) if i in best)
        name = f" ({r.name})" if r.name else ""
        candidate, cost = r.candidate, r.cost
        lines.append(
            f"| {trial_number(r)} | {candidate.widths_text}{name} | {candidate.scale_ratio:g} | "
            f"{candidate.pooling} | {candidate.learning_rate:g} | {r.epochs} | "
            f"{cost.parameters} | {cost.paper_parameters} | {cost.multiply_adds / 1e6:.1f} | "
            f"{100 * r.accuracy:.2f} | {front} |"
        )
    return "\n".join(lines) + "\n"


def _test_table(tested: dict[str, float]) -> str:
    cells = [f"{100 * accuracy:.1f}" for accuracy in tested.values()]
    lines = [["test size", *tested], ["---"] * (len(tested) + 1), ["accuracy, %", *cells]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(result: TrialResult) -> dict[str, Any]:
    return {
        "trial": trial_number(result),
        "name": result.name,
        **result.candidate._asdict(),
        "widths": result.candidate.widths_text,
        **result.cost._asdict(),
        "epochs": result.epochs,
        OBJECTIVE: result.accuracy,
        **{size_metric(size): accuracy for size, accuracy in result.by_size.items()},
    }


def _draw(job: SearchJob, results: Sequence[TrialResult]) -> str:
    """Draws the Pareto picture, and gives its line in the report."""
    folder = job.folder
    parameters, operations = _costs(results).values()
    costs = {"trainable parameters": parameters, "multiply-adds an image": operations}
    marked = {f"{r.name} ({r.candidate.widths_text})": i for i, r in enumerate(results) if r.name}
    (folder / PICTURES).mkdir(exist_ok=True)
    try:
        with replacing(folder / PICTURES / PARETO) as temporary:
            draw_pareto(costs, [r.accuracy for r in results], temporary, marked)
    except ImportError as error:
        line = f"The picture was left out. {error}"
        job.reporter.line(line)
        return f"{line}\n"
    caption = "Mean accuracy over the validation sizes against cost; Pareto fronts in blue."
    return f"![{caption}]({PICTURES}/{PARETO})\n\n*{caption}*\n"


def _network(result: TrialResult) -> str:
    return f"{result.candidate.widths_text}, r {result.candidate.scale_ratio:g}"


def _costs(results: Sequence[TrialResult]) -> dict[str, list[int]]:
    """What a budget can limit, by name, for each trial."""
    return {
        "parameters": [r.cost.parameters for r in results],
        "multiply-adds": [r.cost.multiply_adds for r in results],
    }
