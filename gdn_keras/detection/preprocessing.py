"""From grey values to what networks of digits take."""

import math
from typing import Any

import keras
from keras import ops

from gdn_keras.datasets.contrast import GAIN, MIDPOINT


@keras.saving.register_keras_serializable(package="gdn_keras")
class SoftThreshold(keras.layers.Layer):
    """The contrast of MNIST Large Scale, (2 / pi) arctan(0.02 (I - 128)), for grey values I.

    Call arguments:
        inputs: Grey values from 0 to 255, integers or floats, of any shape.

    Output shape:
        The same, floats between -0.764 and 0.761.
    """

    def call(self, inputs: Any) -> Any:
        grey = ops.cast(inputs, self.compute_dtype)
        return (2 / math.pi) * ops.arctan(GAIN * (grey - MIDPOINT))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)
