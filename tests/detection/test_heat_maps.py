"""Maps of heat over the scale channels."""

import numpy as np

from gdn_keras.detection import Detector, draw_heat_maps, heat_maps
from gdn_keras.detection.heat_maps import _coarser
from gdn_keras.scale_space import PointGrid
from tests.detection.networks import tiny_network

GRIDS = (PointGrid(1.0, 2.0, 3, 4), PointGrid(2.0, 4.0, 2, 2))


def test_each_point_is_in_its_place():
    logits = np.full((2, 16, 5), -9.0, "float32")
    logits[0, 7, 1] = 2.0  # row 1 and column 3 of the first channel
    logits[1, 12 + 2, 0] = 1.0  # row 1 and column 0 of the second
    logits[..., 3:] = 9.0  # boxes, which are no scores
    first, second = heat_maps(logits, GRIDS, num_classes=3)
    assert first.shape == (2, 3, 4) and second.shape == (2, 2, 2)
    expected = 1 / (1 + np.exp([-2.0, -1.0]))
    np.testing.assert_allclose([first[0, 1, 3], second[1, 1, 0]], expected, rtol=1e-5)
    assert np.sum(first > 0.1) + np.sum(second > 0.1) == 2


def test_of_a_detector():
    detector = Detector(tiny_network(2), num_classes=2)
    images = np.random.default_rng(0).integers(0, 255, (1, 40, 56, 1), "uint8")
    grids, shape = detector.point_grids(images)
    maps = heat_maps(detector(images), grids, 2)
    assert [channel.shape[1:] for channel in maps] == [(g.rows, g.columns) for g in grids]
    picture = draw_heat_maps([channel[0] for channel in maps], grids, shape, width=3)
    assert picture.mode == "RGB" and picture.width == 600


def test_a_hot_channel_is_the_lightest_part_of_the_picture():
    maps = [np.zeros((3, 4)), np.zeros((2, 2))]
    dark = np.asarray(draw_heat_maps(maps, GRIDS, (6, 8), width=4), "int32")
    maps[1][:] = 1.0
    hot = np.asarray(draw_heat_maps(maps, GRIDS, (6, 8), width=4), "int32")
    changed = np.abs(hot - dark).sum(axis=(0, 2))
    half = len(changed) // 2
    assert changed[half:].sum() > 50 * changed[:half].sum()


def test_narrow_peaks_stay():
    heat = np.zeros((70, 100))
    heat[33, 99] = 1
    small, step = _coarser(heat, 2.0)
    assert max(small.shape) <= 48 and small.max() == 1 and np.sum(small) == 1
    row, column = np.argwhere(small)[0]
    # The same place, from the centre of the map.
    for place, count, cell, cells in ((33, 70, row, 24), (99, 100, column, 34)):
        assert small.shape == (24, 34)
        assert abs((cell - (cells - 1) / 2) * step - (place - (count - 1) / 2) * 2.0) <= step
