"""The last layer of a network whose classes have names."""

from collections.abc import Sequence
from typing import Any

import keras


@keras.saving.register_keras_serializable(package="gdn_keras")
class ClassScores(keras.layers.Layer):
    """Passes class scores on and says what the classes are called.

    The names travel with the model into its .keras file, its clones and its exports; see
    `class_names_of`.

    Args:
        class_names: The names, all different.
        **kwargs: Of `keras.layers.Layer`.

    Call arguments:
        scores: [..., classes].
    """

    def __init__(self, class_names: Sequence[str], **kwargs: Any):
        super().__init__(**{"dtype": "float32", **kwargs})
        names = tuple(class_names)
        if not names or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise ValueError(
                "`class_names` must be names, all of them different. "
                f"Received: class_names={class_names!r}"
            )
        self.class_names = names

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        if input_shape[-1] != len(self.class_names):
            raise ValueError(
                f"`class_names` must be {input_shape[-1]}, one for each score. "
                f"Received: {len(self.class_names)} of them"
            )

    def call(self, scores: Any) -> Any:
        return scores

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "class_names": list(self.class_names)}
