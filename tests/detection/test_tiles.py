"""Large pictures in tiles: the detections of the whole."""

import keras
import numpy as np
import pytest
from scipy import ndimage

from gdn_keras.detection import Detector, predict_tiled
from gdn_keras.layers import ContrastStretch, GaussianDerivative, ScaleChannels
from gdn_keras.scale_space import Plan


@pytest.fixture(scope="module")
def detector():
    """Blobs by their Laplacian, in channels an octave apart."""
    network = keras.Sequential([GaussianDerivative(1, 2.0)])
    images = keras.Input((None, None, 1))
    channels = ScaleChannels(network, (0.75, 1.5, 3.0), pooling=None, readout="points")
    model = keras.Model(images, channels(images))
    laplacian = np.reshape([0, 0, -8, 0, -8], (5, 1, 1))
    model.set_weights([laplacian, np.array([-3.0])])
    stretch = ContrastStretch(1, 99.9)
    return Detector(model, 1, extent=6.0, per_octave=1, preprocessor=stretch, max_detections=500)


def picture(height, width):
    """Bright blobs of several sizes, those on the left in less light."""
    rng = np.random.default_rng(0)
    image = np.zeros((height, width))
    for _ in range(height * width // 900):
        spot = np.zeros_like(image)
        spot[rng.integers(height), rng.integers(width)] = 1
        sigma = rng.uniform(1.5, 6)
        image = np.maximum(image, 2 * np.pi * sigma**2 * ndimage.gaussian_filter(spot, sigma))
    image[:, : width // 2] *= 0.6  # what a tile of its own would stretch
    return np.rint(255 * image / image.max()).astype("uint8")[..., None]


@pytest.mark.parametrize("shape", [(201, 302), (64, 400)])
def test_tiles_find_what_the_whole_finds(detector, shape):
    image = picture(*shape)
    whole = {name: values[0] for name, values in detector.predict(image[None], verbose=0).items()}
    tiled = {name: x[0] for name, x in predict_tiled(detector, image, tile=90).items()}
    count = int(whole["num_detections"])
    assert 10 < count == int(tiled["num_detections"])
    nearest = np.abs(tiled["boxes"][:, None] - whole["boxes"][None, :count]).max(axis=2).argmin(1)
    assert sorted(nearest) == list(range(count))
    for name, atol in (("boxes", 0.03), ("size", 0.03), ("confidence", 1e-3), ("labels", 0)):
        np.testing.assert_allclose(tiled[name], whole[name][nearest], atol=atol)


def test_tiles_keep_the_format_of_boxes_and_refuse_other_images(detector):
    image = picture(120, 200)
    corners = predict_tiled(detector, image, tile=90)["boxes"]
    other = detector.with_thresholds(bounding_box_format="xywh")
    sides = predict_tiled(other, image, tile=90)["boxes"]
    np.testing.assert_allclose(corners[..., 2:] - corners[..., :2], sides[..., 2:], atol=1e-3)
    with pytest.raises(ValueError, match="Images must have shape"):
        predict_tiled(detector, np.repeat(image, 3, axis=2))
    with pytest.raises(ValueError, match="pixels of 0 to 255"):
        predict_tiled(detector, image / 255)


def calls_of(monkeypatch, kind, name):
    """A list that grows with each call of a method."""
    calls, method = [], getattr(kind, name)

    def counted(*args, **kwargs):
        calls.append(name)
        return method(*args, **kwargs)

    monkeypatch.setattr(kind, name, counted)
    return calls


def test_tiles_of_one_size_are_traced_once(detector, monkeypatch):
    image = picture(120, 200)
    predict_tiled(detector, image, tile=90)
    traced = calls_of(monkeypatch, ScaleChannels, "channels")
    predict_tiled(detector, image, tile=90)
    assert not traced


def test_the_grids_of_a_call_are_planned_once(detector, monkeypatch):
    fresh = detector.with_thresholds()  # which has traced nothing yet
    planned = calls_of(monkeypatch, Plan, "channel")
    fresh.predict(picture(77, 83)[None], verbose=0)
    assert len(planned) == 3  # scale channels
