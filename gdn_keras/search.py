"""A whole search: trials, a table of them, the Pareto picture and the best network, in one folder.

Everything that a search can be asked for is in `gdn_keras.tuning`; here it is run.
"""

import contextlib
import csv
import dataclasses
import io
import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from gdn_keras.experiments.evaluation import accuracy_by_size
from gdn_keras.experiments.pareto import draw_pareto, pareto_front
from gdn_keras.experiments.run_folder import (
    MODEL,
    PICTURES,
    REPORT,
    SAVED_MODEL,
    open_run,
    replacing,
    save_model,
    write_text,
)
from gdn_keras.experiments.settings import Settings
from gdn_keras.experiments.training import TrainingStopped, finished_network
from gdn_keras.scale_space.validation import check_integer
from gdn_keras.tuning import (
    BASELINES,
    OBJECTIVE,
    SEARCH_SETTINGS,
    VALIDATION_SIZES,
    Budget,
    Candidate,
    Cost,
    GaussianDerivativeHyperModel,
    Space,
    check_tuner,
    describe,
    last_line,
    make_tuner,
    size_metric,
    trial_number,
)

TABLE = "trials.csv"
RESULTS = "trials.json"
REJECTED = "rejected.csv"
PARETO = "pareto.png"
_VARIABLES = tuple(f"KERASTUNER_{name}" for name in ("TUNER_ID", "ORACLE_IP", "ORACLE_PORT"))
_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Search:
    """What a search is made of.

    Attributes:
        tuner: "random", "hyperband" or "bayesian".
        trials: How many, the paper's networks included. A finished search goes on with more.
        space, budget, settings, validation_sizes, validation_digits: See
            `gdn_keras.tuning.GaussianDerivativeHyperModel`. `settings.seed` is the seed of the
            candidates too, and `settings.test_sizes` are those that the best network is tested at.
    """

    tuner: str = "random"
    trials: int = 24
    space: Space = dataclasses.field(default_factory=Space)
    budget: Budget = dataclasses.field(default_factory=Budget)
    settings: Settings = SEARCH_SETTINGS
    validation_sizes: tuple[float, ...] = VALIDATION_SIZES
    validation_digits: int | None = None

    def __post_init__(self):
        check_tuner(self.tuner)
        check_integer("trials", self.trials)

    def as_dict(self) -> dict[str, Any]:
        """What must be the same for a search to go on; the number of trials need not be."""
        return {
            "tuner": self.tuner,
            **self.settings.as_dict(),
            **self.space.as_dict(),  # in place of the settings of these names
            **self.budget.as_dict(),
            "validation_sizes": list(self.validation_sizes),
            "validation_digits": self.validation_digits,
        }


class Job(NamedTuple):
    """A search that is ready to start: nothing that a user could get wrong is left to check."""

    search: Search
    folder: Path
    hypermodel: GaussianDerivativeHyperModel
    baselines: dict[str, Candidate]


class TrialResult(NamedTuple):
    """A finished trial; `name` is that of a preset, or empty."""

    trial: str
    name: str
    candidate: Candidate
    cost: Cost
    epochs: int
    accuracy: float
    by_size: dict[float, float]


def prepare(search: Search, folder: str | os.PathLike) -> Job:
    """Checks everything that a search needs before the first trial.

    Raises:
        ValueError, OSError, ImportError: With one sentence for the user.
    """
    role()
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "A search exports its best network, which needs Keras on TensorFlow. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}"
        )
    hypermodel = GaussianDerivativeHyperModel(
        search.space,
        search.budget,
        search.settings,
        search.validation_sizes,
        search.validation_digits,
    )
    _ = hypermodel.data, hypermodel.validation
    baselines = {}
    for name in BASELINES:
        candidate = search.space.closest_to(name)
        if candidate and search.budget.allows(hypermodel.cost(candidate)):
            baselines[name] = candidate
    return Job(search, open_run(search, folder), hypermodel, baselines)


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
        if (folder / RESULTS).exists() and _read(folder)["asked_for"] >= search.trials:
            print("The search is finished.", flush=True)
        else:
            _search(tuner, folder)
        return []
    oracle = tuner.oracle
    watch.start(oracle)
    if len(oracle.end_order) < search.trials:
        _search(tuner, folder)
    if len(oracle.end_order) < search.trials:
        print(f"No candidate within the budget is left after {len(oracle.end_order)} trials.")
    results = trial_results(job, oracle.trials.values())
    if not results:
        message = last_line(next(iter(oracle.trials.values())).message)
        raise TrainingStopped(f"No trial was completed. {message}")
    try:
        tested = _keep_best(job, tuner, results[0])
        write_results(job, results, tested, failed=len(oracle.end_order) - len(results))
    except KeyboardInterrupt:
        raise TrainingStopped(
            "Stopped. The trials are kept; the same command goes on with what comes after them.",
            interrupted=True,
        ) from None
    return results


