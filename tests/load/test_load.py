"""The tool that puts an exported network under load, and what it finds."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from gdn_keras.export import export_saved_model
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import Classifier
from tests.exported import small_network

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def load():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import load

        yield load


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    model = Classifier(small_network(), preprocessor=ArctanContrast())
    return export_saved_model(model, tmp_path_factory.mktemp("load") / "saved_model")


def test_threads_and_mixed_batches_get_right_answers(load, saved_model, tmp_path, capsys):
    report = tmp_path / "load.json"
    arguments = f"{saved_model} --minutes 0.02 --threads 3 --batches 1 3 8 --output {report}"
    code = load.main(arguments.split())
    result = json.loads(report.read_text())
    assert result["wrong_answers"] == 0 and result["images"] > result["calls"] > 3
    assert code == (0 if result["growth"] <= load.ALLOWED_GROWTH else 1)
    assert result["summary"] in capsys.readouterr().out


def test_a_wrong_answer_is_found(load, saved_model):
    endpoints = load._Endpoints(tf.saved_model.load(str(saved_model)))
    rng = np.random.default_rng(0)
    assert all(endpoints.check(rng, 4) for _ in range(10))
    for answers in endpoints._answers.values():
        for values in answers.values():
            values += 0.01
    assert not any(endpoints.check(rng, 1) for _ in range(10))


def test_growth_is_that_after_the_warm_up(load):
    warm_up = [100] * 20
    assert load._growth(warm_up + [200] * 80) == 0
    assert load._growth(warm_up + list(np.linspace(200, 212, 80))) == pytest.approx(0.054, abs=2e-3)


def test_bad_arguments_end_with_a_clear_error(load, capsys):
    with pytest.raises(SystemExit):
        load.main(["--threads", "0"])
    assert "must be positive. Received: 0" in capsys.readouterr().err


@pytest.mark.slow
def test_memory_stays_as_it_is(load):
    # TensorFlow's own buffers grow for the first few hundred calls: 20 seconds are too few.
    result = load.sustain(load.SAVED_MODEL, seconds=150, threads=4, batches=[1, 2, 5, 16, 50])
    assert result["passed"], result["summary"]


def test_what_stays_alive_is_counted(load):
    before = load._alive()
    kept = small_network()
    assert load._alive()["layers"] - before["layers"] >= len(kept.layers)
