"""Layers that must not be wrong in silence: gradients of gradients, offsets, edits, sharing."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleBatchNormalization,
    ScaleChannels,
)
from tests.layers.networks import on_tensorflow

FLOAT64 = {"dtype": "float64"}


def scale_channels(sampling="matched"):
    """Smooth, so that finite differences make sense."""
    layers = [
        GaussianDerivative(3, 1.0, **FLOAT64),
        ScaleBatchNormalization(**FLOAT64),
        keras.layers.Activation("tanh", **FLOAT64),
        GaussianDerivative(2, 1.25, order=3, **FLOAT64),
    ]
    network = keras.Sequential(layers)
    return ScaleChannels(network, (1.0, 1.7), "logsumexp", sampling, **FLOAT64)


SMOOTH = {
    "jet": lambda: GaussianDerivative(2, 1.3, **FLOAT64),
    "third order": lambda: GaussianDerivative(2, 0.9, order=3, **FLOAT64),
    "matched": scale_channels,
    "dense": lambda: scale_channels("dense"),
    "normalisation": lambda: ScaleBatchNormalization(**FLOAT64),
}


def penalty_with_gradients(layer, graph):
    """A function of images and trainable weights: sum(g^2) of sum(y^3), and its gradients.

    Args:
        layer: In training.
        graph: Whether the function is compiled; on JAX it always is.
    """
    others = [variable.value for variable in layer.non_trainable_variables]
    options = {} if isinstance(layer, GaussianDerivative) else {"training": True}
    if keras.backend.backend() == "jax":
        import jax

        def cube(tensors):
            y, _ = layer.stateless_call(tensors[1:], others, tensors[0], **options)
            return (y**3).sum()

        def penalty(tensors):
            return sum((g**2).sum() for g in jax.grad(cube)(tensors))

        return jax.jit(jax.value_and_grad(penalty))
    import tensorflow as tf

    def run(tensors):
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as inner:
                inner.watch(tensors)
                y, _ = layer.stateless_call(tensors[1:], others, tensors[0], **options)
                loss = tf.reduce_sum(y**3)
            penalty = tf.add_n([tf.reduce_sum(g**2) for g in inner.gradient(loss, tensors)])
        return penalty, outer.gradient(penalty, tensors)

    return tf.function(run) if graph else run


def as_tensors(values):
    return [keras.ops.convert_to_tensor(value, "float64") for value in values]


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="computes in float32")
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_gradients_are_those_of_finite_differences(name, graph):
    if keras.backend.backend() == "jax" and not graph:
        pytest.skip("the same functions, one by one")
    rng = np.random.default_rng(0)
    layer = SMOOTH[name]()
    x = rng.normal(size=(2, 9, 8, 2))
    layer(x)
    values = [x, *(rng.normal(size=w.shape, scale=0.5) for w in layer.trainable_weights)]
    run = penalty_with_gradients(layer, graph)
    _, gradients = run(as_tensors(values))
    for k, gradient in enumerate(gradients):
        direction = rng.normal(size=values[k].shape)
        penalties = []
        for step in (1e-5, -1e-5):
            moved = [*values[:k], values[k] + step * direction, *values[k + 1 :]]
            penalties.append(run(as_tensors(moved))[0])
        expected = float(penalties[0] - penalties[1]) / 2e-5
        found = float(np.sum(keras.ops.convert_to_numpy(gradient) * direction))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), k
