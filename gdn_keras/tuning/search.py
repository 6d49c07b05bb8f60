"""A whole search: KerasTuner's trials, the paper's networks, the best network and a report."""

import dataclasses
import functools
import json
import math
import os
import statistics
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import keras_tuner
import numpy as np

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.analysis.plots import COLORS, MARKERS, figure_file
from gdn_keras.checks import check_choice, check_integer
from gdn_keras.export import export_saved_model
from gdn_keras.presets import PRESETS
from gdn_keras.training import Classification, TrainingStopped, run_folder
from gdn_keras.training.classification_task import images_at, sizes_of
from gdn_keras.tuning.hypermodel import OBJECTIVE, GaussianDerivativeHyperModel

TUNERS = {
    "random": keras_tuner.RandomSearch,
    "hyperband": keras_tuner.Hyperband,
    "bayesian": keras_tuner.BayesianOptimization,
}
Row = dict[str, Any]
PAPER = "paper_networks"
_COSTS = ("parameters", "multiply_adds")
_VARIABLES = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")


def make_tuner(
    tuner: str, hypermodel: GaussianDerivativeHyperModel, folder: str | Path, trials: int = 24
) -> keras_tuner.Tuner:
    """One of KerasTuner's tuners, which continues a search of equal settings in `folder`.

    With KerasTuner's environment variables for a chief and workers, these must share `folder`.

    Args:
        tuner: "random", "hyperband" or "bayesian".
        hypermodel: What to search. The seed of its recipe is the tuner's too.
        folder: Where everything goes; KerasTuner's own files are in its folder "trials".
        trials: How many trials to run. A finished search continues with more.
    """
    check_choice("tuner", tuner, tuple(TUNERS))
    check_integer("trials", trials)
    check_choice("KERAS_BACKEND", keras.backend.backend(), ("tensorflow",))  # to export
    shared = _is_shared()
    settings = {"tuner": tuner, "several_processes": shared, **hypermodel.settings()}
    folder = run_folder.open_run(settings, folder)
    options: dict[str, Any] = {
        "objective": keras_tuner.Objective(OBJECTIVE, "max"),
        "seed": hypermodel.recipe.seed + 1,  # KerasTuner treats 0 as no seed
        # An error in a chief would make it wait forever.
        "max_consecutive_failed_trials": trials + 1 if shared else 3,
    }
    if tuner == "hyperband":
        # More rounds than anybody needs: `max_trials` ends the search.
        options |= {"max_epochs": hypermodel.recipe.epochs, "hyperband_iterations": 1000}
    elif tuner == "bayesian":
        options["num_initial_points"] = max(3, trials // 3)
    try:
        made = TUNERS[tuner](hypermodel, directory=str(folder), project_name="trials", **options)
    except json.JSONDecodeError as error:
        text = f"KerasTuner cannot read its files in {folder / 'trials'} ({error})."
        raise ValueError(f"{text} Choose another folder.") from error
    made.oracle.max_trials = trials  # Hyperband has no argument for it
    return made


def run_search(tuner: keras_tuner.Tuner) -> list[Row]:
    """Runs the trials that are left of a tuner of `make_tuner`, and writes all results.

    Returns:
        Trials and the paper's networks, the best first, as in trials.csv; nothing for a worker.

    Raises:
        TrainingStopped: After Ctrl-C or failed trials; the message says why.
    """
    import grpc  # comes with KerasTuner
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # each network is traced anew, and TensorFlow warns of it
    is_worker = _is_shared() and "chief" not in os.environ["KERASTUNER_TUNER_ID"]
    with warnings.catch_warnings():
        # Hyperband continues from earlier weights, with a new optimizer.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
        warnings.filterwarnings("ignore", module="sklearn")  # too few trials for a good fit
        try:
            # A chief whose trials are all finished would wait for workers.
            if is_worker or len(tuner.oracle.end_order) < tuner.oracle.max_trials:
                tuner.search()
            return [] if is_worker else _finish(tuner)
        except KeyboardInterrupt:
            text = f"Stopped. Finished trials are kept in {tuner.directory}."
            raise TrainingStopped(text, interrupted=True) from None
        except grpc.RpcError as error:
            raise TrainingStopped("Stopped, because the chief does not answer.") from error
        except RuntimeError as error:  # KerasTuner's ends with what made the last trial fail
            raise TrainingStopped(f"Stopped. {str(error).strip().splitlines()[-1]}") from error


def _finish(tuner: keras_tuner.Tuner) -> list[Row]:
    """The paper's networks, the best network, and the report."""
    hypermodel, folder = tuner.hypermodel, Path(tuner.directory)
    rows, rejected = _trial_rows(tuner)
    if not rows:
        raise RuntimeError("No trial was completed.")
    rows += [_paper_network(hypermodel, name, folder) for name in ("default", "large")]
    rows.sort(key=lambda row: (-row[OBJECTIVE], row["parameters"]))
    best = next(filter(hypermodel.allows, rows))
    hypermodel.reporter.line(f"Exporting and testing {best['widths']}, the best network.")
    if isinstance(best["trial"], str):
        model = keras.saving.load_model(folder / PAPER / f"{best['trial']}.keras")
    else:
        trials = {int(trial.trial_id) + 1: trial for trial in tuner.oracle.trials.values()}
        model = tuner.load_model(trials[best["trial"]])
    task = Classification(hypermodel.recipe, hypermodel.data)
    model = task.finish(model)
    run_folder.save_model(model, folder / run_folder.MODEL)
    export_saved_model(model, folder / run_folder.SAVED_MODEL, **task.export_options())
    images = functools.partial(images_at, task.data)
    tested = accuracy_by_size(model, images, sizes_of(task.data))
    if rejected:
        run_folder.write_text(folder / "rejected.csv", run_folder.csv_text(rejected))
    run_folder.write_text(folder / "trials.csv", run_folder.csv_text(rows))
    run_folder.write_page(folder, _report(hypermodel, rows, tested), hypermodel.reporter)
    return rows


def _paper_network(hypermodel: GaussianDerivativeHyperModel, name: str, folder: Path) -> Row:
    """Trains a preset like a trial, unless this was done in the folder before."""
    recipe = hypermodel.recipe
    candidate = dataclasses.replace(recipe, widths=PRESETS[name]["parameters"]["widths"])
    file = folder / PAPER / f"{name}.json"
    if not file.exists():
        hypermodel.reporter.line(f"Training the paper's {name} network.")
        model = hypermodel.network(candidate, recipe.epochs)
        metrics = hypermodel.fit(None, model)
        file.parent.mkdir(exist_ok=True)
        model.save(file.with_suffix(".keras"))
        run_folder.write_text(file, json.dumps(metrics))
    metrics = json.loads(file.read_text())
    return {"trial": name, **hypermodel.row(candidate), "epochs": recipe.epochs, **metrics}


def _is_shared() -> bool:
    """Whether KerasTuner's environment variables ask for a chief and workers."""
    missing = [name for name in _VARIABLES if not os.environ.get(name)]
    if missing not in ([], list(_VARIABLES), list(_VARIABLES[1:])):
        raise ValueError(f"For a search in several processes, set {', '.join(missing)} too.")
    return not missing


def _trial_rows(tuner: keras_tuner.Tuner) -> tuple[list[Row], list[Row]]:
    """The completed trials, and the draws over budget with what was trained instead."""
    completed, rejected = [], []
    model = tuner.hypermodel
    for trial in tuner.oracle.trials.values():
        hp, number = trial.hyperparameters, {"trial": int(trial.trial_id) + 1}
        drawn, trained = (model.row(draw(hp)) for draw in (model.drawn, model.candidate))
        if drawn != trained:
            rejected.append({**number, **drawn, "trained_widths": trained["widths"]})
        if trial.status == "COMPLETED":
            names = (OBJECTIVE, *model.metrics.values())
            metrics = {name: trial.metrics.get_best_value(name) for name in names}
            epochs = int(hp.values.get("tuner/epochs", model.recipe.epochs))
            completed.append({**number, **trained, "epochs": epochs, **metrics})
    return completed, rejected


def _report(
    model: GaussianDerivativeHyperModel, rows: list[Row], tested: dict[Any, float]
) -> Iterator[run_folder.Section]:
    """The report; `tested` is the test accuracy of the best network by size."""
    yield f"# {len(rows)} networks"
    yield from summarize_trials(model, rows)
    text = "Accuracy against cost, Pareto fronts in blue."
    yield run_folder.Picture("pareto.png", text, functools.partial(draw_pareto, rows))
    yield "The best trials and the paper's networks. All trials: [trials.csv](trials.csv)."
    yield _table([row for i, row in enumerate(rows) if i < 10 or _is_preset(row)])
    yield "The best network within the budget, in `model.keras` and `saved_model`, on test images:"
    yield _table([{"size": size or "all", "accuracy": value} for size, value in tested.items()])
    limits = ", ".join(f"{name} {limit:g}" for name, limit in model.limits.items())
    yield f"Budget: {limits or 'none'}. {len(model.data.train.labels)} training images."


def _table(rows: Sequence[Row]) -> str:
    cells = [[f"{v:.4g}" if isinstance(v, float) else v for v in row.values()] for row in rows]
    return run_folder.markdown_table(list(rows[0]), cells)


def summarize_trials(hypermodel: GaussianDerivativeHyperModel, rows: Sequence[Row]) -> list[str]:
    """The best and the median trial, and what the search found for the cost of each preset."""
    best, count = next(filter(hypermodel.allows, rows)), hypermodel.validation_count
    error = math.sqrt(best[OBJECTIVE] * (1 - best[OBJECTIVE]) / count)
    lines = [
        f"Best: {_text(best)}. Median: {statistics.median(r[OBJECTIVE] for r in rows):.2%}. One "
        f"standard error of an accuracy on {count} images is {100 * error:.2f} points."
    ]
    for preset in filter(_is_preset, rows):
        rank = f"rank {rows.index(preset) + 1} of {len(rows)}"
        lines.append(f"The paper's {_text(preset)}, {rank}.")
        for name in _COSTS:
            rival = next(r for r in rows if r[name] <= preset[name])
            better = "none is better" if rival is preset else _text(rival)
            lines[-1] += f" With no more {name.replace('_', '-')}: {better}."
    return lines


def _is_preset(row: Row) -> bool:
    return isinstance(row["trial"], str)


def _text(row: Row) -> str:
    name = row["trial"] if _is_preset(row) else f"trial {row['trial']}"
    cost = f"{row['parameters']} parameters, {row['multiply_adds'] / 1e6:.1f} M multiply-adds"
    return f"{name}, {row['widths']}, r {row['scale_ratio']:g}: {row[OBJECTIVE]:.2%}, {cost}"


def pareto_front(costs: Sequence[float], accuracies: Sequence[float]) -> list[int]:
    """Indices of what nothing else beats in accuracy at the same cost or less, cheapest first.

    Example:

    >>> pareto_front([3, 1, 2, 2], [0.9, 0.5, 0.7, 0.6])
    [1, 2, 0]
    """
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -accuracies[i])):
        if not front or accuracies[i] > accuracies[front[-1]]:
            front.append(i)
    return front


