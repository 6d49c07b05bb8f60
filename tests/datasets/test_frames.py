"""Pictures and objects in frames, as training and prediction see them."""

import numpy as np
import pytest

from gdn_keras.datasets import light_on_dark, place_in_frame, place_object

FRAME = (56, 48)


def random_picture(height, width, channels=3):
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), "uint8")


@pytest.mark.parametrize("shape", [(20, 31, 3), (56, 48, 1), (7, 47, 1)])
def test_pictures_that_fit_keep_their_pixels(shape):
    picture = random_picture(*shape)
    placed, shrink = place_in_frame(picture, FRAME)
    assert shrink == 1 and placed.shape == (*FRAME, shape[2])
    top, left = ((m - n) // 2 for n, m in zip(shape[:2], FRAME, strict=True))
    inside = placed[top : top + shape[0], left : left + shape[1]]
    np.testing.assert_array_equal(inside, picture)
    np.testing.assert_array_equal(placed[0, left : left + shape[1]], picture[0])
    np.testing.assert_array_equal(placed[top : top + shape[0], -1], picture[:, -1])


@pytest.mark.parametrize("shape", [(1, 900), (700, 2), (300, 400), (57, 48)])
def test_larger_pictures_are_shrunk_until_they_fit(shape):
    placed, shrink = place_in_frame(np.full((*shape, 1), 77, "uint8"), FRAME)
    assert placed.shape == (*FRAME, 1) and (placed == 77).all()
    assert shrink == max(n / m for n, m in zip(shape, FRAME, strict=True))


def test_all_of_a_large_picture_is_seen():
    picture = np.zeros((400, 300, 3), "uint8")
    picture[:, :150] = 200
    placed = place_in_frame(picture, (40, 60))[0][..., 0]
    # The picture is 30 pixels wide, its left half light, and its edges are continued.
    assert (placed[:, :27] == 200).all() and (placed[:, 33:] == 0).all()


def test_objects_are_centered_and_shrunk_only_if_need_be():
    frame = (56, 56)
    pixels = np.zeros((90, 140, 1), "uint8")
    pixels[3:13, 100:120] = 255
    small, shrink = place_object(pixels, frame)
    assert shrink == 1
    expected = np.zeros((*frame, 1))
    expected[23:33, 18:38] = 255
    np.testing.assert_array_equal(small, expected)
    large, shrink = place_object(np.kron(pixels, np.ones((7, 7, 1), "uint8")), frame)
    assert shrink == pytest.approx(140 / 40)
    rows, columns, _ = np.nonzero(large > 127)
    assert (rows.min() + rows.max(), columns.min() + columns.max()) == (55, 55)
    assert (np.ptp(columns) + 1, np.ptp(rows) + 1) == (40, 20)
    with pytest.raises(ValueError, match="nothing stands out"):
        place_object(np.full((40, 40, 1), 200, "uint8"), frame)


def test_the_edge_decides_what_is_inverted():
    paper = np.full((20, 30, 1), 240, "uint8")
    paper[2:18, 2:28] = 10  # most of the picture
    pixels, inverted = light_on_dark(paper)
    assert inverted and pixels[0, 0, 0] == 15 and pixels[10, 10, 0] == 245
    again, inverted = light_on_dark(pixels)
    assert not inverted and again is pixels
