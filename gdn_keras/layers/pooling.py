"""Reading the center of a feature map, and pooling over scale channels."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from gdn_keras.checks import check_choice, check_image_shape, check_non_negative, require
from gdn_keras.scale_space import Node

POOLINGS = ("max", "average", "logsumexp")


@keras.saving.register_keras_serializable(package="gdn_keras")
class CentralPixel(keras.layers.Layer):
    """Reads feature maps at the center of the image, [batch, channels].

    Along an axis of even length that is the mean of the two pixels beside the center, so that an
    even by even image gives the mean of its central 2x2 pixels.

    Example:

    >>> gdn_keras.layers.CentralPixel()(np.ones((1, 28, 28, 3))).shape
    (1, 3)
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self.name, input_shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        check_image_shape(self.name, inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras leaves integers as they are
        for _ in range(2):
            size = inputs.shape[1] or ops.shape(inputs)[1]
            # One index where the length is odd. Half precision cannot hold all sums: halved before.
            inputs = inputs[:, (size - 1) // 2] / 2 + inputs[:, size // 2] / 2
        return inputs

    def node(self, inputs: tuple[int, ...]) -> Node:
        """The center is read of the tensor before, for `ScaleChannels`."""
        return Node(inputs, read="center")

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return (input_shape[0], input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return super().get_config()  # defined here, it takes dtype policies that are objects


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScalePooling(keras.layers.Layer):
    """Pools over scale channels, which makes a scale-covariant network scale invariant.

    Rescaling the image shifts the stack of channels along the scale axis. A function that does
    not depend on the order of the channels does not change (section 4.4 of the paper).

    Example:

    >>> stack = np.random.rand(2, 8, 10)  # 2 images, 8 scale channels, 10 classes
    >>> gdn_keras.layers.ScalePooling("max")(stack).shape
    (2, 10)

    Args:
        pooling: "max", "average" or "logsumexp", a smooth maximum: the logarithm of the *mean* over
            channels of the exponential, so that equal channels give their value.
        dropout: Share of whole scale channels that are left out at random in training, anew for
            each image; at least one is kept. Channels other than the best one then learn too.
        seed: Seed of the dropout.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: [batch, scale channels, ...].
        training: Whether channels are left out.
    """

    def __init__(
        self, pooling: str = "max", dropout: float = 0.0, seed: int | None = None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        self.dropout = check_non_negative("dropout", dropout)
        require(self.dropout < 1, "dropout", "lie in [0, 1)", dropout)
        self.seed = seed
        if self.dropout:
            self._random = keras.random.SeedGenerator(seed)

    def build(self, input_shape: Sequence[int | None]) -> None:
        if len(input_shape) < 3 or not input_shape[1]:
            raise ValueError(
                f"`{self.name}` expects [batch, scale channels, ...] with a known number of scale "
                f"channels. Received: input_shape={tuple(input_shape)}"
            )
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras leaves integers as they are
        kept = self._kept(inputs) if training and self.dropout else None
        if self.pooling == "average":
            if kept is None:
                return ops.mean(inputs, axis=1)
            share = 1 / ops.sum(ops.cast(kept, inputs.dtype), axis=1, keepdims=True)
            # Shares before the sum, which half precision could not hold.
            return ops.sum(ops.where(kept, inputs * share, 0), axis=1)
        if kept is not None:
            inputs = ops.where(kept, inputs, ops.cast(-math.inf, inputs.dtype))
        if self.pooling == "max":
            # With a start, it takes batches of no images too.
            return ops.max(inputs, axis=1, initial=-math.inf)
        total = ops.logsumexp(inputs, axis=1)
        if kept is None:
            return total - math.log(inputs.shape[1])
        return total - ops.log(ops.sum(ops.cast(kept, inputs.dtype), axis=1))

    def _kept(self, inputs: Any) -> Any:
        """Which channels stay, [batch, scale channels, 1, ...]: at least one of each image."""
        shape = (ops.shape(inputs)[0], inputs.shape[1])
        drawn = keras.random.uniform(shape, dtype="float32", seed=self._random)
        last = ops.max(drawn, axis=1, keepdims=True, initial=-math.inf)
        kept = ops.logical_or(drawn >= self.dropout, drawn >= last)
        return ops.reshape(kept, (-1, inputs.shape[1], *(1 for _ in inputs.shape[2:])))

    def save_own_variables(self, store: Any) -> None:
        # So that a training which goes on from a file leaves out the same channels.
        if self.dropout:
            store["random"] = ops.convert_to_numpy(self._random.state)

    def load_own_variables(self, store: Any) -> None:
        if self.dropout and "random" in store:
            self._random.state.assign(store["random"])

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return (input_shape[0], *input_shape[2:])

    def get_config(self) -> dict[str, Any]:
        own = {"pooling": self.pooling, "dropout": self.dropout, "seed": self.seed}
        return {**super().get_config(), **own}