def role() -> str:
    """ "alone", or "chief" or "worker" where KerasTuner's environment variables are set."""
    given = [name for name in _VARIABLES if os.environ.get(name)]
    if not given or given == [_VARIABLES[0]]:
        return "alone"
    if len(given) < len(_VARIABLES):
        missing = ", ".join(name for name in _VARIABLES if name not in given)
        raise ValueError(f"For a search in several processes, set {missing} too.")
    return "chief" if "chief" in os.environ[_VARIABLES[0]] else "worker"


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
        raise TrainingStopped(f"Stopped. {text.partition(chr(10))[0]} {last_line(text)}") from error


class Watch:
    """Prints what a search does, and keeps a list of the candidates that it turned away."""

    def __init__(self, job: Job):
        self._job = job
        self._names = {candidate: name for name, candidate in job.baselines.items()}
        self._began: dict[str, float] = {}
        self._ended = self._rejected = 0
        self._oracle = None

    def start(self, oracle) -> None:
        """To be told of the oracle before the first trial."""
        self._oracle, self._start = oracle, time.monotonic()
        search, done = self._job.search, len(oracle.end_order)
        for name in BASELINES:
            if name not in self._job.baselines:
                print(f"The {name} network is not in the space, or over budget: left out.")
        if done:
            print(f"Going on after {done} of {search.trials} trials.", flush=True)

    def begin(self, trial) -> None:
        """A trial is handed out."""
        self._began[trial.trial_id] = time.monotonic()
        candidate = self._job.hypermodel.space.candidate(trial.hyperparameters.values)
        text = describe(candidate, self._job.hypermodel.cost(candidate))
        name = self._names.get(candidate)
        if self._rejected:
            print(f"  {self._rejected} candidates over budget were turned away (see {REJECTED})")
            self._rejected = 0
        print(
            f"trial {trial_number(trial)} of {self._job.search.trials}: "
            f"{f'{name}, ' if name else ''}{text}",
            flush=True,
        )

    def end(self, trial) -> None:
        """A trial has ended."""
        oracle, total = self._oracle, self._job.search.trials
        self._ended += 1
        # A worker may end what a chief before this one began.
        seconds = time.monotonic() - self._began.get(trial.trial_id, self._start)
        left = max(0, total - len(oracle.end_order))
        pace = (time.monotonic() - self._start) / self._ended
        if trial.score is None:
            result = f"failed: {last_line(trial.message) or 'its worker says why'}"
        else:
            result = f"{trial.score:.2%}"
        scores = [t.score for t in oracle.trials.values() if t.score is not None]
        best = f", best so far {max(scores):.2%}" if scores else ""
        print(
            f"  trial {trial_number(trial)}: {result} ({seconds:.0f} s){best}; "
            f"{len(oracle.end_order)} of {total} done, ETA {_clock(pace * left)}",
            flush=True,
        )

    def rejected(self, candidate: Candidate, cost: Cost) -> None:
        """A candidate over budget was drawn."""
        self._rejected += 1
        file = self._job.folder / REJECTED
        rows = [] if file.exists() else [["widths", "scale_ratio", *Cost._fields]]
        rows.append(["-".join(map(str, candidate.widths)), candidate.scale_ratio, *cost])
        with open(file, "a", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)


