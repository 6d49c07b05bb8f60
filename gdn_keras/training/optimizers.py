"""Optimizers after which TensorFlow forgets the graphs of a training."""

from collections.abc import Sequence
from typing import Any

import keras


def on_one_device(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The same optimizer, leaving no memory behind after `fit` where no replicas are in use.

    On TensorFlow, Keras sums gradients over replicas even if there is one only. That sum has a
    custom gradient, and TensorFlow never forgets a custom gradient, nor the graph around it: each
    `fit` of a new network leaves its graphs behind, for stock layers too. Outside of a replica
    there is nothing to sum. Steps stay the same, and so do configuration and files.

    Example:

    >>> optimizer = on_one_device(keras.optimizers.Adam(0.01))

    Args:
        optimizer: Changed in place. Under a `tf.distribute` strategy, and on other backends, it
            works as before.

    Returns:
        `optimizer`.
    """
    if keras.backend.backend() != "tensorflow":
        return optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):  # works inside of replicas only
        on_one_device(optimizer.inner_optimizer)
        return optimizer
    import tensorflow as tf

    apply = optimizer.apply

    def apply_outside_of_replica(
        grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None
    ) -> Any:
        replica = tf.distribute.get_replica_context()
        if tf.distribute.has_strategy() or replica is None:
            return apply(grads, trainable_variables)
        step = tf.autograph.experimental.do_not_convert(
            lambda strategy: apply(grads, trainable_variables)
        )
        return replica.merge_call(step)

    optimizer.apply = apply_outside_of_replica
    return optimizer
