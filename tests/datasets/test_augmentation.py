import numpy as np
import pytest

from gdn_keras.datasets import (
    load_embedded_digits,
    random_affine,
    random_contrast,
    random_frame,
    rescale_images,
    training_pipeline,
)

SIDE = 84


@pytest.fixture(scope="module")
def images():
    return rescale_images(load_embedded_digits().x_test[:40], 2, (SIDE, SIDE))[..., None]


def moments(images):
    """Mass, mean position and area (determinant of the covariance) of the light parts."""
    light = images[..., 0] - images[:, :1, :1, 0]
    n = np.arange(SIDE) - (SIDE - 1) / 2
    mass = light.sum(axis=(1, 2))
    weights = light / mass[:, None, None]
    y, x = (weights * n[:, None]).sum(axis=(1, 2)), (weights * n).sum(axis=(1, 2))
    yy = (weights * (n[:, None] - y[:, None, None]) ** 2).sum(axis=(1, 2))
    xx = (weights * (n - x[:, None, None]) ** 2).sum(axis=(1, 2))
    xy = (weights * (n[:, None] - y[:, None, None]) * (n - x[:, None, None])).sum(axis=(1, 2))
    return mass, y, x, xx * yy - xy**2


def test_scale_is_kept_while_the_shape_changes(images):
    moved = random_affine(size=2)(images, [0, 1]).numpy()
    before, after = moments(images), moments(moved)
    np.testing.assert_allclose(after[0], before[0], rtol=0.02)
    np.testing.assert_allclose(after[3], before[3], rtol=0.08)
    assert np.abs(moved - images).max(axis=(1, 2, 3)).min() > 0.1


def test_shift_is_within_its_limits_and_along_both_axes(images):
    moved = random_affine(size=2, rotation=0.0, shear=0.0, shift=1.5)(images, [0, 1]).numpy()
    (_, y0, x0, _), (_, y1, x1, _) = moments(images), moments(moved)
    for shift in (y1 - y0, x1 - x0):
        assert 1.5 < np.abs(shift).max() < 3.05
    assert np.corrcoef(y1 - y0, x1 - x0)[0, 1] < 0.9


def test_seed_decides(images):
    augment = random_affine(size=2)
    np.testing.assert_array_equal(augment(images, [3, 4]), augment(images, [3, 4]))
    assert np.abs(augment(images, [3, 4]) - augment(images, [3, 5])).max() > 0.1


def test_pipeline_repeats_itself_and_goes_on_where_it_stopped(images):
    labels = load_embedded_digits().y_test[:40]
    options = {"batch_size": 20, "seed": 5, "augment": random_affine(size=2)}
    first = [x.numpy() for x, _ in training_pipeline(images, labels, **options).take(4)]
    again = [x.numpy() for x, _ in training_pipeline(images, labels, **options).take(4)]
    later = training_pipeline(images, labels, initial_epoch=1, **options).take(2)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[2:], [x.numpy() for x, _ in later])


def test_frames_continue_their_edge_pixels(images):
    frames = (16.0, 20.0)
    framed = random_frame(size=2, frames=frames)(images, [0, 1]).numpy()
    cut = 0
    for before, after in zip(images, framed, strict=True):
        if np.array_equal(before, after):
            continue
        cut += 1
        halves = [
            half
            for half in range(int(frames[0]), int(frames[1]) + 1)  # of the frames at size 2
            for index in [np.clip(np.arange(SIDE), SIDE // 2 - half, SIDE // 2 - 1 + half)]
            if np.array_equal(after, before[index][:, index])
        ]
        assert halves
    assert 10 < cut < 30  # of 40, half


@pytest.mark.parametrize("frame", [5, 8])
def test_a_frame_has_its_size(frame):
    """Frames of even and odd side on images of even and odd side: as near to it as can be."""
    for side in (40, 41):
        ramp = np.arange(side, dtype="float32")
        image = np.broadcast_to(ramp[None, :, None, None], (1, side, side, 1))
        framed = random_frame(2, frames=(frame, frame), share=1.0)(image, [0, 1]).numpy()
        kept = np.unique(framed)
        assert abs(len(kept) - 2 * frame) <= 1
        assert abs(kept.mean() - ramp.mean()) <= 0.5


@pytest.mark.parametrize("share, changed", [(0.0, False), (1.0, True)])
def test_share_of_framed_images(images, share, changed):
    framed = random_frame(2, frames=(8.0, 8.0), share=share)(images, [0, 1]).numpy()
    different = np.abs(framed - images).max(axis=(1, 2, 3)) > 0
    assert np.all(different == changed)


def test_bad_frames():
    with pytest.raises(ValueError, match=r"`frames` must be two sizes.*Received: frames=\(9"):
        random_frame(1, frames=(9, 8))
    with pytest.raises(ValueError, match=r"`frames` must be two sizes.*Received: frames=\(9,\)"):
        random_frame(1, frames=(9,))
    with pytest.raises(ValueError, match=r"`share` must lie in.*Received: share=2"):
        random_frame(1, share=2)


@pytest.mark.parametrize("change", [random_affine(1), random_frame(1)])
def test_images_of_unknown_size_are_refused(change):
    import tensorflow as tf

    spec = tf.TensorSpec([None, None, 8, 1], "float32")
    with pytest.raises(ValueError, match=r"known height and width. Received: .*None, 8, 1"):
        tf.function(change).get_concrete_function(spec, tf.TensorSpec([2], "int32"))


def test_images_go_on_as_their_edges_do():
    columns = np.linspace(0, 1, SIDE, dtype="float32")
    images = np.broadcast_to(columns[:, None], (4, SIDE, SIDE, 1))
    moved = random_affine(size=8, rotation=0.0, shear=0.0)(images, [0, 1]).numpy()
    beyond = np.abs(np.diff(moved, axis=2)).max()
    assert beyond < 2 / SIDE  # a constant in place of the edge would be a jump


def test_contrast_changes_within_its_limit_about_the_mean(images):
    changed = random_contrast(3.0)(images, [0, 1]).numpy()
    np.testing.assert_allclose(changed.mean(axis=(1, 2, 3)), images.mean(axis=(1, 2, 3)), atol=1e-5)
    factors = changed.std(axis=(1, 2, 3)) / images.std(axis=(1, 2, 3))
    assert 1 / 3.01 < factors.min() < 0.5 and 2 < factors.max() < 3.01


def test_bad_contrast():
    with pytest.raises(ValueError, match=r"`limit` must be at least 1. Received: limit=0.5"):
        random_contrast(0.5)
