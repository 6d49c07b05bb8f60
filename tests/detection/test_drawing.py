"""Pictures with boxes."""

import numpy as np

from gdn_keras.detection import draw_boxes


def test_boxes_are_drawn_where_they_are():
    found = {
        "boxes": np.array([[5, 6, 20, 25], [-1, -1, -1, -1]], "float32"),
        "labels": np.array([1, -1]),
        "confidence": np.array([0.5, -1]),
        "names": np.array(["b", ""]),
    }
    for channels in (1, 3):
        blank = np.zeros((40, 50, channels), "uint8")
        picture = np.asarray(draw_boxes(blank, found, scale=2))
        assert picture.shape == (80, 100, 3)
        assert picture[12:50, 10].any(axis=1).all() and picture[50, 10:40].any(axis=1).all()
        assert not picture[55:].any()
    nothing = {"boxes": np.zeros((0, 4)), "labels": np.zeros(0, int)}
    assert not np.asarray(draw_boxes(blank, nothing)).any()
