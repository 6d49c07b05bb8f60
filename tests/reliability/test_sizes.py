"""Sizes do not depend on how digits are drawn."""

import itertools

import numpy as np
import pytest
from scipy import ndimage

import gdn_keras
from gdn_keras.datasets import load_embedded_digits, rescale_images

COUNT = 40
CASES = tuple(itertools.product(("raw", "large scale"), (0.0, 0.5)))


def scenes(rendering, blur, count=COUNT):
    """One test digit in each frame, as files of others have them."""
    digits = load_embedded_digits().x_test[:count]
    if rendering == "large scale":
        digits = rescale_images(digits, 1.0, (40, 40))
    frames = np.zeros((count, 72, 72), "float32")
    top = (72 - digits.shape[1]) // 2
    frames[:, top : top + digits.shape[1], top + 3 : top + 3 + digits.shape[2]] = digits
    if blur:
        frames = ndimage.gaussian_filter(frames, (0, blur, blur))
    return np.rint(np.clip(frames, 0, 255)).astype("uint8")[..., None]


@pytest.fixture(scope="module")
def sizes():
    """Of the best detections, by case: all in one call, because each traces the network anew."""
    detector = gdn_keras.from_preset("digit_detector")
    images = np.concatenate([scenes(*case) for case in CASES])
    found = detector.predict(images, batch_size=COUNT, verbose=0)
    best = np.where(found["num_detections"] > 0, found["size"][:, 0] / detector.extent, np.nan)
    return {
        case: part[~np.isnan(part)] for case, part in zip(CASES, np.split(best, 4), strict=True)
    }


@pytest.mark.parametrize("case", CASES)
def test_the_median_size_of_digits_is_their_own(case, sizes):
    best = sizes[case]
    assert len(best) > 0.875 * COUNT
    assert np.median(best) == pytest.approx(1, abs=0.04)
    assert np.median(np.abs(best - 1)) < 0.04
