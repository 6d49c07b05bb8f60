"""What a search says while it runs."""

import csv
import time
from typing import Any

from gdn_keras.training.callbacks import clock
from gdn_keras.tuning.budget import Cost, describe
from gdn_keras.tuning.job import BASELINES, SearchJob
from gdn_keras.tuning.space import Candidate
from gdn_keras.tuning.tuner import last_line, trial_number

REJECTED = "rejected.csv"


class Watch:
    """Says what a search does, and keeps a list of the candidates that it turned away."""

    def __init__(self, job: SearchJob) -> None:
        self._job = job
        self._say = job.reporter.line
        self._began: dict[str, float] = {}
        self._ended = self._rejected = 0
        self._oracle: Any = None
        self._start = time.monotonic()

    def start(self, oracle: Any) -> None:
        """To be told of the oracle before the first trial."""
        self._oracle, self._start = oracle, time.monotonic()
        search, done = self._job.search, len(oracle.end_order)
        for name in BASELINES:
            if name not in self._job.baselines:
                self._say(f"The {name} network is not in the space, or over budget: left out.")
        if done:
            self._say(f"Going on after {done} of {search.trials} trials.")

    def begin(self, trial: Any) -> None:
        """A trial is handed out."""
        self._began[trial.trial_id] = time.monotonic()
        candidate = self._job.hypermodel.space.candidate(trial.hyperparameters.values)
        text = describe(candidate, self._job.hypermodel.cost(candidate))
        name = self._job.name_of(candidate)
        if self._rejected:
            self._say(
                f"  {self._rejected} candidates over budget were turned away (see {REJECTED})"
            )
            self._rejected = 0
        self._say(
            f"trial {trial_number(trial)} of {self._job.search.trials}: "
            f"{f'{name}, ' if name else ''}{text}"
        )

    def end(self, trial: Any) -> None:
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
        self._say(
            f"  trial {trial_number(trial)}: {result} ({seconds:.0f} s){best}; "
            f"{len(oracle.end_order)} of {total} done, ETA {clock(pace * left)}"
        )

    def rejected(self, candidate: Candidate, cost: Cost) -> None:
        """A candidate over budget was drawn."""
        self._rejected += 1
        file = self._job.folder / REJECTED
        rows: list[list[Any]] = [] if file.exists() else [["widths", "scale_ratio", *Cost._fields]]
        rows.append([candidate.widths_text, candidate.scale_ratio, *cost])
        with open(file, "a", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)
