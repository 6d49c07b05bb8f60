import pytest
import startup


@pytest.mark.slow
def test_phases_beside_plain_keras(tmp_path, capsys):
    startup.main(["--turns", "1", "--output", str(tmp_path / "new")])
    table = (tmp_path / "new" / "startup.md").read_text()
    assert all(f"| {phase} |" in table for phase in startup.PHASES)
    assert table.endswith(capsys.readouterr().out.rstrip("\n") + "\n")


def test_the_best_of_the_turns_counts():
    turns = [dict.fromkeys(startup.PHASES, seconds) for seconds in (5.0, 3.0)]
    plain = [dict.fromkeys(startup.PHASES, seconds) for seconds in (2.0, 4.0)]
    table = startup.describe({"gdn_keras": turns, "keras": plain})
    assert "| import | 3.00 | 2.00 | 1.50 | +1.00 |" in table


def test_a_folder_is_needed(capsys):
    with pytest.raises(SystemExit):
        startup.main([])
    assert "--output is needed" in capsys.readouterr().err
