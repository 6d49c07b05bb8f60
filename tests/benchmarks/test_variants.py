import json

import pytest
import variants


@pytest.mark.slow
def test_a_variant_is_trained_and_tested_once(tmp_path, capsys):
    flags = ["cone=1.6", "--output", str(tmp_path), "--seeds", "1"]
    flags += ["--images", "60", "--test-images", "10", "--epochs", "1"]
    variants.main(flags)
    (run,) = json.loads((tmp_path / "results.json").read_text())["cone=1.6"]
    assert 0 < run["covariance"] < 1 and len(run["accuracy"]) == 17
    assert "| cone=1.6 |" in capsys.readouterr().out
    settings = json.loads((tmp_path / "cone=1.6_seed1" / "settings.json").read_text())
    assert (settings["cone"], settings["seed"], settings["training_images"]) == (1.6, 1, 60)


@pytest.mark.parametrize(
    "text, changes",
    [
        ("plain", {}),
        ("cone=1.6", {"cone": 1.6}),
        ("residual=True,readout=average", {"residual": True, "readout": "average"}),
        ("augment=(9.0,28.0),contrast=2", {"augment": (9.0, 28.0), "contrast": 2}),
    ],
)
def test_variants_are_fields_of_the_recipe(text, changes):
    assert variants.parse_variant(text) == changes


@pytest.mark.parametrize(
    "variant, message",
    [
        ("cones=2", "field of `Recipe`"),
        ("seed=3", "field of `Recipe`"),
        ("cone=wide", "`cone`"),
        ("epochs=0", "`epochs`"),  # of the variant, not the flag's
    ],
)
def test_mistakes_end_with_one_line(tmp_path, capsys, variant, message):
    with pytest.raises(SystemExit):
        variants.main([variant, "--epochs", "1", "--output", str(tmp_path / "out")])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_table_has_means_and_spreads():
    runs = [
        {"accuracy": {"1": 0.9}, "slope": 1.0, "covariance": 0.01},
        {"accuracy": {"1": 1.0}, "slope": None, "covariance": 0.02},
    ]
    row = variants.table({"cone=2": runs}, "size").splitlines()[-1]
    assert row == "| cone=2 | 95.00 (90.0–100.0) | 1.00 | 1.50 (1.0–2.0) |"
