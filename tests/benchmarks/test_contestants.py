import numpy as np
import pytest
from contest.arithmetic import needed_multiply_adds
from contest.literal_keras import LiteralNetwork

from gdn_keras.models import gaussian_derivative_network, scale_channels_of
from gdn_keras.scale_space import layer_costs, multiply_adds

WIDTHS, SCALES, SIDE = (4, 5, 3), (0.7, 1.0, 1.4), 30


def make_dense(sampling="dense", truncation=1e-5):
    """A network with random weights and statistics."""
    model = gaussian_derivative_network(
        (SIDE, SIDE, 1), WIDTHS[:-1], WIDTHS[-1], SCALES, sampling=sampling, truncation=truncation
    )
    rng = np.random.default_rng(0)
    network = scale_channels_of(model).network
    for layer in network.layers:
        if hasattr(layer, "moving_mean"):
            layer.set_weights([rng.uniform(0.5, 1.5, size=w.shape) for w in layer.get_weights()])
        else:
            layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    return model, network


def make_images():
    return np.random.default_rng(1).normal(size=(3, SIDE, SIDE, 1)).astype("float32")


def assert_same(logits, expected):
    assert np.abs(logits - expected).max() < 1e-3 * np.abs(expected).max()


def test_literal_keras_is_the_dense_network():
    model, network = make_dense()
    literal = LiteralNetwork(WIDTHS, SCALES, truncation=1e-5)
    images = make_images()
    literal(images)
    literal.copy_weights(network)
    assert_same(np.asarray(literal(images)), np.asarray(model(images)))


def test_literal_torch_is_the_dense_network():
    torch = pytest.importorskip("torch")
    pytest.importorskip("pyscsp")
    from contest import literal_torch

    model, network = make_dense()
    literal = literal_torch.LiteralNetwork(WIDTHS, SCALES, truncation=1e-5).eval()
    literal.copy_weights(network)
    images = make_images()
    with torch.inference_mode():
        logits = literal(torch.tensor(images.transpose(0, 3, 1, 2).copy())).numpy()
    assert_same(logits, np.asarray(model(images)))


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_costs_of_layers_add_up(sampling):
    channels = scale_channels_of(make_dense(sampling)[0])
    features = channels.program.features(1)
    planned = channels.plan((SIDE, SIDE)), channels.geometry, features
    forward = needed_multiply_adds(channels, (SIDE, SIDE, 1), "forward")
    assert forward == multiply_adds(*planned)
    training = needed_multiply_adds(channels, (SIDE, SIDE, 1), "training")
    assert 2 * forward - layer_costs(*planned)[0].smoothing < training < 3 * forward
