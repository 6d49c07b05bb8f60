"""Sizes do not depend on how digits are drawn."""

import numpy as np
import pytest
from scipy import ndimage

import gdn_keras
from gdn_keras.datasets import load_embedded_digits, rescale_images


def scenes(rendering, blur, count=80):
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


@pytest.mark.parametrize("blur", [0.0, 0.5])
@pytest.mark.parametrize("rendering", ["raw", "large scale"])
def test_the_median_size_of_digits_is_their_own(rendering, blur):
    detector = gdn_keras.from_preset("digit_detector")
    found = detector.predict(scenes(rendering, blur), batch_size=20, verbose=0)
    best = found["size"][found["num_detections"] > 0, 0] / detector.extent
    assert len(best) > 70
    assert np.median(best) == pytest.approx(1, abs=0.04)
    assert np.median(np.abs(best - 1)) < 0.04
