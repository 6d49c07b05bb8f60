import csv

import plain_cnn
import pytest


def test_trains_tests_and_draws(tmp_path):
    few = ["--epochs", "6", "--digits", "500", "--test-digits", "20"]
    plain_cnn.main(["--output", str(tmp_path), *few])
    with open(tmp_path / "plain_cnn.csv") as file:
        rows = {
            round(float(row["size"]), 3): float(row["accuracy"]) for row in csv.DictReader(file)
        }
    assert len(rows) == 17
    assert rows[2.0] > 0.3  # it has learned something where it was trained
    assert (tmp_path / "plain_cnn.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--epochs", "0"], "`epochs`"),
        (["--digits", "1000000"], "1000000"),
        (["--compare", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_end_with_one_line(tmp_path, capsys, flags, message):
    with pytest.raises(SystemExit):
        plain_cnn.main(["--output", str(tmp_path), *flags])
    assert message in capsys.readouterr().err
