import dataclasses
import os

import keras
import pytest

from gdn_keras.datasets import LabelledImages
from gdn_keras.training.classification_task import describe_data
from gdn_keras.training.run_folder import (
    load_network,
    open_run,
    read_results,
    read_settings,
    replacing,
    write_text,
)


def test_a_folder_is_opened_again_by_equal_settings_only(tmp_path, tiny):
    folder = open_run(tiny.as_dict(), tmp_path / "a" / "b")
    assert read_settings(folder) == tiny.as_dict()
    assert open_run(tiny.as_dict(), folder) == folder
    other = {**tiny.as_dict(), "epochs": 9, "seed": 4}
    with pytest.raises(ValueError, match="epochs is 3 there and 9 now, seed is 0 there and 4 now"):
        open_run(other, folder)
    with pytest.raises(ValueError, match="Give another `folder`, or repeat"):
        open_run(other, folder)
    assert read_settings(folder) == tiny.as_dict()


def test_other_images_are_other_settings(tmp_path, data):
    described = describe_data(data)
    open_run(described, tmp_path)
    other = dataclasses.replace(data, test=lambda size: LabelledImages(*data.validation))
    swapped = describe_data(other)
    assert swapped["training_checksum"] == described["training_checksum"]
    with pytest.raises(ValueError, match="test_checksum is"):
        open_run(swapped, tmp_path)


def test_a_folder_that_cannot_be_written_to(tmp_path, tiny):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"`folder` must be one .* cannot be written to"):
        open_run(tiny.as_dict(), tmp_path / "file")
    with pytest.raises(OSError, match=r"`folder` must be one .* cannot be written to"):
        open_run(tiny.as_dict(), tmp_path / "file" / "below")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path, tiny):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match=r"`folder` must be one .* cannot be written to"):
        open_run(tiny.as_dict(), tmp_path)


def test_damaged_settings_and_missing_results(tmp_path, tiny):
    with pytest.raises(ValueError, match="no finished run"):
        read_results(tmp_path, "accuracy.json")
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        open_run(tiny.as_dict(), tmp_path)


def test_files_are_whole_or_not_there(tmp_path):
    file = tmp_path / "text.md"
    write_text(file, "old")
    with pytest.raises(RuntimeError), replacing(file) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert file.read_text() == "old"
    write_text(file, "new")
    assert file.read_text() == "new"
    assert [f.name for f in tmp_path.iterdir()] == ["text.md"]


def test_folders_are_whole_or_not_there(tmp_path):
    def make(fail=False):
        with replacing(tmp_path / "made") as path:
            path.mkdir()
            (path / "part").write_text("x")
            if fail:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        make(fail=True)
    assert list(tmp_path.iterdir()) == []
    make()
    make()
    assert [f.name for f in tmp_path.rglob("*")] == ["made", "part"]


def test_a_damaged_network_is_said_to_be_one(tmp_path):
    file = tmp_path / "model.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(300)]).save(file)
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = bytes(200)
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"model.keras cannot be loaded as a network \("):
        load_network(file)
