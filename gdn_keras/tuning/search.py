"""A whole search: trials, their results and the best network, in one folder."""

import contextlib
import io
from pathlib import Path
from typing import Any

from gdn_keras.analysis.evaluation import accuracy_by_size
from gdn_keras.training import Classification, TrainingStopped
from gdn_keras.training.run_folder import MODEL, SAVED_MODEL, save_model
from gdn_keras.tuning.job import SearchJob, role
from gdn_keras.tuning.report import read_search_results, write_results
from gdn_keras.tuning.results import TrialResult, trial_results
from gdn_keras.tuning.tuner import last_line, make_tuner, trial_number
from gdn_keras.tuning.watch import Watch


def run_search(job: SearchJob) -> list[TrialResult]:
    """Runs what is still to run of a search and leaves its results in the folder, best first.

    A worker (see `role`) runs trials only, and returns none.

    Raises:
        TrainingStopped: By Ctrl-C, or after failed trials; the message says how to go on.
    """
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it warns of functions traced anew, one for each network
    search, folder = job.search, job.folder
    watch = Watch(job)
    with contextlib.redirect_stdout(io.StringIO()):  # says only which file it read
        tuner = make_tuner(
            search.tuner,
            job.hypermodel,
            folder,
            search.trials,
            list(job.baselines.values()),
            search.recipe.seed,
            watch,
            job.reporter,
        )
    if role() == "worker":
        known = read_search_results(folder)
        if known and known["asked_for"] >= search.trials:
            job.reporter.line("The search is finished.")
        else:
            search_or_stop(tuner, folder)
        return []
    oracle = tuner.oracle
    watch.start(oracle)
    if len(oracle.end_order) < search.trials:
        search_or_stop(tuner, folder)
    ended = len(oracle.end_order)
    if ended < search.trials:
        job.reporter.line(f"No candidate within the budget is left after {ended} trials.")
    results = trial_results(job, oracle.trials.values())
    if not results:
        message = last_line(next(iter(oracle.trials.values())).message)
        raise TrainingStopped(f"No trial was completed. {message}")
    try:
        tested = _keep_best(job, tuner, results[0])
        write_results(job, results, tested, failed=ended - len(results))
    except KeyboardInterrupt:
        raise TrainingStopped(
            "Stopped. The trials are kept; the same command goes on with what comes after them.",
            interrupted=True,
        ) from None
    return results


def search_or_stop(tuner: Any, folder: Path) -> None:
    import grpc  # comes with KerasTuner

    try:
        tuner.search()
    except KeyboardInterrupt:
        raise TrainingStopped(
            f"Stopped. The finished trials are in {folder}; the same command goes on with the "
            "others.",
            interrupted=True,
        ) from None
    except grpc.RpcError as error:
        raise TrainingStopped(
            "Stopped, because the chief does not answer. Start it again, and then this worker; "
            "finished trials are kept."
        ) from error
    except RuntimeError as error:  # KerasTuner's, after several failed trials in a row
        text = str(error).strip()
        first = text.partition("\n")[0]
        raise TrainingStopped(f"Stopped. {first} {last_line(text)}") from error


def _keep_best(job: SearchJob, tuner: Any, best: TrialResult) -> dict[str, float]:
    """Saves, exports and tests the best network, unless that was done before."""
    from gdn_keras.export import export_saved_model

    folder, hypermodel = job.folder, job.hypermodel
    known = read_search_results(folder)
    if known and known["best"] == best.trial_id:
        return known["test"]
    job.reporter.line(f"Exporting and testing trial {trial_number(best)}, the best.")
    model = tuner.best_network(tuner.oracle.get_trial(best.trial_id))
    model = hypermodel.finished(model)
    save_model(model, folder / MODEL)
    options = Classification(hypermodel.recipe, hypermodel.data).export_options()
    export_saved_model(model, folder / SAVED_MODEL, **options)
    accuracies = accuracy_by_size(model, hypermodel.data)
    return {f"{size:.4g}": accuracy for size, accuracy in accuracies.items()}
