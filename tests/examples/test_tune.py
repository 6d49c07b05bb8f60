import csv
import os
import signal
import socket
import subprocess
import sys
import time

import keras
import pytest
from PIL import Image

from gdn_keras.analysis import accuracy_by_size
from gdn_keras.datasets import load_dataset, load_embedded_digits
from gdn_keras.presets import PRESETS
from gdn_keras.tuning import GaussianDerivativeHyperModel
from tests.examples.conftest import EXAMPLES, load_example

pytestmark = [
    # KerasTuner's own, in every call of an oracle.
    pytest.mark.filterwarnings("ignore:currentThread:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:getName:DeprecationWarning"),
]

TINY = "--widths 2 3 4 --layers 1 2 --scale-ratio 1.25 --scales 1 2 2 --train-scales 1 1 1 "
TINY += "--frame 32 --train-frame 28 --digits 60 --epochs 1 --batch-size 20 --validation-digits 20 "
TINY += "--validation-sizes 1 1.41 --test-digits 20 --test-sizes 1 2"


@pytest.fixture(scope="module")
def example():
    return load_example("tune_channels")


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
    """Presets in the place of the paper's, one of them over a budget of 240 parameters."""
    for name, widths in (("default", (2, 3)), ("large", (4, 4))):
        monkeypatch.setitem(PRESETS, name, {"parameters": {"widths": widths}})


def trials(folder):
    with open(folder / "trials.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_search_and_what_it_leaves(tune, small_presets, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "tune"
    command = f"{TINY} --trials 3 --max-parameters 240 --output {folder}"
    fit = GaussianDerivativeHyperModel.fit
    calls = []

    def stopped_once(self, hp, model, **options):
        calls.append(hp)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit(self, hp, model, **options)

    monkeypatch.setattr(GaussianDerivativeHyperModel, "fit", stopped_once)
    code, _, _ = tune(command)
    assert code == 130
    code, out, _ = tune(command)
    assert code == 0 and "Best: " in out and len(calls) == 3 + 1 + 2  # trials, stopped, presets

    rows = trials(folder)
    searched = [row for row in rows if row["trial"].isdigit()]
    assert len(searched) == 3 and all(int(row["parameters"]) <= 240 for row in searched)
    assert {row["trial"] for row in rows} == {"1", "2", "3", "default", "large"}
    accuracies = [float(row["mean_accuracy"]) for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    report = (folder / "report.md").read_text()
    assert "The paper's default, 2-3" in report and "(pictures/pareto.png)" in report
    assert (folder / "pictures" / "pareto.png").exists()
    with open(folder / "rejected.csv", newline="") as stream:
        rejected = list(csv.DictReader(stream))
    assert rejected and all(int(row["parameters"]) > 240 for row in rejected)

    model = keras.saving.load_model(folder / "model.keras", compile=False)
    digits = {"train_sizes": (1,), "frame": 32, "count": 60, "test_count": 20}
    held_out = load_dataset("mnist_large_scale", test_split="validation", **digits)
    best = next(row for row in rows if int(row["parameters"]) <= 240)
    accuracy = accuracy_by_size(model, held_out, [1])[1]
    assert accuracy == pytest.approx(float(best["accuracy_at_1"]))

    Image.fromarray(load_embedded_digits().x_test[0]).save(tmp_path / "digit.png")
    predict = [str(folder / "saved_model"), str(tmp_path / "digit.png")]
    assert load_example("predict").main(predict) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(str(tmp_path))

    monkeypatch.setattr(GaussianDerivativeHyperModel, "fit", None)
    assert tune(command)[0] == 0  # nothing is trained again
    code, _, errors = tune(f"{command} --seed 1")
    assert code == 2 and "seed" in errors[0]


def test_failing_trials_end_with_one_line(tmp_path, monkeypatch, capsys, example):
    def fails(*args, **kwargs):
        raise OSError("the disk is gone")

    monkeypatch.setattr(GaussianDerivativeHyperModel, "fit", fails)
    assert example.main(f"{TINY} --trials 5 --output {tmp_path}".split()) == 1
    assert capsys.readouterr().err.strip().splitlines()[-1].endswith("the disk is gone")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--widths", "widths"),
        ("--pooling mean", "pooling"),
        ("--validation-digits 9999", "between 1 and 400"),
        ("--digits 9999", "between 1 and 3600"),
        ("--trials 0", "trials"),
        ("--max-parameters 100", "134 parameters"),
        ("--max-multiply-adds 1e3", "134 parameters"),
        ("--mnist-dir nowhere", "nowhere"),
        ("--scales 2 1 3", "scales"),
    ],
)
def test_mistakes_give_one_line(flags, message, tune, tmp_path):
    code, _, errors = tune(f"{TINY} --output {tmp_path / 'run'} {flags}")
    assert code == 2 and len(errors) == 1 and message in errors[0]
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
                if line.startswith(f"Search: Running Trial #{number}"):
                    time.sleep(1)
                    process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    process = start(tmp_path / "killed", arguments)
    process.communicate()
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
    ran = [worker.communicate(timeout=600)[0].count("Network: ") for worker in workers]
    chief.communicate(timeout=120)
    assert [process.returncode for process in (chief, *workers)] == [0, 0, 0]
    assert sum(ran) == 6 and min(ran) >= 1
    rows = trials(tmp_path)
    assert len(rows) == 8 and {row["learning_rate"] for row in rows} <= {"0.003", "0.01"}
    assert (tmp_path / "saved_model" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_default_search(tmp_path):
    """The promise of the example: 24 trials and two networks in under 20 minutes on 2 cores."""
    command = [sys.executable, str(EXAMPLES / "tune_channels.py"), "--output", str(tmp_path)]
    subprocess.run(command, check=True, timeout=20 * 60)
    rows = trials(tmp_path)
    assert len(rows) == 26
    accuracies = [float(row["mean_accuracy"]) for row in rows]
    assert accuracies[0] - accuracies[12] > 0.01
