import csv
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import keras
import pytest
from PIL import Image

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.datasets import load_dataset, load_embedded_digits
from gdn_keras.presets import PRESETS
from gdn_keras.tuning import GaussianDerivativeHyperModel

pytestmark = [
    # KerasTuner's own, in every call of an oracle.
    pytest.mark.filterwarnings("ignore:currentThread:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:getName:DeprecationWarning"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = "--widths 2 3 4 --layers 1 2 --scale-ratio 1.25 --scales 1 2 2 --train-scales 1 1 1 "
TINY += "--frame 32 --train-frame 28 --digits 60 --epochs 1 --batch-size 20 --validation-digits 20 "
TINY += "--validation-sizes 1 1.41 --test-digits 20 --test-sizes 1 2"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("tune", EXAMPLES / "tune_channels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tune(example, capsys):
    """The command: exit code, standard output, lines of errors."""

    def tune(arguments):
        code = example.main(arguments.split())
        output = capsys.readouterr()
        return code, output.out, [s for s in output.err.splitlines() if s.startswith("error: ")]

    return tune


@pytest.fixture
def small_presets(monkeypatch):
    """Presets in the place of the paper's, one of them over the budget of 240 parameters."""
    for name, widths in (("default", (2, 3)), ("large", (4, 4))):
        monkeypatch.setitem(PRESETS, name, {"parameters": {"widths": widths}})


def trials(folder):
    with open(folder / "trials.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_search_and_what_it_leaves(tune, small_presets, tmp_path, monkeypatch):
    folder = tmp_path / "tune"
    command = f"{TINY} --trials 3 --max-parameters 240 --output {folder}"
    fit = GaussianDerivativeHyperModel.fit
    stops = []

    def stopped_once(self, hp, model, **options):
        if hp.values["layers"] == 2 and not stops:
            stops.append(hp.values)
            raise KeyboardInterrupt
        return fit(self, hp, model, **options)

    monkeypatch.setattr(GaussianDerivativeHyperModel, "fit", stopped_once)
    code, out, _ = tune(command)  # the first trial is a preset, with two layers
    assert code == 130 and "trial 1 of 3: default, 2-3" in out
    assert "The large network is not in the space, or over budget" in out

    code, out, _ = tune(command)
    assert code == 0 and "3 of 3 done, ETA 00:00" in out and "Best: " in out
    rows = trials(folder)
    assert len(rows) == 3 and all(int(row["parameters"]) <= 240 for row in rows)
    accuracies = [float(row["mean_accuracy"]) for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    assert [row["name"] for row in rows].count("default") == 1
    report = (folder / "report.md").read_text()
    assert "`default` (2-3): " in report and "(pictures/pareto.png)" in report
    assert (folder / "pictures" / "pareto.png").exists()
    with open(folder / "rejected.csv", newline="") as stream:
        rejected = list(csv.DictReader(stream))
    assert rejected and all(int(row["parameters"]) > 240 for row in rejected)

    model = keras.saving.load_model(folder / "model.keras", compile=False)
    digits = {"train_sizes": (1,), "frame": 32, "count": 60, "test_count": 20}
    held_out = load_dataset("mnist_large_scale", test_split="validation", **digits)
    best = accuracy_by_size(model, held_out, [1])
    assert best[1] == pytest.approx(float(rows[0]["accuracy_at_1"]))
    tested = accuracy_by_size(model, load_dataset("mnist_large_scale", **digits), [1, 2])
    results = json.loads((folder / "trials.json").read_text())
    assert list(results["test"].values()) == list(tested.values())

    Image.fromarray(load_embedded_digits().x_test[0]).save(tmp_path / "digit.png")
    predict = [sys.executable, EXAMPLES / "predict.py", folder / "saved_model"]
    done = subprocess.run([*predict, tmp_path / "digit.png"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith(str(tmp_path))

    monkeypatch.setattr(GaussianDerivativeHyperModel, "fit", None)
    code, out, _ = tune(command)
    assert code == 0 and "Going on after 3 of 3 trials" in out and "Exporting" not in out
    code, _, errors = tune(f"{command} --seed 1")
    assert code == 2 and "seed is 0 there and 1 now" in errors[0]


def test_failing_trials_end_with_one_line(tune, tmp_path, monkeypatch, capsys, example):
    def fails(*args, **kwargs):
        raise OSError("the disk is gone")

    monkeypatch.setattr(GaussianDerivativeHyperModel, "fit", fails)
    command = f"{TINY} --trials 5 --output {tmp_path}"
    assert example.main(command.split()) == 1
    output = capsys.readouterr()
    assert "failed: OSError: the disk is gone" in output.out
    assert "Stopped. Number of consecutive failures" in output.err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--widths", "`widths` must hold at least one value"),
        ("--layers", "`layers` must hold at least one value"),
        ("--pooling mean", "pooling='mean'"),
        ("--learning-rate 0", "learning_rate=0"),
        ("--validation-digits 9999", "between 1 and 400"),
        ("--digits 9999", "between 1 and 3600"),
        ("--trials 0", "trials=0"),
        ("--max-parameters 100", "the smallest possible cost is 134 parameters"),
        ("--max-multiply-adds 1e3", "134 parameters, and 2"),
        ("--mnist-dir nowhere", "nowhere"),
        ("--scales 2 1 3", "LOW HIGH N"),
    ],
)
def test_mistakes_give_one_line(flags, message, tune, tmp_path):
    code, _, errors = tune(f"{TINY} --output {tmp_path / 'run'} {flags}")
    assert code == 2 and len(errors) == 1 and message in errors[0]
    assert not (tmp_path / "run").exists()


def test_what_is_missing_is_said_before_a_search(tune, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda x, *a: x != "tensorboard" and find(x))
        code, _, errors = tune(f"{TINY} --output {tmp_path / 'run'}")
    assert code == 2 and "pip install 'gdn_keras[tune]'" in errors[0]
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    code, _, errors = tune(f"{TINY} --output {tmp_path / 'run'}")
    assert code == 2 and "KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_PORT" in errors[0]
    assert not (tmp_path / "run").exists()


def test_numbers_that_are_none_are_refused(example, capsys):
    assert example.parser().parse_args(["--max-multiply-adds", "5e7"]).max_multiply_adds == 5e7
    for text in ("inf", "many"):
        with pytest.raises(SystemExit):
            example.parser().parse_args(["--max-parameters", text])
        assert f"invalid count value: '{text}'" in capsys.readouterr().err


def test_docstring_and_help(example):
    assert "python examples/tune_channels.py" in example.__doc__
    assert max(map(len, example.parser().format_help().splitlines())) <= 100


def start(folder, arguments, **environment):
    command = [sys.executable, str(EXAMPLES / "tune_channels.py"), *TINY.split()]
    command += ["--output", str(folder), *arguments.split()]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["random", "hyperband"])
def test_killed_searches_end_like_one_that_was_not(tuner, tmp_path):
    arguments = f"--trials 4 --epochs 3 --tuner {tuner}"
    whole = start(tmp_path / "whole", arguments)
    whole.communicate()
    for number in (1, 3):
        with start(tmp_path / "killed", arguments) as process:
            for line in process.stdout:
                if line.startswith(f"trial {number} of 4"):
                    time.sleep(1)
                    process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    process = start(tmp_path / "killed", arguments)
    assert "Going on after 2 of 4 trials" in process.communicate()[0]
    assert process.returncode == whole.returncode == 0
    assert trials(tmp_path / "killed") == trials(tmp_path / "whole")


@pytest.mark.slow
def test_chief_and_two_workers(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    cluster = {"KERASTUNER_ORACLE_IP": "127.0.0.1", "KERASTUNER_ORACLE_PORT": port}
    arguments = "--trials 6 --tuner bayesian --learning-rate 0.003 0.01"
    chief, *workers = (
        start(tmp_path, arguments, KERASTUNER_TUNER_ID=name, **cluster)
        for name in ("chief", "tuner0", "tuner1")
    )
    ran = [worker.communicate(timeout=600)[0].count("\ntrial ") for worker in workers]
    out = chief.communicate(timeout=120)[0]
    assert [process.returncode for process in (chief, *workers)] == [0, 0, 0]
    assert sum(ran) == 6 and min(ran) >= 1
    rows = trials(tmp_path)
    assert len(rows) == 6 and {row["learning_rate"] for row in rows} <= {"0.003", "0.01"}
    assert "6 of 6 done" in out and (tmp_path / "saved_model" / "saved_model.pb").exists()

    late = start(tmp_path, arguments, KERASTUNER_TUNER_ID="tuner2", **cluster)
    assert "The search is finished." in late.communicate(timeout=120)[0]


@pytest.mark.slow
def test_the_default_search(tmp_path):
    """The promise of the example: 24 trials in under 20 minutes on 2 cores."""
    command = [sys.executable, str(EXAMPLES / "tune_channels.py"), "--output", str(tmp_path)]
    subprocess.run(command, check=True, timeout=20 * 60)
    rows = trials(tmp_path)
    assert len(rows) == 24 and {row["name"] for row in rows} == {"", "default", "large"}
    accuracies = [float(row["mean_accuracy"]) for row in rows]
    assert accuracies[0] - accuracies[12] > 0.01
