"""Reading the centre of a feature map."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from gdn_keras.layers._validation import check_image_shape
from gdn_keras.scale_space import Node


@keras.saving.register_keras_serializable(package="gdn_keras")
class CentralPixel(keras.layers.Layer):
    """Reads feature maps at the centre of the image.

    Along an axis of odd length that is the central pixel; along one of even length, the mean of
    the two pixels beside the centre, so that an even by even image gives the mean of its central
    2x2 pixels.

    Example:

    >>> gdn_keras.layers.CentralPixel()(np.ones((1, 28, 28, 3))).shape
    (1, 3)

    Call arguments:
        inputs: Images [batch, height, width, channels], of known or unknown size.

    Output shape:
        [batch, channels].
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self, input_shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        check_image_shape(self, inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras leaves integers as they are
        for _ in range(2):
            size = inputs.shape[1] or ops.shape(inputs)[1]
            # Both indices are the central one where the length is odd.
            # Halved before they are added, which half precision can hold.
            inputs = inputs[:, (size - 1) // 2] / 2 + inputs[:, size // 2] / 2
        return inputs

    def node(self, inputs: tuple[int, ...]) -> Node:
        """The centre is read of the tensor before, for `ScaleChannels`."""
        return Node(inputs, read="center")

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return (input_shape[0], input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return super().get_config()  # defined here, it takes dtype policies that are objects
