import json

import pytest
import surround


def test_small_run(tmp_path, monkeypatch):
    monkeypatch.setattr(surround, "SIZES", (2.0, 8.0))
    monkeypatch.setattr(surround, "SURROUNDS", (0.0, 0.5))
    surround.main(["--networks", "default_size1", "--digits", "100", "--output", str(tmp_path)])
    results = json.loads((tmp_path / "results.json").read_text())
    plain, continued = (results[f"default_size1, {share}"] for share in ("0", "0.5"))
    assert plain["accuracy"]["2"] == continued["accuracy"]["2"] > 0.95
    assert plain["accuracy"]["8"] < continued["accuracy"]["8"] > 0.9
    assert min(plain["milliseconds"], continued["milliseconds"]) > 0
    table = (tmp_path / "table.md").read_text().splitlines()
    assert table[0] == "| network, surround | 2 | 8 | ms per image |" and len(table) == 4


@pytest.mark.parametrize("flags", [["--digits", "0"], ["--mnist-dir", "nowhere"]])
def test_mistakes_end_with_one_line(tmp_path, capsys, flags):
    with pytest.raises(SystemExit):
        surround.main(["--output", str(tmp_path), *flags])
    assert flags[1] in capsys.readouterr().err.splitlines()[-1]
