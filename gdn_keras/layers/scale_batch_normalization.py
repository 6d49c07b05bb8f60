"""Batch normalization shared by scale channels."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import check_non_negative, check_positive, require
from gdn_keras.layers._channels import Channels
from gdn_keras.scale_space import Node


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleBatchNormalization(keras.layers.BatchNormalization):
    """Batch normalization with one set of statistics and weights for all scale channels.

    Mean and variance are taken jointly over the scale channels, each weighted equally however
    many points it has, and the moving averages are updated once a step. All channels thus stay
    the same function of their input, in training as in inference, and scale covariance holds.
    For a single tensor it is ordinary batch normalization over all axes but the last. Statistics
    are those of the whole batch, even where several devices share it.

    Example:

    >>> layer = gdn_keras.layers.ScaleBatchNormalization()
    >>> fine, coarse = np.random.rand(4, 31, 31, 8), np.random.rand(4, 15, 15, 8)
    >>> tuple(y.shape for y in layer([fine, coarse], training=True))
    ((4, 31, 31, 8), (4, 15, 15, 8))

    Args:
        momentum: Share of the old value in the moving averages.
        epsilon: Added to the variance.
        **kwargs: Passed to `keras.layers.BatchNormalization`. `axis`, `renorm` and `synchronized`
            keep their defaults there.

    Call arguments:
        inputs: A tensor [..., channels], or a list of such tensors whose other axes may differ.
        training: Whether to use (and update) the statistics of the batch.
        weights: For a list, the share of each tensor in the statistics, summing to one: the
            number of scale channels that it holds, over all of them. Equal by default.
    """

    joint = True  # over scale channels, which `ScaleChannels` passes together

    def __init__(self, momentum: float = 0.9, epsilon: float = 1e-5, **kwargs: Any):
        require(check_non_negative("momentum", momentum) < 1, "momentum", "lie in [0, 1)", momentum)
        check_positive("epsilon", epsilon)
        super().__init__(momentum=momentum, epsilon=epsilon, **kwargs)
        if self.axis != -1 or self.renorm or self.synchronized:
            raise ValueError(
                "`axis`, `renorm` and `synchronized` must be left out: statistics are those of the "
                f"whole batch, for each feature of the last axis. Received: axis={self.axis}, "
                f"renorm={self.renorm}, synchronized={self.synchronized}"
            )
        self.supports_masking = False  # statistics would count what is masked

    def build(self, input_shape: Any) -> None:
        shapes = input_shape if isinstance(input_shape[0], (list, tuple)) else [input_shape]
        channels = {shape[-1] for shape in shapes}
        if len(channels) != 1 or None in channels:
            text = f"`{self.name}` needs one known number of feature channels."
            raise ValueError(f"{text} Received: input_shape={input_shape}")
        super().build(shapes[0])
        self.input_spec = None  # one tensor is taken, and a list of any length
        self.built = True

    def call(
        self, inputs: Any, training: bool | None = None, weights: Sequence[Any] | None = None
    ) -> Any:
        nested = isinstance(inputs, (list, tuple))
        tensors = list(inputs) if nested else [inputs]
        channels = self.moving_mean.shape[0]
        if any(x.shape[-1] != channels for x in tensors):
            text = f"`{self.name}` was built for {channels} feature channels. Received:"
            raise ValueError(f"{text} inputs of shapes {[tuple(x.shape) for x in tensors]}")
        # Half precision is too coarse for statistics, and for an offset that cancels.
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        tensors = [ops.cast(x, dtype) for x in tensors]
        if training and self.trainable:
            tensors, mean, variance = self._learned(tensors, weights)
        else:
            mean, variance = self.moving_mean, self.moving_variance
        factor, offset = (ops.cast(value, dtype) for value in self.affine(mean, variance))
        outputs = [ops.cast(x * factor + offset, self.compute_dtype) for x in tensors]
        return outputs if nested else outputs[0]

    def node(self, inputs: tuple[int, ...]) -> Node:
        """A tensor on the grid of the one before, for `ScaleChannels`."""
        return Node(inputs)

    def run_channels(self, inputs: Channels, number: int, training: bool | None) -> Channels:
        """The layer in all matched scale channels, each weighted equally."""
        shares = [count / sum(inputs.counts) for count in inputs.counts]
        tensors = self(list(inputs.tensors), training=training, weights=shares)
        return replace(inputs, tensors=tuple(tensors))

    def affine(self, mean: Any = None, variance: Any = None) -> tuple[Any, Any]:
        """Factor and offset that normalization amounts to; by default at the moving averages."""
        mean = ops.convert_to_tensor(self.moving_mean if mean is None else mean)
        variance = ops.convert_to_tensor(self.moving_variance if variance is None else variance)
        factor = ops.rsqrt(variance + self.epsilon)
        if self.gamma is not None:
            factor = factor * ops.cast(self.gamma, factor.dtype)
        offset = -mean * factor
        if self.beta is not None:
            offset = offset + ops.cast(self.beta, offset.dtype)
        return factor, offset

    def _learned(
        self, tensors: Sequence[Any], weights: Sequence[Any] | None
    ) -> tuple[list[Any], Any, Any]:
        """Tensors less c, their mean and their variance; the moving averages learn from them.

        V = E[(x - c)^2] - E[x - c]^2 for any c, and to all orders of differentiation. The nearer c
        is to the mean, the less cancels. For the mean of the first image, the rounding error of V
        grows by the number of images at most, since V is at least their share of (c - E[x])^2.
        """
        weights = [1.0 / len(tensors)] * len(tensors) if weights is None else weights
        shift = ops.stop_gradient(_joint_mean([x[:1] for x in tensors], weights))
        tensors = [x - shift for x in tensors]
        mean = _joint_mean(tensors, weights)
        variance = _joint_mean([ops.square(x) for x in tensors], weights) - ops.square(mean)
        mean, variance, count = _over_replicas(shift + mean, variance, ops.shape(tensors[0])[0])
        variance = ops.maximum(variance, 0)
        for moving, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            old = ops.cast(moving, value.dtype)
            new = old * self.momentum + value * (1.0 - self.momentum)
            moving.assign(ops.where(count > 0, new, old))  # nothing is learned from no images
        return tensors, mean - shift, variance


def _joint_mean(tensors: Sequence[Any], weights: Sequence[Any]) -> Any:
    """The mean of each feature, over tensors of which each has its share."""
    result: Any = 0.0
    for x, weight in zip(tensors, weights, strict=True):
        # Not `ops.mean`, which has single precision at most on JAX.
        points = ops.cast(ops.size(x), x.dtype) / x.shape[-1]
        result = result + weight * (ops.sum(x, axis=list(range(len(x.shape) - 1))) / points)
    return result


def _over_replicas(mean: Any, variance: Any, count: Any) -> tuple[Any, Any, Any]:
    """Mean, variance and count of all replicas of `tf.distribute`, given those of this one."""
    replica = replica_context()
    if replica is None:
        return mean, variance, count
    count = ops.cast(count, mean.dtype)

    def total(value: Any) -> Any:
        # The mean over a replica that got no image is not a number.
        return replica.all_reduce("SUM", ops.where(count > 0, value * count, 0))

    images = total(ops.ones_like(mean))
    joint = total(mean) / images
    return joint, total(variance + ops.square(mean - joint)) / images, images


def replica_context() -> Any:
    """The context of one of several replicas of `tf.distribute`, or `None`.

    Other backends need nothing of the kind: JAX's arrays are global.
    """
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    return None if replica is None or replica.num_replicas_in_sync == 1 else replica
