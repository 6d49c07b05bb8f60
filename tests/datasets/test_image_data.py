import dataclasses

import numpy as np
import pytest

from gdn_keras.datasets import (
    ImageData,
    LabelledImages,
    catalogue,
    dataset_names,
    load_dataset,
    register_dataset,
    registry,
)


def labelled(count=4, classes=2):
    return LabelledImages(np.zeros((count, 5, 6, 3), "uint8"), np.arange(count) % classes)


def data(**changes):
    parts = {"train": labelled(), "validation": labelled(2), "test": lambda size: labelled()}
    rest = {"name": "dots", "test_sizes": (1, 2), "class_names": ("one", "two")}
    return ImageData(**{**parts, **rest, **changes})


@pytest.fixture
def loaders(monkeypatch):
    """The registry, as it was before."""
    dataset_names()
    monkeypatch.setattr(registry, "_LOADERS", dict(registry._LOADERS))


def test_images_unpack():
    images, labels = labelled()
    assert images.shape == (4, 5, 6, 3) and labels.tolist() == [0, 1, 0, 1]


def test_labels_may_be_a_list():
    assert LabelledImages(np.zeros((2, 5, 5, 1)), [0, 1]).labels.dtype.kind == "i"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 5, 5)), [0, 1], r"`images` must be numbers .* shape \(2, 5, 5\)"),
        (np.zeros((2, 5, 5, 1), "U1"), [0, 1], "`images` must be numbers .* dtype <U1"),
        ([[[[1]]]], [0], r"`images` must be numbers .* shape \(\)"),
        (np.zeros((2, 5, 5, 1)), [0], r"one for each of the 2 images. Received: shape \(1,\)"),
        (np.zeros((2, 5, 5, 1)), [0.0, 1.0], "must be integers.* dtype float64"),
    ],
)
def test_bad_images(images, labels, message):
    with pytest.raises(ValueError, match=message):
        LabelledImages(images, labels)


def test_data_are_plain_and_frozen():
    dots = data(test_sizes=np.array([1, 2]), class_names=["one", "two"])
    assert dots.test_sizes == (1.0, 2.0) and dots.class_names == ("one", "two")
    assert dots.preprocessor is None and dots.size_name == "size"
    with pytest.raises(dataclasses.FrozenInstanceError):
        dots.name = "other"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_names": ("one", "one")}, "`class_names` must be different"),
        ({"class_names": ("one",)}, r"`train.labels` must lie in \[0, 1\).* from 0 to 1"),
        ({"validation": labelled(3, 3)}, r"`validation.labels` must lie in \[0, 2\)"),
        ({"validation": labelled(0)}, "`validation` must hold images. Received: none"),
    ],
)
def test_bad_data(changes, message):
    with pytest.raises(ValueError, match=message):
        data(**changes)


def test_a_data_set_of_the_users_own(loaders, tmp_path):
    @register_dataset("dots")
    def load_dots(directory=None, *, size_name="size"):
        return data(size_name=f"{size_name} in {directory}")

    assert "dots" in dataset_names()
    assert load_dataset("dots", "here", size_name="metres").size_name == "metres in here"


def test_a_file_in_the_catalogue_is_a_data_set(loaders, tmp_path, monkeypatch):
    (tmp_path / "dots_in_a_file.py").write_text(
        "from gdn_keras.datasets import register_dataset\n"
        "@register_dataset('dots_in_a_file')\n"
        "def load(directory=None, **options):\n"
        "    return options\n"
    )
    monkeypatch.setattr(catalogue, "__path__", [*catalogue.__path__, str(tmp_path)])
    assert "dots_in_a_file" in dataset_names()
    assert load_dataset("dots_in_a_file", frame=5) == {"frame": 5}


def test_a_name_is_given_once(loaders):
    def load_dots(directory=None):
        return data()

    def load_others(directory=None):
        return data()

    register_dataset("dots")(load_dots)
    register_dataset("dots")(load_dots)  # as when a module is loaded again
    with pytest.raises(ValueError, match=r"taken by another data set.*name='dots'.*load_dots"):
        register_dataset("dots")(load_others)


def test_unknown_name():
    with pytest.raises(ValueError, match=r"`name` must be one of .* Received: name='nothing'"):
        load_dataset("nothing")
