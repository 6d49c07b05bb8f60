"""Batch normalisation shared by scale channels."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import check_non_negative, check_positive
from gdn_keras.layers._channels import Channels, Edges
from gdn_keras.layers._graph import Step
from gdn_keras.layers._rules import Rule, rule_of


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleBatchNormalization(keras.layers.Layer):
    """Batch normalisation with one set of statistics and weights for all scale channels.

    Mean and variance are taken jointly over the scale channels, each weighted equally however
    many points it has, and the moving averages are updated once a step. All channels thus stay
    the same function of their input, in training as in inference, and scale covariance holds.
    For a single tensor it is ordinary batch normalisation over all axes but the last. Where a batch
    is shared out over devices, the statistics are those of the whole batch. The variance is the
    mean of squares less the square of the mean, in single precision or better: one pass over the
    data, and as good as two for derivatives, whose mean is small beside their deviation.

    Example:

    >>> layer = gdn_keras.layers.ScaleBatchNormalization()
    >>> fine, coarse = np.random.rand(4, 31, 31, 8), np.random.rand(4, 15, 15, 8)
    >>> tuple(y.shape for y in layer([fine, coarse], training=True))
    ((4, 31, 31, 8), (4, 15, 15, 8))

    Args:
        momentum: Share of the old value in the moving averages.
        epsilon: Added to the variance.
        center: Whether there is a learned offset beta.
        scale: Whether there is a learned factor gamma.
        beta_initializer, gamma_initializer, moving_mean_initializer,
        moving_variance_initializer, beta_regularizer, gamma_regularizer, beta_constraint,
        gamma_constraint: As in `keras.layers.BatchNormalization`.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: A tensor [..., channels], or a list of such tensors whose other axes may differ.
        training: Whether to use (and update) the statistics of the batch.
        weights: For a list, the share of each tensor in the statistics, summing to one: the
            number of scale channels that it holds, over all of them. Equal by default.

    Output shape:
        The shapes of the inputs.
    """

    def __init__(
        self,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if check_non_negative("momentum", momentum) >= 1:
            raise ValueError(f"`momentum` must lie in [0, 1). Received: momentum={momentum!r}")
        self.momentum = float(momentum)
        self.epsilon = check_positive("epsilon", epsilon)
        self.center = bool(center)
        self.scale = bool(scale)
        self.beta_initializer = keras.initializers.get(beta_initializer)
        self.gamma_initializer = keras.initializers.get(gamma_initializer)
        self.moving_mean_initializer = keras.initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = keras.initializers.get(moving_variance_initializer)
        self.beta_regularizer = keras.regularizers.get(beta_regularizer)
        self.gamma_regularizer = keras.regularizers.get(gamma_regularizer)
        self.beta_constraint = keras.constraints.get(beta_constraint)
        self.gamma_constraint = keras.constraints.get(gamma_constraint)

    def build(self, input_shape: Any) -> None:
        channels = {shape[-1] for shape in _as_list(input_shape, is_shape=True)}
        if len(channels) != 1 or None in channels:
            raise ValueError(
                f"`{self.name}` needs one known number of feature channels. "
                f"Received: input_shape={input_shape}"
            )
        shape = (channels.pop(),)
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                name="gamma",
                shape=shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
                autocast=False,
            )
        if self.center:
            self.beta = self.add_weight(
                name="beta",
                shape=shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
                autocast=False,
            )
        self.moving_mean = self.add_weight(
            name="moving_mean",
            shape=shape,
            initializer=self.moving_mean_initializer,
            trainable=False,
            autocast=False,
        )
        self.moving_variance = self.add_weight(
            name="moving_variance",
            shape=shape,
            initializer=self.moving_variance_initializer,
            trainable=False,
            autocast=False,
        )
        self.built = True

    def call(
        self, inputs: Any, training: bool | None = None, weights: Sequence[Any] | None = None
    ) -> Any:
        tensors = [ops.cast(x, self.compute_dtype) for x in _as_list(inputs)]
        if training and self.trainable:
            mean, variance = self._joint_statistics(tensors, weights)
            # An empty batch has no statistics to learn from.
            updates = ((self.moving_mean, mean), (self.moving_variance, variance))
            for moving, value in updates if tensors[0].shape[0] != 0 else ():
                moving.assign(moving * self.momentum + value * (1.0 - self.momentum))
        else:
            mean, variance = self.moving_mean, self.moving_variance
        factor, offset = self.affine(mean, variance)
        outputs = [x * ops.cast(factor, x.dtype) + ops.cast(offset, x.dtype) for x in tensors]
        return outputs if isinstance(inputs, (list, tuple)) else outputs[0]

    def affine(self, mean: Any = None, variance: Any = None) -> tuple[Any, Any]:
        """Factor and offset that normalisation amounts to; by default at the moving averages."""
        mean = ops.convert_to_tensor(self.moving_mean if mean is None else mean)
        variance = ops.convert_to_tensor(self.moving_variance if variance is None else variance)
        factor = ops.rsqrt(variance + self.epsilon)
        if self.gamma is not None:
            factor = factor * self.gamma
        offset = -mean * factor
        if self.beta is not None:
            offset = offset + self.beta
        return factor, offset

    def _joint_statistics(
        self, tensors: Sequence[Any], weights: Sequence[Any] | None
    ) -> tuple[Any, Any]:
        weights = [1.0 / len(tensors)] * len(tensors) if weights is None else weights
        mean: Any = 0.0
        square: Any = 0.0
        for x, weight in zip(tensors, weights, strict=True):
            x = ops.cast(x, self.moving_mean.dtype)
            axes = list(range(len(x.shape) - 1))
            mean = mean + weight * ops.mean(x, axis=axes)
            square = square + weight * ops.mean(ops.square(x), axis=axes)
        mean, square = _over_replicas(mean, square, ops.shape(tensors[0])[0])
        return mean, ops.maximum(square - ops.square(mean), 0.0)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
            "moving_mean_initializer": keras.initializers.serialize(self.moving_mean_initializer),
            "moving_variance_initializer": keras.initializers.serialize(
                self.moving_variance_initializer
            ),
            "beta_regularizer": keras.regularizers.serialize(self.beta_regularizer),
            "gamma_regularizer": keras.regularizers.serialize(self.gamma_regularizer),
            "beta_constraint": keras.constraints.serialize(self.beta_constraint),
            "gamma_constraint": keras.constraints.serialize(self.gamma_constraint),
        }


def _over_replicas(mean: Any, square: Any, count: Any) -> tuple[Any, Any]:
    """Means over the batches of all replicas of `tf.distribute`, given those over this one's.

    Other backends need nothing of the kind: JAX's arrays are global.
    """
    if keras.backend.backend() != "tensorflow":
        return mean, square
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return mean, square
    count = ops.cast(count, mean.dtype)
    sums = ops.stack([mean * count, square * count, ops.ones_like(mean) * count])
    # The mean over a replica that got no image is not a number.
    sums = ops.where(count > 0, sums, 0.0)
    mean, square, count = ops.unstack(replica.all_reduce(tf.distribute.ReduceOp.SUM, sums))
    return mean / count, square / count


def _as_list(value: Any, is_shape: bool = False) -> list[Any]:
    """A tensor or shape as a list of one, a list of them as it is."""
    if is_shape:
        nested = value and isinstance(value[0], (list, tuple))
    else:
        nested = isinstance(value, (list, tuple))
    return list(value) if nested else [value]


class _Normalization(Rule):
    """Jointly over the scale channels, each weighted equally however many points it has."""

    def __init__(self, layer: ScaleBatchNormalization):
        self._layer = layer

    def run(
        self, step: Step, inputs: Sequence[Channels], edges: Edges, training: bool | None
    ) -> Channels:
        (channels,) = inputs
        counts = channels.counts if channels.lifted else (1,)
        shares = [count / sum(counts) for count in counts]
        options = {"training": training, "weights": shares, **step.options}
        tensors = self._layer(list(channels.tensors), **options)
        return replace(channels, tensors=tuple(tensors))


@rule_of.register
def _(layer: ScaleBatchNormalization) -> Rule:
    return _Normalization(layer)
