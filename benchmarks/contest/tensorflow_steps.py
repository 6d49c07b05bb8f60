"""The contestants that run on TensorFlow, as functions that compute one step."""

import time

import keras
import numpy as np
import tensorflow as tf

from contest.arithmetic import needed_multiply_adds
from contest.literal_keras import LiteralNetwork
from contest.tasks import Task
from gdn_keras.analysis.covariance import covariance_error
from gdn_keras.datasets import load_embedded_digits, rescale_images
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import gaussian_derivative_network, scale_channels_of
from gdn_keras.scale_space import SAMPLINGS

VERSIONS = {"tensorflow": tf.__version__, "keras": keras.__version__, "numpy": np.__version__}


def make_network(task: Task) -> keras.Model:
    """The contestant's network, built."""
    shape = (task.side, task.side, 1)
    if task.contestant in SAMPLINGS:
        arguments = shape, task.widths[:-1], task.widths[-1], task.scales
        return gaussian_derivative_network(*arguments, sampling=task.contestant)
    if task.contestant == "plain_cnn":
        return plain_cnn(shape, task.widths)
    network = LiteralNetwork(task.widths, task.scales, task.truncation)
    network(np.zeros((1, *shape), "float32"))
    return network


def plain_cnn(shape, widths, head="average", dropout=0.0, crop=None) -> keras.Model:
    """3×3 convolutions of the same widths, each followed by pooling, and a dense layer.

    It takes the average over all places, or with "flatten" a weight for each of them; `dropout` is
    the share of its inputs that training leaves out. With `crop` the network sees only the middle
    of an image, of this height and width.
    """
    x = images = keras.Input(shape)
    if crop is not None:
        before = [(length - crop) // 2 for length in shape[:2]]
        after = [length - crop - n for length, n in zip(shape[:2], before, strict=True)]
        x = keras.layers.Cropping2D(tuple(zip(before, after, strict=True)))(x)
    for width in widths[:-1]:
        x = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        x = keras.layers.MaxPooling2D(2, padding="same")(keras.layers.ReLU()(x))
    heads = {"average": keras.layers.GlobalAveragePooling2D, "flatten": keras.layers.Flatten}
    x = keras.layers.Dropout(dropout)(heads[head]()(x))
    return keras.Model(images, keras.layers.Dense(widths[-1])(x))


def make_step(task: Task):
    """A function of the number of images that computes one step and waits for its end."""
    network = make_network(task)
    step = training_step(network, task) if task.mode == "training" else _forward(network, task)

    def run(batch: int) -> None:
        step(*make_batch(task, batch)).numpy()

    run.flops = _needed_flops(network, task)
    return run


def make_batch(task: Task, batch: int) -> tuple:
    """Images, and with them labels where the task is training."""
    rng = np.random.default_rng(0)
    images = tf.constant(rng.normal(size=(batch, task.side, task.side, 1)), tf.float32)
    if task.mode == "forward":
        return (images,)
    return images, tf.one_hot(rng.integers(task.widths[-1], size=batch), task.widths[-1])


def _forward(network, task):
    signature = [tf.TensorSpec((None, task.side, task.side, 1), tf.float32)]
    return tf.function(lambda x: network(x, training=False), input_signature=signature)


def training_step(network, task, batch=None):
    """The paper's training step: binary cross-entropy on logits, Adam; for any batch, or one."""
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(network.trainable_variables)
    signature = [
        tf.TensorSpec((batch, task.side, task.side, 1), tf.float32),
        tf.TensorSpec((batch, task.widths[-1]), tf.float32),
    ]

    @tf.function(input_signature=signature)
    def step(images, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, network(images, training=True))
        gradients = tape.gradient(value, network.trainable_variables)
        optimizer.apply(gradients, network.trainable_variables)
        return value

    return step


def _needed_flops(network, task) -> float | None:
    """Floating-point operations an image that the plan of a `gdn_keras` network needs."""
    if task.contestant not in SAMPLINGS:
        return None
    shape = (task.side, task.side, 1)
    return 2 * needed_multiply_adds(scale_channels_of(network), shape, task.mode)


def matrix_product_rate(size: int, repeats: int = 3) -> dict[str, float]:
    """Flop/s of float32 matrix products: of TensorFlow and of NumPy, the best of a few."""
    a = np.random.default_rng(0).normal(size=(size, size)).astype("float32")
    b = tf.constant(a)
    multiply = tf.function(lambda x: tf.matmul(x, x))
    products = {"tensorflow": lambda: multiply(b).numpy(), "numpy": lambda: a @ a}
    best = dict.fromkeys(products, 0.0)
    for _ in range(repeats + 1):
        for name, product in products.items():
            start = time.perf_counter()
            product()
            best[name] = max(best[name], 2 * size**3 / (time.perf_counter() - start))
    return best


def _remove_offset(network) -> None:
    """Make the logits a pure combination of derivatives.

    A constant that the last normalisation adds is the same in all channels; relative errors
    would be small beside it, whatever the derivatives do.
    """
    layers = scale_channels_of(network).network.layers
    *_, last = (layer for layer in layers if layer.weights)
    if hasattr(last, "moving_mean"):
        gamma, beta, mean, variance = last.get_weights()
        last.set_weights([gamma, 0 * beta, 0 * mean, variance])


def covariance_errors(task: Task, factors=(2**0.5, 2.0)) -> dict:
    """Relative errors between matching channels of the untrained network, by factor.

    Random weights, with the statistics of the normalisation taken from digits.
    """
    keras.utils.set_random_seed(0)
    network = make_network(task)
    digits = load_embedded_digits().x_train[:8].astype("float32")
    images = rescale_images(digits, task.side / 56, (task.side, task.side))[..., None]
    images = ArctanContrast()(images)
    calibrate = tf.function(lambda x: network(x, training=True))
    for _ in range(30):
        calibrate(images)
    _remove_offset(network)
    measured = [covariance_error(network, factor) for factor in factors]
    return {
        f"{errors.factor:.4g}": dict(
            zip((f"{s:.3g}" for s in errors.scales), map(float, errors.output), strict=True)
        )
        for errors in measured
    }
