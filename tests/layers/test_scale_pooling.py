"""Pooling over scale channels, and channels left out at random."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import ScalePooling
from tests.layers.networks import numpy


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
