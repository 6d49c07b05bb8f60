"""Layers between scale channels: interaction and pooling."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    GaussianSmoothing,
    ScaleChannels,
    ScaleInteraction,
    ScalePooling,
)
from tests.harness import run_layer_test
from tests.layers.networks import (
    images,
    numpy,
)

SCALES = (1.0, 2**0.5, 2.0)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_interaction_adds_what_the_neighbors_hold(sampling):
    """With weights on one neighbour only, by hand: the smoothed image of the channel beside."""
    smooth = {"zero_order": True, "use_bias": False, "truncation": 1e-6}
    layers = [GaussianDerivative(1, 1.0, **smooth), ScaleInteraction()]
    layer = ScaleChannels(keras.Sequential(layers), SCALES, None, sampling)
    plain = ScaleChannels(keras.Sequential(layers[:1]), SCALES, None, sampling)
    x = numpy(GaussianSmoothing(4.0)(images((50, 44, 1)))) * 10
    layer.build(x.shape)
    plain.build(x.shape)
    kernel = np.zeros((6, 1, 1))
    kernel[0] = 1.0
    layer.set_weights([kernel, np.array([[[2.0]], [[-3.0]]])])
    before, after = numpy(plain(x)), numpy(layer(x))
    expected = before.copy()
    expected[:, 1:] += 2 * before[:, :-1]
    expected[:, :-1] -= 3 * before[:, 1:]
    # Resampling smooths by half a step more, and coarse grids end a step before the image.
    tolerance, inside = (1e-5, slice(None)) if sampling == "dense" else (0.05, slice(6, -6))
    difference = (after - expected)[:, :, inside, inside]
    assert np.abs(difference).max() < tolerance * np.abs(expected).max()


def test_interaction_needs_equally_distant_neighbors_and_scale_channels():
    layers = [GaussianDerivative(3, 1.0), ScaleInteraction(), CentralPixel()]
    with pytest.raises(ValueError, match=r"geometric progression.*Received: scales=\[1.0, 2.0, 3"):
        ScaleChannels(keras.Sequential(layers), (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="inside `ScaleChannels` only"):
        ScaleInteraction()(images((9, 9, 1)))


def test_interaction_harness(tmp_path):
    def make(dtype=None):
        jets = [GaussianDerivative(3, sigma, dtype=dtype) for sigma in (1.0, 1.25)]
        layers = [jets[0], ScaleInteraction(dtype=dtype), jets[1], CentralPixel(dtype=dtype)]
        return ScaleChannels(keras.Sequential(layers), SCALES, dtype=dtype)

    run_layer_test(tmp_path, make, (2, 17, 20, 2), (2, 3), (5, 0), atol=1e-4)


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
def test_scale_dropout_leaves_out_whole_channels_and_keeps_one(pooling):
    stack = np.arange(1, 5, dtype="float32")[None, :, None] + np.zeros((400, 4, 2), "float32")
    layer = ScalePooling(pooling, dropout=0.6, seed=1)
    np.testing.assert_allclose(numpy(layer(stack)), numpy(ScalePooling(pooling)(stack)), rtol=1e-6)
    y = numpy(layer(stack, training=True))
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(y[:, 0], y[:, 1])
    # All that can come out is the pooling of a subset of the channels.
    subsets = [[c for c in range(4) if bits >> c & 1] for bits in range(1, 16)]
    possible = [numpy(ScalePooling(pooling)(stack[:1, s]))[0, 0] for s in subsets]
    assert np.abs(y[:, :1] - np.array(possible)).min(axis=1).max() < 1e-5
    if pooling == "max":
        assert np.mean(y[:, 0] == 4) == pytest.approx(0.4, abs=0.1)
    with pytest.raises(ValueError, match=r"`dropout`.*Received: dropout=1"):
        ScalePooling("max", dropout=1.0)


def test_scale_dropout_goes_on_from_a_file_as_it_would_have(tmp_path):
    stack = np.random.default_rng(0).normal(size=(20, 4, 2)).astype("float32")
    model = keras.Sequential([keras.Input((4, 2)), ScalePooling("max", dropout=0.5)])
    first = numpy(model(stack, training=True))
    model.save(tmp_path / "model.keras")
    expected = numpy(model(stack, training=True))
    assert not np.array_equal(first, expected)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded(stack, training=True)), expected)
