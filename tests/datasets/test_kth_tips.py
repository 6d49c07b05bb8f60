import numpy as np
import pytest

from gdn_keras.datasets import load_dataset

Image = pytest.importorskip("PIL.Image")

MATERIALS = ("cork", "cotton")


@pytest.fixture
def directory(tmp_path):
    """Pictures whose pixels are 10 times the distance plus the number, in sizes that differ."""
    for k, material in enumerate(MATERIALS):
        (tmp_path / material).mkdir()
        for distance in range(1, 10):
            for number in range(1, 10):
                pixels = np.full((30 + 5 * k, 40 - distance), 10 * distance + number, "uint8")
                name = f"{46 + k}-scale_{distance}_im_{number}_grey.png"
                Image.fromarray(pixels).save(tmp_path / material / name)
    return tmp_path


def contents(part):
    return sorted({int(value) for value in np.unique(part.images)})


def test_splits(directory):
    data = load_dataset("kth_tips", directory, frame=20, crops=2)
    assert data.class_names == MATERIALS and data.size_name == "distance (1 nearest)"
    assert data.train.images.shape == (2 * 3 * 5 * 4, 20, 20, 1)
    assert contents(data.train) == [10 * d + n for d in (4, 5, 6) for n in (1, 2, 3, 4, 6)]
    assert contents(data.validation) == [45, 55, 65]
    assert data.test_sizes == tuple(range(1, 10))
    assert contents(data.test(9)) == [97, 98, 99]
    assert data.test(9).labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.bincount(data.train.labels).tolist() == [60, 60]
    assert data.train_sizes == (4, 5, 6)
    validation = load_dataset("kth_tips", directory, frame=20, test_split="validation")
    assert contents(validation.test(9)) == [95]


def test_crops(tmp_path):
    (tmp_path / "cork").mkdir()
    picture = np.arange(100, dtype="uint8").reshape(10, 10)
    for number in (1, 5, 7):
        Image.fromarray(picture).save(tmp_path / "cork" / f"1-scale_4_im_{number}_grey.png")
    data = load_dataset("kth_tips", tmp_path, frame=4, crops=3, train_distances=(4,))
    np.testing.assert_array_equal(data.test(4).images[0, ..., 0], picture[3:7, 3:7])
    corners = data.train.images[:, 0, 0, 0].reshape(3, 3)
    np.testing.assert_array_equal(corners, [[11, 13, 15], [31, 33, 35], [51, 53, 55]])


def test_frame_that_is_too_large(directory):
    with pytest.raises(ValueError, match=r"`frame` must be at most 30, .*cork.* frame=31"):
        load_dataset("kth_tips", directory, frame=31)


def test_no_such_distance(directory):
    with pytest.raises(ValueError, match=r"no images of distances \(12,\)"):
        load_dataset("kth_tips", directory, frame=20, train_distances=(12,))


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file NN-scale_S_im_I_grey.png"):
        load_dataset("kth_tips", tmp_path)
    with pytest.raises(FileNotFoundError, match="each material of KTH-TIPS"):
        load_dataset("kth_tips", tmp_path / "nowhere")
