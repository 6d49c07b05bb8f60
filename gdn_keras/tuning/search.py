"""A whole search: KerasTuner's trials, the paper's networks, the best network and a report."""

import dataclasses
import json
import os
import warnings
from pathlib import Path
from typing import Any

import keras
import keras_tuner

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.checks import check_choice, check_integer
from gdn_keras.export import export_saved_model
from gdn_keras.models import retarget
from gdn_keras.presets import PRESETS
from gdn_keras.training import Classification, TrainingStopped
from gdn_keras.training.classification_task import images_at, sizes_of
from gdn_keras.training.run_folder import open_run, save_model, write_text
from gdn_keras.tuning.hypermodel import OBJECTIVE, GaussianDerivativeHyperModel
from gdn_keras.tuning.trials import Row, trial_rows, write_tables

TUNERS = {
    "random": keras_tuner.RandomSearch,
    "hyperband": keras_tuner.Hyperband,
    "bayesian": keras_tuner.BayesianOptimization,
}
PAPER = "paper_networks"
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

    Raises:
        ValueError: If an argument is out of range, or `folder` holds another search.
    """
    check_choice("tuner", tuner, tuple(TUNERS))
    check_integer("trials", trials)
    check_choice("KERAS_BACKEND", keras.backend.backend(), ("tensorflow",))  # to export
    shared = _is_shared()
    settings = {"tuner": tuner, "several_processes": shared, **hypermodel.settings()}
    folder = open_run(settings, folder)
    options: dict[str, Any] = {
        "objective": keras_tuner.Objective(OBJECTIVE, "max"),
        "seed": hypermodel.recipe.seed + 1,  # KerasTuner treats 0 as no seed
        # An error in a chief would make it wait forever.
        "max_consecutive_failed_trials": trials + 1 if shared else 3,
    }
    if tuner == "hyperband":
        # More rounds than anybody needs: `max_trials` ends the search.
        options |= {"max_epochs": hypermodel.recipe.epochs, "hyperband_iterations": 1000}
    if tuner == "bayesian":
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
    rows, rejected = trial_rows(tuner)
    if not rows:
        raise RuntimeError("No trial was completed.")
    rows += [_paper_network(hypermodel, name, folder) for name in ("default", "large")]
    rows.sort(key=lambda row: (-row[OBJECTIVE], row["parameters"]))
    best = next(row for row in rows if hypermodel.allows(row))
    hypermodel.reporter.line(f"Exporting and testing {best['widths']}, the best network.")
    if isinstance(best["trial"], str):
        model = keras.saving.load_model(folder / PAPER / f"{best['trial']}.keras")
    else:
        trials = {int(trial.trial_id) + 1: trial for trial in tuner.oracle.trials.values()}
        model = tuner.load_model(trials[best["trial"]])
    model = retarget(model, hypermodel.image_shape, hypermodel.recipe.scales)
    save_model(model, folder / "model.keras")
    data = hypermodel.data
    options = Classification(hypermodel.recipe, data).export_options()
    export_saved_model(model, folder / "saved_model", **options)
    tested = accuracy_by_size(model, lambda size: images_at(data, size), sizes_of(data))
    write_tables(hypermodel, rows, rejected, tested, folder)
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
        write_text(file, json.dumps(metrics))
    metrics = json.loads(file.read_text())
    return {"trial": name, **hypermodel.row(candidate), "epochs": recipe.epochs, **metrics}


def _is_shared() -> bool:
    """Whether KerasTuner's environment variables ask for a chief and workers."""
    missing = [name for name in _VARIABLES if not os.environ.get(name)]
    if missing not in ([], list(_VARIABLES), list(_VARIABLES[1:])):
        raise ValueError(f"For a search in several processes, set {', '.join(missing)} too.")
    return not missing