def draw_pareto(rows: Sequence[Row], path: str | os.PathLike) -> None:
    """Draws accuracy against parameters and multiply-adds, with the Pareto fronts.

    Args:
        rows: As from `run_search`; the paper's networks are marked.
        path: File to write; its ending determines the format.
    """
    percent = np.array([100 * r[OBJECTIVE] for r in rows])
    with figure_file(path, 1, len(_COSTS), (3.6 * len(_COSTS), 3.2)) as (figure, axes):
        from matplotlib.ticker import EngFormatter, LogLocator

        for axis, name in zip(axes[0], _COSTS, strict=True):
            costs = np.array([r[name] for r in rows], float)
            front = pareto_front(costs.tolist(), percent.tolist())
            axis.plot(costs, percent, "o", color="0.65", markersize=3.5, label="trials")
            line = {"markersize": 4.5, "drawstyle": "steps-post", "label": "Pareto front"}
            axis.plot(costs[front], percent[front], "o-", color=COLORS[0], **line)
            for k, row in enumerate(filter(_is_preset, rows), 1):
                style = {"color": COLORS[k], "label": f"{row['trial']} ({row['widths']})"}
                axis.plot(row[name], 100 * row[OBJECTIVE], MARKERS[k], markersize=8, **style)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.minorticks_off()
            axis.set_xlabel(name.replace("_", "-"))
            axis.grid(color="0.9", linewidth=0.6, zorder=0)
        axes[0, 0].set_ylabel("mean accuracy over sizes (%)")
        legend = axes[0, 0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside upper center", ncols=len(legend[0]))
