import json

import cone
import pytest


@pytest.mark.slow
def test_a_width_is_trained_and_tested_once(tmp_path, capsys):
    flags = ["--output", str(tmp_path), "--cones", "1.6", "--seeds", "1"]
    flags += ["--images", "60", "--test-images", "10", "--epochs", "1"]
    cone.main(flags)
    (run,) = json.loads((tmp_path / "results.json").read_text())["1.6"]
    assert 0 < run["covariance"] < 1 and len(run["accuracy"]) == 17
    assert "| 1.6 |" in capsys.readouterr().out
    settings = json.loads((tmp_path / "cone1.6_seed1" / "settings.json").read_text())
    assert (settings["cone"], settings["seed"], settings["training_images"]) == (1.6, 1, 60)


def test_table_has_means_and_spreads():
    runs = [
        {"accuracy": {"1": 0.9}, "slope": 1.0, "covariance": 0.01},
        {"accuracy": {"1": 1.0}, "slope": None, "covariance": 0.02},
    ]
    row = cone.table({"2": runs}, "size").splitlines()[-1]
    assert row == "| 2 | 95.00 (90.0–100.0) | 1.00 | 1.50 (1.0–2.0) |"
