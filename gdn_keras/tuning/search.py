"""A whole search: trials, their results and the best network, in one folder."""

import contextlib
import io
from pathlib import Path

from gdn_keras.analysis.evaluation import accuracy_by_size
from gdn_keras.training.fitting import TrainingStopped, finished_network
from gdn_keras.training.job import export_options
from gdn_keras.training.run_folder import MODEL, SAVED_MODEL, save_model
from gdn_keras.tuning.job import Job, role
from gdn_keras.tuning.report import read_results, write_results
from gdn_keras.tuning.results import TrialResult, trial_results
from gdn_keras.tuning.tuner import last_line, make_tuner, trial_number
from gdn_keras.tuning.watch import Watch


def run(job: Job) -> list[TrialResult]:
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
            search.settings.seed,
            watch,
        )
    if role() == "worker":
        known = read_results(folder)
        if known and known["asked_for"] >= search.trials:
            print("The search is finished.", flush=True)
        else:
            _search(tuner, folder)
        return []
    oracle = tuner.oracle
    watch.start(oracle)
    if len(oracle.end_order) < search.trials:
        _search(tuner, folder)
    ended = len(oracle.end_order)
    if ended < search.trials:
        print(f"No candidate within the budget is left after {ended} trials.")
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


def _search(tuner, folder: Path) -> None:
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


def _keep_best(job: Job, tuner, best: TrialResult) -> dict[str, float]:
    """Saves, exports and tests the best network, unless that was done before."""
    from gdn_keras.export import export_saved_model

    folder, settings = job.folder, job.search.settings
    known = read_results(folder)
    if known and known["best"] == best.trial_id:
        return known["test"]
    print(f"Exporting and testing trial {trial_number(best)}, the best.", flush=True)
    model = tuner.best_network(tuner.oracle.get_trial(best.trial_id))
    model = finished_network(model, settings)
    save_model(model, folder / MODEL)
    export_saved_model(model, folder / SAVED_MODEL, **export_options(settings))
    accuracies = accuracy_by_size(model, job.hypermodel.data.test, settings.test_sizes)
    return {f"{size:.4g}": accuracy for size, accuracy in accuracies.items()}
