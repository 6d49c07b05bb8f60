import argparse

import pytest
import read_outs


@pytest.mark.parametrize("way", ["points", "pyramid"])
def test_points_of_ours_and_of_a_pyramid(way, monkeypatch):
    monkeypatch.setattr(read_outs, "best", lambda run: float(run().numpy() != 0))
    found = read_outs.measure(way, height=48, width=64, channels=2, batch=1)
    assert found["forward"] == found["training"] == 1 and found["memory"] >= 0


def test_sizes():
    assert read_outs.size("64") == (64, 64)
    assert read_outs.size("640x480") == (640, 480)
    for text in ("0", "640x", "a"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"Received: {text}"):
            read_outs.size(text)
