import json

import keras
import numpy as np
import pytest

from gdn_keras.datasets import (
    RandomAffine,
    RandomBlur,
    RandomFrame,
    RandomLight,
    load_embedded_digits,
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


def changed(layer, images, seed=(0, 1)):
    return keras.ops.convert_to_numpy(layer(images, seed=seed))


LAYERS = (RandomAffine(shift=2), RandomFrame(20, 60), RandomLight(), RandomBlur())
every_layer = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)


def test_scale_is_kept_while_the_shape_changes(images):
    moved = changed(RandomAffine(shift=2), images)
    before, after = moments(images), moments(moved)
    np.testing.assert_allclose(after[0], before[0], rtol=0.02)
    np.testing.assert_allclose(after[3], before[3], rtol=0.08)
    assert np.abs(moved - images).max(axis=(1, 2, 3)).min() > 0.1


def edges(images):
    """Where each image changes most along its middle row and its middle column."""
    for line in (images[:, SIDE // 2, :, 0], images[:, :, SIDE // 2, 0]):
        steps = np.diff(line, axis=1)
        yield steps.argmax(axis=1), steps.argmin(axis=1)


@pytest.mark.parametrize("layer", [RandomLight(), RandomBlur(1.0, 4.0), RandomFrame(50, 60)])
def test_edges_stay_where_they_are(layer):
    away = np.abs(np.arange(SIDE) - (SIDE - 1) / 2)
    inside = np.hypot(away, away[:, None]) < 20
    image = np.where(inside, 170, 80).astype("float32")[..., None].repeat(3, axis=2)
    image = np.stack([image] * 40)
    for before, after in zip(edges(image), edges(changed(layer, image)), strict=True):
        assert np.abs(np.subtract(before, after)).max() <= 1
    assert np.abs(changed(layer, image) - image).max() > 1 or isinstance(layer, RandomFrame)


def test_shift_is_within_its_limits_and_along_both_axes(images):
    moved = changed(RandomAffine(rotation=0.0, shear=0.0, shift=3), images)
    (_, y0, x0, _), (_, y1, x1, _) = moments(images), moments(moved)
    for shift in (y1 - y0, x1 - x0):
        assert 1.5 < np.abs(shift).max() < 3.05
    assert np.corrcoef(y1 - y0, x1 - x0)[0, 1] < 0.9


@every_layer
def test_seed_decides(images, layer):
    np.testing.assert_array_equal(changed(layer, images), changed(layer, images))
    assert np.abs(changed(layer, images) - changed(layer, images, (0, 2))).max() > 0.1
    assert np.abs(layer(images) - layer(images)).max() > 0.1  # its own sequence goes on
    np.testing.assert_array_equal(layer(images, training=False), images)


@every_layer
def test_layers_are_saved_and_graphs_need_not_know_the_size(images, layer, tmp_path):
    import tensorflow as tf

    inputs = keras.Input((None, None, 1))
    keras.Model(inputs, layer(inputs)).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras").layers[-1]
    assert type(again) is type(layer)
    assert json.dumps(again.get_config()) == json.dumps(layer.get_config())
    np.testing.assert_array_equal(changed(again, images), changed(layer, images))
    graph = tf.function(again, input_signature=[tf.TensorSpec([None] * 3 + [1], "float32")])
    assert graph(images).shape == images.shape
    batches = tf.data.Dataset.from_tensor_slices(images).batch(20).map(keras.Sequential([again]))
    assert [len(batch) for batch in batches] == [20, 20]


def test_pipeline_repeats_itself_and_goes_on_where_it_stopped(images):
    labels = load_embedded_digits().y_test[:40]
    options = {"batch_size": 20, "seed": 5, "augment": LAYERS}
    first = [x.numpy() for x, _ in training_pipeline(images, labels, **options).take(4)]
    again = [x.numpy() for x, _ in training_pipeline(images, labels, **options).take(4)]
    later = training_pipeline(images, labels, initial_epoch=1, **options).take(2)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[2:], [x.numpy() for x, _ in later])


def test_frames_continue_their_edge_pixels(images):
    framed = changed(RandomFrame(32, 40), images)
    cut = 0
    for before, after in zip(images, framed, strict=True):
        if np.array_equal(before, after):
            continue
        cut += 1
        halves = [
            half
            for half in range(16, 21)
            for index in [np.clip(np.arange(SIDE), SIDE // 2 - half, SIDE // 2 - 1 + half)]
            if np.array_equal(after, before[index][:, index])
        ]
        assert halves
    assert 10 < cut < 30  # of 40, half


@pytest.mark.parametrize("frame", [10, 16])
def test_a_frame_has_its_size(frame):
    """On images of even and odd side: as near to it as can be."""
    for side in (40, 41):
        ramp = np.arange(side, dtype="float32")
        image = np.broadcast_to(ramp[None, :, None, None], (1, side, side, 1))
        kept = np.unique(changed(RandomFrame(frame, frame, share=1.0), image))
        assert abs(len(kept) - frame) <= 1
        assert abs(kept.mean() - ramp.mean()) <= 0.5


@pytest.mark.parametrize("share, expected", [(0.0, False), (1.0, True)])
def test_share_of_framed_images(images, share, expected):
    framed = changed(RandomFrame(16, 16, share=share), images)
    different = np.abs(framed - images).max(axis=(1, 2, 3)) > 0
    assert np.all(different == expected)


def test_images_go_on_as_their_edges_do():
    columns = np.linspace(0, 1, SIDE, dtype="float32")
    images = np.broadcast_to(columns[:, None], (4, SIDE, SIDE, 1))
    moved = changed(RandomAffine(rotation=0.0, shear=0.0, shift=8), images)
    beyond = np.abs(np.diff(moved, axis=2)).max()
    assert beyond < 2 / SIDE  # a constant in place of the edge would be a jump


def test_contrast_changes_within_its_limit_about_the_mean(images):
    layer = RandomLight(0.0, 3.0, 1.0, 0.0, value_range=None)
    after = changed(layer, images / 255)
    means = [x.mean(axis=(1, 2, 3)) for x in (after, images / 255)]
    np.testing.assert_allclose(*means, atol=1e-5)
    factors = after.std(axis=(1, 2, 3)) / images.std(axis=(1, 2, 3)) * 255
    assert 1 / 3.01 < factors.min() < 0.5 and 2 < factors.max() < 3.01


def test_light_within_its_limits():
    grey = np.full((200, SIDE, SIDE, 3), 100, "float32")
    pixels = changed(RandomLight(0.1, 1.0, 1.0, 0.0), grey)
    assert np.ptp(pixels, axis=(1, 2, 3)).max() < 1e-3
    assert 20 < np.abs(pixels - 100).max() <= 25.6
    pixels = changed(RandomLight(0.0, 1.0, 1.5, 0.0), grey)
    assert np.ptp(pixels, axis=(1, 2)).max() < 1e-3 and np.ptp(pixels, axis=3).max() > 20
    assert pixels.min() >= 66.6 and pixels.max() <= 150.1
    pixels = changed(RandomLight(0.0, 1.0, 1.0, 0.5), grey)
    assert np.ptp(pixels, axis=3).max() == 0 and 50 <= pixels.min() < 60 and pixels.max() <= 100
    pixels = changed(RandomLight(1.0, 2.0), grey)
    assert pixels.min() == 0 and pixels.max() == 255


def test_blur_spreads_light_and_keeps_its_sum():
    point = np.zeros((100, SIDE, SIDE, 1), "float32")
    point[:, SIDE // 2, SIDE // 2] = 1
    mass, _, _, _ = moments(changed(RandomBlur(2.0, 8.0), point))
    np.testing.assert_allclose(mass, 1, rtol=1e-4)
    lengths = (changed(RandomBlur(0.0, 8.0), point) > 0.02).sum(axis=(1, 2, 3))
    assert 6 < lengths.max() < 30 and lengths.min() <= 5
    widths = changed(RandomBlur(2.0, 0.0), point).max(axis=(1, 2, 3))
    assert 0.035 < widths.min() < 0.05 and widths.max() > 0.9
