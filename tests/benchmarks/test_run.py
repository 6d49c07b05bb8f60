import json

import pytest
import run
from contest.processes import Process
from contest.suite import Settings, run_suite
from contest.worker import Worker

TINY = Settings(
    nets=("tiny",),
    side=24,
    channels=3,
    rounds=1,
    turn=0.0,
    literal_batch=1,
    dense_batch=1,
    batch=2,
    memory_batch=2,
    sides=(12, 24),
    counts=(3, 5),
    batches=(1, 2),
    product_size=64,
    widths={"tiny": (2, 2)},
)


class InThisProcess(Worker):
    """A worker that saves the time to start a process; what it says still goes through JSON."""

    def ask(self, do, **arguments):
        return json.loads(json.dumps(getattr(self, do)(**json.loads(json.dumps(arguments)))))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_process_answers_and_reports_failures():
    with Process("tensorflow") as process:
        assert "keras" in process.ask("versions")
        with pytest.raises(RuntimeError, match="unexpected keyword"):
            process.ask("measure", task={"widths": [1], "size": 3}, seconds=0)
        assert "keras" in process.ask("versions")


def test_process_that_dies_is_an_error():
    with Process("no_such") as process, pytest.raises(RuntimeError, match="no_such_steps"):
        process.ask("versions")


@pytest.mark.slow
def test_suite_writes_table_numbers_and_plots(tmp_path):
    pytest.importorskip("matplotlib")
    run.write_results(run_suite(TINY, InThisProcess), tmp_path, drawing=True)

    results = json.loads((tmp_path / "benchmark.json").read_text())
    names = results["settings"]["contestants"]
    assert {"literal_keras", "dense", "matched", "plain_cnn"} <= set(names)
    for mode in ("forward", "training"):
        rows = {row["contestant"]: row for row in results[f"tiny {mode}"]}
        assert set(rows) == set(names)
        assert all(row["seconds"] > 0 for row in rows.values())
        assert rows["matched"]["flops"] > 0
    assert set(results["memory"]) == set(names)
    errors = results["covariance"]["matched"]["1.414"]
    assert all(0 <= error < 1 for error in errors.values())

    page = (tmp_path / "benchmark.md").read_text()
    assert "| gdn_keras, matched | 2 |" in page
    assert "adds" in page and "12 → 24" in page
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    assert (tmp_path / "times.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--output"),
        (["--output", "{file}"], "cannot write to"),
        (["--output", "{folder}", "--rounds", "0"], "must be an integer >= 1"),
        (["--output", "{folder}", "--truncation", "2"], "strictly between 0 and 1"),
    ],
)
def test_bad_arguments_end_with_a_clear_error(tmp_path, capsys, arguments, message):
    file = tmp_path / "file"
    file.touch()
    arguments = [a.format(file=file / "x", folder=tmp_path) for a in arguments]
    with pytest.raises(SystemExit):
        run.main(arguments)
    assert message in capsys.readouterr().err
