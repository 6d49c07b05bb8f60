"""Maps of heat over the scale channels."""

import numpy as np

from gdn_keras.detection import heat_maps
from gdn_keras.scale_space import PointGrid

GRIDS = (PointGrid(1.0, 2.0, 3, 4), PointGrid(2.0, 4.0, 2, 2))


def test_each_point_is_in_its_place():
    logits = np.full((2, 16, 5), -9.0, "float32")
    logits[0, 7, 1] = 2.0  # row 1 and column 3 of the first channel
    logits[1, 12 + 2, 0] = 1.0  # row 1 and column 0 of the second
    logits[..., 3:] = 9.0  # boxes, which are no scores
    first, second = heat_maps(logits, GRIDS, (8, 8), num_classes=3)
    assert first.shape == (2, 3, 4) and second.shape == (2, 2, 2)
    expected = 1 / (1 + np.exp([-2.0, -1.0]))
    np.testing.assert_allclose([first[0, 1, 3], second[1, 1, 0]], expected, rtol=1e-5)
    assert np.sum(first > 0.1) + np.sum(second > 0.1) == 2
    # In a smaller image, a row and two columns on either side lie beyond it.
    first, second = heat_maps(logits, GRIDS, (3, 5), num_classes=3)
    assert first.shape == (2, 1, 2) and second.shape == (2, 0, 2)