def trial_results(job: Job, trials) -> list[TrialResult]:
    """The completed trials, best first; of equally good ones, the cheapest."""
    names = {candidate: name for name, candidate in job.baselines.items()}
    results = []
    for trial in trials:
        if trial.status != "COMPLETED":
            continue
        values = trial.hyperparameters.values
        candidate = job.hypermodel.space.candidate(values)
        by_size = {
            size: trial.metrics.get_best_value(size_metric(size))
            for size in job.hypermodel.validation_sizes
        }
        results.append(
            TrialResult(
                trial.trial_id,
                names.get(candidate, ""),
                candidate,
                job.hypermodel.cost(candidate),
                int(values.get("tuner/epochs", job.search.settings.epochs)),
                trial.metrics.get_best_value(OBJECTIVE),
                by_size,
            )
        )
    return sorted(results, key=lambda r: (-r.accuracy, r.cost))


def _keep_best(job: Job, tuner, best: TrialResult) -> dict[str, float]:
    """Saves, exports and tests the best network, unless that was done before."""
    from gdn_keras.export import export_saved_model

    folder, settings = job.folder, job.search.settings
    if (folder / RESULTS).exists() and (known := _read(folder))["best"] == best.trial:
        return known["test"]
    print(f"Exporting and testing trial {int(best.trial) + 1}, the best.", flush=True)
    model = tuner.best_network(tuner.oracle.get_trial(best.trial))
    model = finished_network(model, settings)
    save_model(model, folder / MODEL)
    size = settings.train_sizes[0] if len(settings.train_sizes) == 1 else None
    export_saved_model(model, folder / SAVED_MODEL, training_size=size, overwrite=True)
    accuracies = accuracy_by_size(model, job.hypermodel.data.test, settings.test_sizes)
    return {f"{size:.4g}": accuracy for size, accuracy in accuracies.items()}


def write_results(
    job: Job, results: Sequence[TrialResult], tested: dict[str, float], failed: int = 0
) -> None:
    """Table, picture and report of a search; trials.json last, as it says that all is there."""
    folder = job.folder
    rows = [_row(result) for result in results]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / TABLE, text.getvalue())
    picture = _draw(folder, results)
    write_text(folder / REPORT, report(job, results, tested, failed, picture))
    content = {
        "settings": job.search.as_dict(),
        "best": results[0].trial,
        "test": tested,
        "failed": failed,
        "asked_for": job.search.trials,
        "trials": rows,
    }
    write_text(folder / RESULTS, json.dumps(content, indent=1) + "\n")


def _draw(folder: Path, results: Sequence[TrialResult]) -> str:
    """The picture's line in the report."""
    costs = {
        "trainable parameters": [r.cost.parameters for r in results],
        "multiply-adds an image": [r.cost.multiply_adds for r in results],
    }
    marked = {f"{r.name} ({_widths(r)})": i for i, r in enumerate(results) if r.name}
    (folder / PICTURES).mkdir(exist_ok=True)
    try:
        with replacing(folder / PICTURES / PARETO) as temporary:
            draw_pareto(costs, [r.accuracy for r in results], temporary, marked)
    except ImportError as error:
        print(f"The picture was left out. {error}", flush=True)
        return f"The picture was left out. {error}\n"
    caption = "Mean accuracy over the validation sizes against cost; Pareto fronts in blue."
    return f"![{caption}]({PICTURES}/{PARETO})\n\n*{caption}*\n"


def report(
    job: Job, results: Sequence[TrialResult], tested: dict[str, float], failed: int, picture: str
) -> str:
    """The search on one page."""
    search = job.search
    sizes = ", ".join(f"{size:.3g}" for size in job.hypermodel.validation_sizes)
    limits = [f"{k} {v:g}" for k, v in search.budget.as_dict().items() if v is not None]
    parts = [
        f"# {len(results)} trials, {search.tuner} search\n",
        summary(job, results) + "\n",
        *(f"{line}\n" for line in baseline_answers(results)),
        picture,
        f"Accuracy in %, mean over the sizes {sizes}; `p` and `m` mark the Pareto fronts of "
        "parameters and multiply-adds. All trials: "
        f"[{TABLE}]({TABLE}).\n",
        _best_table(results),
        f"The best network, kept in `{MODEL}` and `{SAVED_MODEL}`, on test digits:\n",
        _test_table(tested),
        f"Budget: {', '.join(limits) or 'none'}. Failed trials: {failed}. Training: "
        f"{len(job.hypermodel.data.train.labels)} images of size "
        f"{', '.join(f'{s:g}' for s in search.settings.train_sizes)}, {search.settings.epochs} "
        f"epochs, seed {search.settings.seed}.\n",
    ]
    return "\n".join(parts)


