"""Contrast by percentiles."""

import numpy as np
import pytest

from gdn_keras.layers import ContrastStretch
from tests.harness import run_layer_test

IMAGES = np.random.default_rng(0).gamma(2.0, 20.0, (3, 40, 52, 3)).astype("float32")


def test_harness(tmp_path):
    shape = (2, 9, 12, 3)
    run_layer_test(tmp_path, lambda **kw: ContrastStretch(**kw), shape, shape, (0, 0))


def test_percentiles_of_each_image_become_minus_one_and_one():
    found = np.asarray(ContrastStretch(5, 90)(IMAGES))
    for image, stretched in zip(IMAGES, found, strict=True):
        low, high = np.percentile(image, [5, 90])
        expected = np.clip(2 * (image - low) / (high - low) - 1, -1, 1)
        np.testing.assert_allclose(stretched, expected, atol=0.01)


def test_brightness_and_contrast_make_no_difference_and_flat_images_are_finite():
    layer = ContrastStretch()
    np.testing.assert_allclose(layer(0.1 * IMAGES + 7), layer(IMAGES), atol=1e-4)
    assert np.isfinite(np.asarray(layer(np.full((1, 8, 8, 1), 9, "uint8")))).all()


def test_parts_are_stretched_as_the_whole():
    layer = ContrastStretch()
    part = layer.fixed(IMAGES[:1])(IMAGES[:1, 10:20])
    np.testing.assert_allclose(part, np.asarray(layer(IMAGES[:1]))[:, 10:20])


def test_the_order_of_percentiles_is_checked():
    with pytest.raises(ValueError, match="increasing order"):
        ContrastStretch(50, 20)
