"""A training step on JAX stays on the device, and is compiled once."""

import keras
import numpy as np
import pytest

from gdn_keras.models import gaussian_derivative_network

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="about JAX")

CLASSES = 3
# What leaves the device in the middle of a step.
HOST = {"pure_callback", "io_callback", "debug_callback", "debug_print", "infeed", "outfeed"}


@pytest.fixture(params=["center", "points"])
def network(request):
    scales = (1.0, 2**0.5, 2.0)
    return gaussian_derivative_network((32, 32, 1), (4, 6), CLASSES, scales, readout=request.param)


def batch(network, count=4):
    rng = np.random.default_rng(0)
    shape = network.compute_output_shape((count, 32, 32, 1))
    labels = rng.integers(0, 2, shape).astype("float32")
    return rng.normal(size=(count, 32, 32, 1)).astype("float32"), labels


def training_step(network):
    """The whole step as a function of state and data, and the state."""
    import jax

    loss, optimizer = keras.losses.BinaryCrossentropy(from_logits=True), keras.optimizers.Adam(0.01)
    optimizer.build(network.trainable_variables)

    def value(trainable, other, images, labels):
        y, other = network.stateless_call(trainable, other, images, training=True)
        return loss(labels, y), other

    def step(trainable, other, slots, images, labels):
        gradients, other = jax.grad(value, has_aux=True)(trainable, other, images, labels)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return trainable, other, slots

    groups = (network.trainable_variables, network.non_trainable_variables, optimizer.variables)
    return step, [[v.value for v in group] for group in groups]


def primitives(jaxpr):
    """Equations of a jaxpr and of all that are inside of it."""
    import jax

    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if isinstance(inner, jax.extend.core.ClosedJaxpr):
                    yield from primitives(inner.jaxpr)
                elif isinstance(inner, jax.extend.core.Jaxpr):
                    yield from primitives(inner)


def test_nothing_goes_through_the_host(network):
    import jax
    import jax.extend

    step, state = training_step(network)
    names = {
        equation.primitive.name
        for equation in primitives(jax.make_jaxpr(step)(*state, *batch(network)).jaxpr)
    }
    assert "conv_general_dilated" in names and "dot_general" in names
    assert not names & HOST
    assert "device_put" not in names
    compiled = jax.jit(step).lower(*state, *batch(network)).compile().as_text()
    assert not any(word in compiled for word in ("callback", "infeed", "outfeed"))


def test_a_second_step_compiles_nothing(network):
    import jax

    compiled = []

    def listen(name, seconds, **details):
        if "backend_compile" in name:
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(0.01), loss, jit_compile=True)
    images, labels = batch(network)
    network.train_on_batch(images, labels)
    assert compiled
    compiled.clear()
    network.train_on_batch(images + 1, labels)
    assert not compiled