def summary(job: Job, results: Sequence[TrialResult]) -> str:
    """The best and the median trial, and how far chance goes."""
    best = results[0]
    median = statistics.median(r.accuracy for r in results)
    digits = len(job.hypermodel.validation(job.hypermodel.validation_sizes[0]).labels)
    error = math.sqrt(best.accuracy * (1 - best.accuracy) / digits)
    return (
        f"Best: {best.accuracy:.2%} with {_widths(best)}, r {best.candidate.scale_ratio:g} "
        f"({_cost(best)}). Median trial: {median:.2%}, so that the best is "
        f"{100 * (best.accuracy - median):.2f} points above it; one standard error of an accuracy "
        f"on {digits} digits is {100 * error:.2f} points."
    )


def baseline_answers(results: Sequence[TrialResult]) -> list[str]:
    """For each of the paper's networks, what the search found for its cost."""
    lines = []
    for base in (r for r in results if r.name):
        rank = results.index(base) + 1
        text = f"`{base.name}` ({_widths(base)}): {base.accuracy:.2%}, {_cost(base)}, "
        text += f"rank {rank} of {len(results)}."
        for kind, what in ((0, "parameters"), (2, "multiply-adds")):
            rival = next(r for r in results if r.cost[kind] <= base.cost[kind])
            if rival is base:
                text += f" No trial with as few {what} is better."
            else:
                text += f" Best with no more {what}: {_widths(rival)}, "
                text += f"r {rival.candidate.scale_ratio:g}, {rival.accuracy:.2%}, {_cost(rival)}."
        cheaper = [r for r in results[:rank] if r.cost.parameters < base.cost.parameters]
        if cheaper:
            least = min(cheaper, key=lambda r: r.cost.parameters)
            text += f" Fewest parameters that are as good: {_widths(least)}, {_cost(least)}."
        lines.append(text)
    return lines


def _best_table(results: Sequence[TrialResult]) -> str:
    fronts = [
        {results[i].trial for i in pareto_front([r.cost[k] for r in results], _accuracies(results))}
        for k in (0, 2)
    ]
    shown = [r for i, r in enumerate(results) if i < _SHOWN or r.name]
    lines = [
        "| trial | widths | r | pooling | rate | epochs | parameters | paper's count | "
        "M multiply-adds | accuracy | front |",
        "|---" * 11 + "|",
    ]
    for r in shown:
        front = "".join(mark for mark, ids in zip("pm", fronts, strict=True) if r.trial in ids)
        name = f" ({r.name})" if r.name else ""
        lines.append(
            f"| {int(r.trial) + 1} | {_widths(r)}{name} | {r.candidate.scale_ratio:g} | "
            f"{r.candidate.pooling} | {r.candidate.learning_rate:g} | {r.epochs} | "
            f"{r.cost.parameters} | {r.cost.paper_parameters} | "
            f"{r.cost.multiply_adds / 1e6:.1f} | {100 * r.accuracy:.2f} | {front} |"
        )
    return "\n".join(lines) + "\n"


def _test_table(tested: dict[str, float]) -> str:
    cells = [f"{100 * accuracy:.1f}" for accuracy in tested.values()]
    lines = [["test size", *tested], ["---"] * (len(tested) + 1), ["accuracy, %", *cells]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(result: TrialResult) -> dict[str, Any]:
    return {
        "trial": int(result.trial) + 1,
        "name": result.name,
        **result.candidate._asdict(),
        "widths": _widths(result),
        **result.cost._asdict(),
        "epochs": result.epochs,
        OBJECTIVE: result.accuracy,
        **{size_metric(size): accuracy for size, accuracy in result.by_size.items()},
    }


def _widths(result: TrialResult) -> str:
    return "-".join(map(str, result.candidate.widths))


def _cost(result: TrialResult) -> str:
    cost = result.cost
    return f"{cost.parameters} parameters, {cost.multiply_adds / 1e6:.1f} M multiply-adds"


def _accuracies(results: Sequence[TrialResult]) -> list[float]:
    return [r.accuracy for r in results]


def _read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / RESULTS).read_text())


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"
