import numpy as np
import pytest

from gdn_keras.datasets import place_in_frame, rescale_photographs
from gdn_keras.datasets.photographs import FramedPictures, crop_about


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), "uint8")


def test_crops_keep_pixels_and_continue_the_edge():
    original = picture(30, 40)
    np.testing.assert_array_equal(crop_about(original, 5, (10, 12)), original[8:13, 10:15])
    np.testing.assert_array_equal(crop_about(original, 4, (9.5, 12.5)), original[8:12, 11:15])
    corner = crop_about(original, 5, (0, 0))
    assert (corner[:3, :3] == original[0, 0]).all()


def test_framed_pictures_are_indexed_like_an_array():
    pictures = [picture(5 + k, 9, seed=k) for k in range(6)]
    framed = FramedPictures(pictures, 8)
    array = np.stack([place_in_frame(p, (8, 8))[0] for p in pictures])
    assert framed.shape == array.shape and framed.dtype == np.uint8 and len(framed) == 6
    np.testing.assert_array_equal(framed, array)
    for index in (2, -1, slice(1, 4), np.array([3, 3, 0]), np.array([[1], [2]]), slice(0, 0)):
        np.testing.assert_array_equal(framed[index], array[index])
    with pytest.raises(IndexError):
        framed[6]


def test_size_one_keeps_pixels_and_mirrors_beyond():
    images = np.stack([picture(8, 8, seed) for seed in range(3)])
    expected = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(rescale_photographs(images, 1, 16), expected)


def test_rescaled_and_back():
    """A smooth picture made larger and looked at from afar is the same."""
    y, x = np.mgrid[:32, :32]
    smooth = 128 + 60 * np.sin(x / 5)[..., None] * np.cos(y / 6)[..., None]
    image = np.rint(smooth).astype("uint8")[None]
    larger = rescale_photographs(image, 2, 64)
    back = rescale_photographs(larger, 0.5, 32)
    assert np.abs(back.astype(int) - image)[:, 2:-2, 2:-2].max() <= 6


def test_smaller_pictures_do_not_alias():
    """Stripes that are too fine for the smaller picture lose their contrast."""
    stripes = np.zeros((1, 32, 32, 1), "uint8")
    stripes[:, :, ::2] = 255
    inner = rescale_photographs(stripes, 0.5, 16)[0, 4:-4, 4:-4, 0]
    assert np.ptp(inner) < 40 and abs(inner.mean() - 127) < 4
