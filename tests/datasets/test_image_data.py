import dataclasses

import numpy as np
import pytest

from gdn_keras.datasets import (
    ImageData,
    LabelledImages,
    concatenate,
    dataset_names,
    image_data,
    load_dataset,
    register_dataset,
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
    monkeypatch.setattr(image_data, "_LOADERS", dict(image_data._LOADERS))


def test_images_unpack():
    images, labels = labelled()
    assert images.shape == (4, 5, 6, 3) and labels.tolist() == [0, 1, 0, 1]


def test_labels_may_be_a_list():
    assert LabelledImages(np.zeros((2, 5, 5, 1)), [0, 1]).labels.dtype.kind == "i"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 5, 5)), [0, 1], "`images`"),
        (np.zeros((2, 5, 5, 1), "U1"), [0, 1], "`images`"),
        ([[[[1]]]], [0], "`images`"),
        (np.zeros((2, 5, 5, 1)), [0], "`labels`"),
        (np.zeros((2, 5, 5, 1)), [0.0, 1.0], "`labels`"),
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
        ({"class_names": ("one", "one")}, "`class_names`"),
        ({"class_names": ("one",)}, "`train.labels`"),
        ({"validation": labelled(3, 3)}, "`validation.labels`"),
        ({"validation": labelled(0)}, "`validation`"),
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


def test_a_name_is_given_once(loaders):
    def load_dots(directory=None):
        return data()

    def load_others(directory=None):
        return data()

    register_dataset("dots")(load_dots)
    register_dataset("dots")(load_dots)  # as when a module is loaded again
    with pytest.raises(ValueError, match="load_dots"):
        register_dataset("dots")(load_others)


def test_unknown_name():
    with pytest.raises(ValueError, match="nothing"):
        load_dataset("nothing")


def test_several_sets_as_one():
    parts = [np.arange(12, dtype="uint8").reshape(3, 2, 2, 1), np.ones((2, 2, 2, 1), "uint8")]
    joined = concatenate([LabelledImages(part, np.zeros(len(part), int)) for part in parts])
    expected = np.concatenate(parts)
    np.testing.assert_array_equal(joined.images, expected)
    np.testing.assert_array_equal(joined.images[[4, 0, 2]], expected[[4, 0, 2]])
