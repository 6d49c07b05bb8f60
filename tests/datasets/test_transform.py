import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdn_keras.datasets import (
    TEST_SIZES,
    TRAIN_SIZES,
    resampling_matrix,
    rescale_images,
    rescale_photographs,
)
from gdn_keras.layers import ArctanContrast
from tests.datasets.scipy_recipe import reference_digit, reference_planes


def test_sizes_are_the_published_ones():
    assert len(TEST_SIZES) == 17
    assert TEST_SIZES[0] == 0.5 and TEST_SIZES[-1] == 8
    np.testing.assert_allclose(np.diff(np.log2(TEST_SIZES)), 0.25)
    assert set(TRAIN_SIZES) <= set(TEST_SIZES)


@pytest.mark.parametrize("size", [0.5, 0.595, 1, 1.3, 2, 4, 8])
def test_equals_scipy_one_digit_at_a_time(digits, size):
    images = digits.x_test[:6]
    expected = np.stack([reference_digit(image, size) for image in images])
    np.testing.assert_allclose(rescale_images(images, size), expected, rtol=0, atol=1e-2)


@settings(max_examples=25, deadline=None)
@given(
    size=st.one_of(st.floats(0.2, 0.99), st.floats(1, 6)),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    output_shape=st.tuples(st.integers(1, 31), st.integers(1, 31)),
    smoothing=st.sampled_from([0.0, 0.5, 7 / 8]),
    boundary=st.sampled_from(["constant", "symmetric", "edge"]),
)
def test_equals_scipy_for_any_shapes(size, shape, output_shape, smoothing, boundary):
    image = np.random.default_rng(0).random(shape)
    expected = reference_planes(image, size, output_shape, smoothing, boundary)
    options = {"smoothing": smoothing, "boundary": boundary, "peak": None}
    result = rescale_images(image[None], size, output_shape, **options)
    assert result.shape == (1, *output_shape) and result.dtype == np.float32
    np.testing.assert_allclose(result[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("subset", ["x_test", "x_train"])
def test_published_value_range(digits, subset):
    pixels = rescale_images(getattr(digits, subset)[:12], 2)
    assert pixels.dtype == np.float32
    images = np.asarray(ArctanContrast()(pixels[..., None]))[..., 0]
    np.testing.assert_allclose(images.min(axis=(1, 2)), -0.763, atol=1e-3)
    np.testing.assert_allclose(images.max(axis=(1, 2)), 0.761, atol=1e-3)
    np.testing.assert_allclose(images[:, 0, 0], -0.763, atol=1e-3)


@pytest.mark.slow
def test_published_value_range_of_mnist_itself(mnist):
    for digit in (mnist.x_test[:1], mnist.x_train[:12]):
        images = np.asarray(ArctanContrast()(rescale_images(digit, 2)[..., None]))[..., 0]
        np.testing.assert_allclose(images.min(axis=(1, 2)), -0.763, atol=1e-3)
        np.testing.assert_allclose(images.max(axis=(1, 2)), 0.761, atol=1e-3)


def center_of_mass(images):
    """Relative to the centre of the image, in pixels; `[n, 2]`."""
    images = images.astype(float)
    ys, xs = (np.arange(n) - (n - 1) / 2 for n in images.shape[1:])
    mass = images.sum(axis=(1, 2))
    return np.stack([(images.sum(axis=3 - k) @ c) / mass for k, c in ((1, ys), (2, xs))], axis=1)


@pytest.mark.parametrize("output_shape", [(112, 112), (113, 111), (80, 128)])
@pytest.mark.parametrize("size", [0.5, 1, 2, 2.378])
def test_stays_centered(digits, size, output_shape):
    images = digits.x_test[:50]
    rescaled = rescale_images(images, size, output_shape, peak=None)
    expected = size * center_of_mass(images)
    np.testing.assert_allclose(center_of_mass(rescaled), expected, rtol=0, atol=0.1)


@pytest.mark.parametrize("size", [1, 2])
def test_mean_image_is_scale_covariant(digits, size):
    small, large = (rescale_images(digits.x_test, s).mean(axis=0) for s in (size, 2 * size))
    inner = small[28:-28, 28:-28]
    reduced = large.reshape(56, 2, 56, 2).mean(axis=(1, 3))
    assert np.abs(reduced - inner).max() < 0.03 * np.ptp(small)


def test_no_aliasing_below_size_one(digits):
    """The total ink does not depend on where the digit lies on the coarser grid."""
    images = digits.x_test[:200]
    images = images[images[:, :, -1].max(axis=1) == 0]  # nothing to wrap around
    before, after = (
        rescale_images(x, 0.4, peak=None).sum(axis=(1, 2)) for x in (images, np.roll(images, 1, 2))
    )
    change = after / before - 1
    assert np.sqrt(np.mean(change**2)) < 0.02  # without smoothing 0.11
    assert np.abs(change).max() < 0.1  # without smoothing 1.1


def test_color_is_the_same_for_each_channel():
    images = np.random.default_rng(1).random((3, 9, 7, 3))
    result = rescale_images(images, 1.7, (13, 16), peak=None)
    assert result.shape == (3, 13, 16, 3) and result.flags.c_contiguous
    for c in range(3):
        expected = rescale_images(images[..., c], 1.7, (13, 16), peak=None)
        np.testing.assert_allclose(result[..., c], expected, atol=1e-6)


def test_peak_of_a_color_image_is_one_for_all_channels():
    images = np.zeros((1, 5, 5, 2))
    images[..., 0], images[..., 1] = 200, 100
    result = rescale_images(images, 1, (5, 5), boundary="symmetric")
    np.testing.assert_allclose(result[0, 2, 2], [255, 127.5], atol=0.01)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float64"])
def test_integers_and_floats_agree(digits, dtype):
    images = digits.x_test[:3]
    np.testing.assert_allclose(
        rescale_images(images.astype(dtype), 2), rescale_images(images, 2), atol=1e-4
    )


def test_batches_do_not_change_a_result(digits):
    images = digits.x_test[:700]  # more than one thread and more than one chunk
    together = rescale_images(images, 1.5, (40, 41))
    for n in (0, 349, 350, 699):
        single = rescale_images(images[n : n + 1], 1.5, (40, 41))[0]
        np.testing.assert_allclose(together[n], single, atol=1e-4)


def test_blank_image_and_no_image():
    assert rescale_images(np.zeros((0, 28, 28)), 2).shape == (0, 112, 112)
    blank = rescale_images(np.zeros((1, 28, 28)), 2)
    np.testing.assert_array_equal(blank, 0)


def test_constant_stays_constant_where_the_plane_continues():
    for boundary in ("symmetric", "edge"):
        for size in (0.3, 1, 5):
            rows = resampling_matrix(6, 15, size, boundary=boundary).sum(axis=1)
            np.testing.assert_allclose(rows, 1, atol=1e-9)


def test_size_one_without_smoothing_is_the_identity():
    images = np.random.default_rng(2).random((2, 8, 11))
    result = rescale_images(images, 1, (8, 11), smoothing=0, peak=None)
    np.testing.assert_allclose(result, images, atol=1e-6)


IMAGES = np.ones((2, 5, 5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": IMAGES[:, :0]}, r"`images` must have shape .* images.shape=\(2, 0, 5\)"),
        ({"images": IMAGES.astype(object)}, r"`images` must be integers or floats"),
        ({"images": -IMAGES}, r"`images` must not be negative"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        rescale_images(**({"images": IMAGES, "size": 1} | arguments))


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), "uint8")


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
