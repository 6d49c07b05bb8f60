"""Pictures as a detector takes them: light on dark, in a frame."""

import numpy as np
import pytest

from gdn_keras.detection import light_on_dark, place_in_frame


def test_the_edge_decides_what_is_inverted():
    paper = np.full((20, 30, 1), 240, "uint8")
    paper[2:18, 2:28] = 10  # most of the picture
    pixels, inverted = light_on_dark(paper)
    assert inverted and pixels[0, 0, 0] == 15 and pixels[10, 10, 0] == 245
    again, inverted = light_on_dark(pixels)
    assert not inverted and again is pixels


@pytest.mark.parametrize("channels", [1, 3])
def test_rescaled_about_the_center(channels):
    pixels = np.full((40, 60, channels), 20, "uint8")
    pixels[15:25, 20:40] = 220
    for factor in (0.5, 1, 2):
        frame = place_in_frame(pixels, (40, 60), factor)
        assert frame.shape == (40, 60, channels)
        light = frame[..., 0] / 200 - 0.1
        y, x = np.argwhere(light > 0.4).mean(axis=0)
        assert abs(y - 19.5) < 0.6 and abs(x - 29.5) < 0.6
        assert light.sum() == pytest.approx(200 * factor**2, rel=0.1)
        assert (frame[0, 0] == 20).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (700, 2), (3000, 4000), (41, 59)])
@pytest.mark.parametrize("factor", [0.25, 1.0, 2.0])
def test_pictures_of_any_shape(shape, factor):
    frame = place_in_frame(np.full((*shape, 1), 77, "uint8"), (42, 56), factor)
    assert frame.shape == (42, 56, 1) and (frame == 77).all()


def test_large_pictures_are_reduced_to_fit():
    pixels = np.zeros((400, 300, 1), "uint8")
    pixels[:, :150] = 200
    frame = place_in_frame(pixels, (40, 60))[..., 0]
    # The picture is 30 pixels wide, its left half light; the frame has the colour of its edge.
    assert (frame[:, 17:28] == 200).all() and (frame[:, 32:44] == 0).all()


def test_a_factor_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="`factor` must be a positive"):
        place_in_frame(np.zeros((4, 4, 1), "uint8"), (4, 4), 0)
