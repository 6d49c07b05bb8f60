import time

import pytest

from tests.reliability import faults
from tests.reliability.faults import Training

needs_mounting = pytest.mark.skipif(
    not faults.can_mount(), reason="file systems cannot be mounted here (unshare -rm)"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing happened to, and the seconds that it took."""
    training = Training(tmp_path_factory.mktemp("finished"))
    began = time.monotonic()
    ended = training.run()
    assert ended.code == 0, ended.said
    return training, time.monotonic() - began


@pytest.fixture(scope="module")
def expected(finished):
    return finished[0].outcome()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was killed after half of its epochs."""
    training = Training(tmp_path_factory.mktemp("stopped"))
    training.stop_after(3)
    return training


@pytest.mark.parametrize("kills", [3, pytest.param(25, marks=pytest.mark.slow)])
def test_killed_runs_end_as_if_they_had_not_been(finished, expected, tmp_path, kills):
    done = faults.kill_repeatedly(tmp_path, expected, kills, duration=finished[1])
    assert len(done) == kills
    assert {"making the data set", "writing last.keras"} <= {name for name, half in done if half}


def test_files_that_were_cut_are_found_and_mended(finished, expected, stopped, tmp_path):
    faults.damage_finished(finished[0], tmp_path / "a", expected, faults.MENDED, "half")
    damaged = next(faults.damage_stopped(stopped, tmp_path / "b", expected, ["half"]))
    assert damaged == ("last.keras", "half")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), faults.FINISHED_DAMAGES)
def test_damage_to_finished_runs(finished, expected, tmp_path, name, kind):
    faults.damage_finished(finished[0], tmp_path / "run", expected, [name], kind)


@pytest.mark.slow
def test_damage_to_stopped_runs(stopped, expected, tmp_path):
    assert len(list(faults.damage_stopped(stopped, tmp_path, expected))) == 7


@pytest.mark.parametrize("to_the_end", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_that_cannot_be_written(stopped, expected, tmp_path, to_the_end):
    training = stopped.copy(tmp_path / "x")
    epochs = training.epochs()
    ended = training.run(file_size=30_000)
    assert ended.code == 1 and "Traceback" not in ended.said
    assert "File too large" in ended.sentence and ".keras" in ended.sentence
    assert f"holds the network after epoch {epochs} " in ended.sentence
    assert training.epochs() == epochs
    if to_the_end:
        assert training.run().code == 0
        assert training.outcome() == expected


@pytest.mark.slow
@needs_mounting
def test_full_disks(stopped, expected, tmp_path):
    disks = faults.fill_disk(stopped, tmp_path, expected, faults.DISKS)
    sentences = [sentence for _, sentence in disks]
    assert len(sentences) == len(faults.DISKS)
    assert any("No epoch was complete" in s for s in sentences)
    assert any("what comes after the training" in s for s in sentences)


@pytest.mark.slow
@needs_mounting
def test_read_only_folders(finished, stopped, expected, tmp_path):
    training = finished[0].copy(tmp_path / "run")
    before = faults.snapshot(training.folder)
    ended = faults.run_read_only(training, training.folder)
    faults.require_refusal(training, ended, before, "cannot be written to")

    training = stopped.copy(tmp_path / "cache that is there")
    assert faults.run_read_only(training, training.cache).code == 0
    assert training.outcome() == expected

    training = Training(tmp_path / "no cache")
    ended = faults.run_read_only(training, training.cache)
    faults.require_refusal(training, ended, {}, "Read-only file system")


@pytest.mark.slow
def test_a_folder_that_disappears(stopped, expected, tmp_path):
    training = stopped.copy(tmp_path / "x")
    process = training.start()
    while training.epochs() < 4:
        time.sleep(0.001)
    training.folder.rename(tmp_path / "elsewhere")
    process.join()
    ended = training.ended(process)
    assert ended.code == 1 and "Traceback" not in ended.said
    assert "No such file or directory" in ended.sentence
    assert not training.folder.exists()
    (tmp_path / "elsewhere").rename(training.folder)
    assert training.run().code == 0
    assert training.outcome() == expected
