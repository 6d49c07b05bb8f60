import json
import os
import runpy
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from gdn_keras.training.classification_task import describe_data
from gdn_keras.training.command_line import run_command
from gdn_keras.training.run_folder import open_run
from tests.examples.conftest import EXAMPLES, load_example

QUICK = "--widths 4 --scales 1 2 2 --frame 32 --train-size 1 --test-sizes 1 2 --digits 40 "
QUICK += "--test-digits 20 --batch-size 20 --epochs 1"
LARGE_SCALE, MNIST = load_example("train_large_scale"), load_example("train_mnist")


def large_scale(arguments: str) -> int:
    return run_command(LARGE_SCALE.parser(), LARGE_SCALE.tasks_of, arguments.split())


def run_of(arguments: str, example=LARGE_SCALE):
    """Recipe and data of the last run."""
    task = example.tasks_of(example.parser().parse_args(arguments.split()))[""]
    return task.recipe, task.data


def test_large_scale_with_its_contrast(tmp_path, capsys):
    output = tmp_path / "run"
    assert large_scale(f"{QUICK} --with-single-channel --output {output}") == 0
    out = capsys.readouterr().out
    assert "Trained on size 1 only" in out and f"{output / 'report.md'}: one page" in out
    single = json.loads((output / "single_channel" / "accuracy.json").read_text())
    assert single["scales"] == [1.0] and "selection_slope" not in single
    report = (output / "report.md").read_text()
    assert "| 2 scale channels, % | single channel, % |" in report

    assert large_scale(f"{QUICK} --compare {output / 'single_channel'} --output {output}") == 0
    assert "was finished before" in capsys.readouterr().out
    assert "| single_channel, % |" in (output / "report.md").read_text()

    twin = shutil.copytree(output / "single_channel", tmp_path / "twin" / "single_channel")
    both = f"{output / 'single_channel'} {twin}"
    assert large_scale(f"{QUICK} --compare {both} --output {output}") == 0
    report = (output / "report.md").read_text()
    assert f"| {output / 'single_channel'}, % | {twin}, % |" in report


def test_mnist_as_a_command(tmp_path, monkeypatch, capsys):
    """As the file is run, but without the time that another process takes to import."""
    command = [str(EXAMPLES / "train_mnist.py"), "--digits", "40"]
    command += ["--test-digits", "20", "--epochs", "1", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(command[0], run_name="__main__")
    assert ended.value.code == 0
    results = json.loads((tmp_path / "accuracy.json").read_text())
    assert results["scales"] == [0.9] and len(results["sizes"]) == 1
    assert results["parameters"]["paper"] == 15864
    assert "of the test images recognised" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--network defualt", "'mnist', 'default', 'large'"),
        ("--digits 0", "Received: count=0"),
        ("--digits 9999", "between 1 and 3600"),
        ("--data official --mnist-dir nowhere --frame 112", "nowhere"),
        ("--mnist-dir nowhere", "nowhere"),
        ("--data mnist", "`directory`"),
        ("--paper", "`mnist_dir`"),
        ("--paper --data embedded --mnist-dir nowhere", "needs all of MNIST"),
        ("--data embedded --mnist-dir nowhere", "leave out one"),
        ("--scales 2 1 3", "LOW HIGH N"),
        ("--learning-rate 0.1 --final-learning-rate 1", "`final_learning_rate`"),
        ("--train-size 1 2 --single-channel", "one training size"),
        ("--train-size 1 2 --with-single-channel", "one training size"),
        ("--compare nowhere", "no finished run"),
        ("--widths 0", "widths"),
    ],
)
def test_mistakes_give_one_line(flags, message, tmp_path, capsys):
    quick = "--widths 4 --frame 32 --digits 40 --test-digits 20"
    assert large_scale(f"{quick} --output {tmp_path / 'run'} {flags}") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0]
    assert not (tmp_path / "run" / "last.keras").exists()


def test_folders_of_others(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert large_scale(f"{QUICK} --output {tmp_path / 'file'}") == 2
    assert "cannot be written to" in capsys.readouterr().err
    recipe, data = run_of(QUICK)
    open_run({**recipe.as_dict(), **describe_data(data)}, tmp_path / "run")
    assert large_scale(f"{QUICK} --seed 5 --output {tmp_path / 'run'}") == 2
    assert "seed is 0 there and 5 now" in capsys.readouterr().err


def test_flags_become_recipes_and_data(monkeypatch):
    asked = []

    def load(name, directory, **options):
        asked.append((name, directory, options))
        return SimpleNamespace(train_sizes=tuple(options.get("train_sizes", ())))

    for example in (LARGE_SCALE, MNIST):
        monkeypatch.setattr(example, "load_dataset", load)
    default, _ = run_of("")
    assert asked[-1][1] is None and asked[-1][2]["source"] == "embedded"
    assert asked[-1][2]["train_sizes"] == [2.0] and len(asked[-1][2]["test_sizes"]) == 17
    assert len(default.scales) == 8 and (default.epochs, default.augment) == (10, (56, 56))
    paper, _ = run_of("--paper --mnist-dir M --network large")
    assert (asked[-1][1], asked[-1][2]["source"], asked[-1][2]["count"]) == ("M", "idx", None)
    assert (paper.epochs, paper.augment, paper.network) == (20, None, "large")
    assert run_of("--paper --data tfds --epochs 3")[0].epochs == 3
    assert run_of("--no-augment")[0].augment is None
    small, _ = run_of("--train-size 1 --train-frame 56 --train-scales 0.5 2 3")
    assert asked[-1][2]["train_frame"] == 56 and small.training_scales == (0.5, 1.0, 2.0)
    single, _ = run_of("--train-size 4 --single-channel")
    assert single.scales == (4,)
    rates = [
        run_of(f"--learning-rate {rate}")[0] for rate in ("0.1", "0.1 --final-learning-rate 0.01")
    ]
    assert [r.final_learning_rate for r in rates] == pytest.approx([0.0005, 0.01])
    machine, _ = run_of("--mixed-precision bfloat16 --distribute --jit --loss softmax")
    assert machine.precision == "bfloat16" and machine.distribute and machine.jit
    mnist, _ = run_of("--mnist-dir M", MNIST)
    assert (mnist.scales, mnist.augment, asked[-1][:2]) == ((0.9,), None, ("mnist", "M"))


@pytest.mark.parametrize("name", ["train_large_scale", "train_mnist", "train_folder"])
def test_docstrings_name_the_command_and_help_works(name):
    example = load_example(name)
    assert f"python examples/{name}.py" in example.__doc__
    help_text = example.parser().format_help()
    assert max(map(len, help_text.splitlines())) <= 100
    for group in ("network", "data", "training", "machine"):
        assert f"\n{group}:\n" in help_text
    assert "\n  --output FOLDER  " in help_text


@pytest.mark.slow
def test_the_default_run(tmp_path):
    """The README's promise, with room for slower machines and other rounding errors."""
    environment = {**os.environ, "GDN_KERAS_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(EXAMPLES / "train_large_scale.py")]
    command += ["--output", str(tmp_path / "run")]
    subprocess.run(command, check=True, timeout=12 * 60, env=environment)
    results = json.loads((tmp_path / "run" / "accuracy.json").read_text())
    inside = [row["accuracy"] for row in results["sizes"] if 0.7 < row["size"] <= 4]
    assert len(inside) == 11 and min(inside) >= 0.97
