import latency
import numpy as np
import pytest


@pytest.mark.slow
def test_formats_side_by_side(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tf2onnx")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    arguments = ["--preset", "mnist", "--threads", "1", "--turns", "1", "--calls", "3", "--output"]
    latency.main([*arguments, str(tmp_path / "new")])
    table = (tmp_path / "new" / "latency.md").read_text()
    assert all(f"| {name} | 1 |" in table for name in latency.FORMATS.values())
    assert table.endswith(capsys.readouterr().out.rstrip("\n") + "\n")


def test_best_and_median_over_turns():
    turns = [{"best": 2.0, "median": 3.0, "start": 9}, {"best": 1.0, "median": 5.0, "start": 7}]
    assert "| LiteRT | 2 | 1.00 | 4.00 | 7 |" in latency.describe({("litert", 2): turns}, 10)


def test_formats_that_differ_are_an_error():
    same = {("onnx", 1): [{"logits": [1.0, 2.0]}], ("litert", 1): [{"logits": [1.0, 2.00001]}]}
    latency._check_equal(same)
    same["litert", 1][0]["logits"] = list(np.array([1.0, 2.1]))
    with pytest.raises(RuntimeError, match="differ"):
        latency._check_equal(same)


def test_a_folder_is_needed(capsys):
    with pytest.raises(SystemExit):
        latency.main([])
    assert "--output is needed" in capsys.readouterr().err
