"""Pooling over scale channels."""

import math

import keras
from keras import ops

from gdn_keras.scale_space.validation import check_choice

POOLINGS = ("max", "average", "logsumexp")


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScalePooling(keras.layers.Layer):
    """Pools over scale channels, which makes a scale-covariant network scale invariant.

    A rescaling of the image shifts the stack of channels along the scale axis; what does not
    depend on the order of the channels does not change (section 4.4 of the paper).

    Example:

    >>> stack = np.random.rand(2, 8, 10)  # 2 images, 8 scale channels, 10 classes
    >>> gdn_keras.layers.ScalePooling("max")(stack).shape
    (2, 10)

    Args:
        pooling: "max", "average" or "logsumexp". The last is a smooth maximum: the logarithm of
            the *mean* over channels of the exponential, so that equal channels give their value.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: [batch, scale channels, ...].

    Output shape:
        [batch, ...].
    """

    def __init__(self, pooling: str = "max", **kwargs):
        super().__init__(**kwargs)
        self.pooling = check_choice("pooling", pooling, POOLINGS)

    def build(self, input_shape):
        if len(input_shape) < 3 or input_shape[1] is None:
            raise ValueError(
                f"`{self.name}` expects [batch, scale channels, ...] with a known number of scale "
                f"channels. Received: input_shape={tuple(input_shape)}"
            )
        self.built = True

    def call(self, inputs):
        if self.pooling == "max":
            # With a start, it takes batches of no images too.
            return ops.max(inputs, axis=1, initial=-math.inf)
        if self.pooling == "average":
            return ops.mean(inputs, axis=1)
        channels = ops.cast(inputs.shape[1], inputs.dtype)
        return ops.logsumexp(inputs, axis=1) - ops.log(channels)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling}
