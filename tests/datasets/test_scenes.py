"""Scenes: where objects are, what they look like, and that equal seeds give equal scenes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdn_keras.datasets import (
    Scenes,
    digit_scenes,
    load_embedded_digits,
    rescale_images,
    scene_pipeline,
    scene_set,
)


@pytest.fixture(scope="module")
def digits():
    source = load_embedded_digits()
    return source.x_test[:50], source.y_test[:50]


def test_equal_seeds_give_equal_scenes(digits):
    scenes = Scenes(*digits, background="clutter")
    for one, two in zip(scenes.draw(3, 5), scenes.draw(3, 5), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(scenes.draw(3, 5).image, scenes.draw(3, 6).image)
    assert not np.array_equal(scenes.draw(3, 5).image, scenes.draw(4, 5).image)


@given(
    seed=st.integers(0, 2**31),
    height=st.integers(90, 130),
    background=st.sampled_from(["empty", "clutter"]),
)
def test_boxes_lie_in_the_frame_and_do_not_overlap(seed, height, background):
    source = load_embedded_digits()
    scenes = Scenes(
        source.x_test[:20],
        source.y_test[:20],
        sizes=[0.5, 1, 3],
        shape=(height, 100),
        count=(0, 8),
        background=background,
    )
    image, boxes, labels, sizes = scenes.draw(seed, 0)
    assert image.shape == (height, 100, 1) and image.dtype == np.uint8
    assert len(boxes) == len(labels) == len(sizes) <= 8
    longer = (boxes[:, 2:] - boxes[:, :2]).max(axis=1)
    assert (longer <= 22 * sizes + 1).all() and (longer >= 12 * sizes).all()
    assert (boxes >= 0).all() and (boxes <= [100, height, 100, height]).all()
    for (a, s), (b, t) in itertools.combinations(zip(boxes, sizes, strict=True), 2):
        sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
        # Digits lie off the centres of their images, by up to three of their pixels.
        assert np.min(sides) <= 3 * (s + t) + 2


@pytest.mark.parametrize("size", [0.5, 1.0, 2.0])
def test_a_digit_is_that_of_mnist_large_scale(digits, size):
    scenes = Scenes(*digits, sizes=[size], shape=(112, 112), count=(1, 1))
    for index in range(8):
        image, [box], [label], _ = scenes.draw(0, index)
        alike = digits[0][digits[1] == label]
        rescaled = [rescale_images(alike, size, (n, n)) for n in (111, 112)]
        if min(box) > 0 and max(box) < 112:  # the frame cuts nothing off
            assert min(_distance(image, box, digit) for e in rescaled for digit in e) <= 1


def _distance(image, box, digit):
    """Greatest difference in grey values between the boxes around the light half of both."""
    rows, columns = (np.flatnonzero((digit >= 127.5).any(axis=axis)) for axis in (1, 0))
    light = digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    x1, y1, x2, y2 = box.astype(int)
    part = image[y1:y2, x1:x2, 0].astype("float32")
    return np.abs(part - light).max() if part.shape == light.shape else np.inf


def test_boxes_hold_the_light_half_of_the_ink(digits):
    scenes = Scenes(*digits, sizes=[2], shape=(96, 128), count=(1, 1))
    for index in range(10):
        image, [box], _, _ = scenes.draw(1, index)
        x1, y1, x2, y2 = box.astype(int)
        ink = image[..., 0] >= 128
        assert ink[max(0, y1) : y2, max(0, x1) : x2].sum() == ink.sum()
        assert 36 <= max(y2 - y1, x2 - x1) <= 42


def test_clutter_leaves_objects_standing_out(digits):
    scenes = Scenes(*digits, background="clutter", count=(1, 1))
    for index in range(20):
        image, [box], _, _ = scenes.draw(0, index)
        x1, y1, x2, y2 = np.rint(box).astype(int)
        assert image[y1:y2, x1:x2].max() >= 250
        assert np.median(image) <= 128


def test_fragments_that_are_larger_than_the_frame_are_left_out():
    images = np.random.default_rng(0).random((4, 120, 120))
    scenes = Scenes(images, np.arange(4), shape=(22, 22), count=(1, 1), background="clutter")
    for index in range(6):
        assert len(scenes.draw(0, index).boxes) == 1


def test_color_objects_of_any_shape():
    images = np.random.default_rng(0).random((4, 12, 30, 3))
    scenes = Scenes(images, np.arange(4), sizes=[1, 1.5], extent=30, shape=(96, 128))
    test = scene_set(scenes, 3)
    assert test.images.shape == (3, 96, 128, 3)
    assert test.bounding_boxes["boxes"].shape == (3, 6, 4)


def test_varied_objects_keep_their_size(digits):
    """Strokes, blur and light vary, sizes do not: what a network must learn of its boxes."""
    scenes = Scenes(*digits, augment=True, shape=(60, 60), count=(1, 1), sizes=[1.0])
    drawn = [scenes.draw(0, index) for index in range(100)]
    longer = np.array([np.max(scene.boxes[0, 2:] - scene.boxes[0, :2]) for scene in drawn])
    assert np.median(longer) == pytest.approx(20, abs=1.01)
    assert np.percentile(longer, 5) >= 17 and np.percentile(longer, 95) <= 22
    peaks = np.array([scene.image.max() for scene in drawn])
    assert peaks.min() < 150 and peaks.max() > 230
    edges = [np.abs(np.diff(scene.image[..., 0].astype(float))).max() for scene in drawn] / peaks
    assert np.percentile(edges, 90) > 1.6 * np.percentile(edges, 10)


def test_frames_without_objects(digits):
    test = scene_set(Scenes(*digits, count=(0, 1)), 6)
    empty = (test.labels < 0).all(axis=1)
    assert 0 < empty.sum() < 6
    assert not test.images[empty].any() and not test.boxes[empty].any()


def test_pipeline_goes_on_where_it_was_stopped(digits):
    scenes = Scenes(*digits)
    batches = list(scene_pipeline(scenes, batch_size=3, seed=4).take(3))
    images, targets = next(iter(scene_pipeline(scenes, batch_size=3, seed=4, first=2)))
    np.testing.assert_array_equal(images, batches[2][0])
    np.testing.assert_array_equal(targets["boxes"], batches[2][1]["boxes"])
    fixed = scene_set(scenes, 9, seed=4)
    np.testing.assert_array_equal(images, fixed.images[6:])
    np.testing.assert_array_equal(targets["labels"], fixed.labels[6:])
    assert images.shape == (3, 96, 96, 1) and targets["boxes"].shape == (3, 6, 4)


def test_digits_of_the_package_are_the_default():
    scenes = digit_scenes("train", sizes=[1])
    assert len(scenes.images) == 3600
    assert set(np.unique(scenes.labels)) == set(range(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": []}, "`sizes` must hold at least one"),
        ({"sizes": [0]}, "`sizes` must be a positive"),
        ({"sizes": [5]}, "`shape` must have room for the largest object, 100 pixels"),
        ({"sizes": 1.0}, r"`sizes` must be a sequence of numbers\. Received: sizes=1\.0"),
        ({"count": (3, 2)}, "`count` must be"),
        ({"count": 5}, r"`count` must be \(least, greatest\)\. Received: count=5"),
        ({"count": (1, 2, 3)}, r"`count` must be \(least, greatest\)"),
        ({"shape": 96}, r"`shape` must be \(height, width\)\. Received: shape=96"),
        ({"shape": (96.5, 96)}, "`shape` must be an integer"),
        ({"background": "grey"}, "`background` must be one of"),
        ({"labels": np.zeros(3, int)}, "`labels` must be integers, one for each"),
        ({"images": np.zeros((50, 28))}, "`images` must be numbers of shape"),
    ],
)
def test_mistakes_are_named(digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        Scenes(**{"images": digits[0], "labels": digits[1], **arguments})
