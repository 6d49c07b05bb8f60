"""Networks that take pixels and know what their classes are called."""

from collections.abc import Sequence
from typing import Any

import keras

from gdn_keras.models.image_model import CheckedImages, PackedNetwork


@keras.saving.register_keras_serializable(package="gdn_keras")
class Classifier(CheckedImages, PackedNetwork):
    """A network with its preprocessor in front and the names of its classes.

    With a preprocessor it takes pixels of 0 to 255, whatever their dtype; without one, what the
    network takes. Both parts travel with it into its .keras file, its clones and its exports.

    Example:

    >>> network = gdn_keras.models.gaussian_derivative_network((64, 64, 3), num_classes=2)
    >>> model = Classifier(network, ["cat", "dog"], keras.layers.Rescaling(1 / 255))
    >>> model.predict(np.zeros((1, 64, 64, 3), "uint8"), verbose=0).shape
    (1, 2)

    Args:
        network: A functional model from images to class scores [..., classes]. It is part of the
            classifier, not copied.
        class_names: One name for each score, all different; their numbers by default.
        preprocessor: Layer from pixels of 0 to 255 to what `network` takes, or `None`.
        **kwargs: Of `keras.Model`.
    """

    def __init__(
        self,
        network: keras.Model,
        class_names: Sequence[str] | None = None,
        preprocessor: keras.layers.Layer | None = None,
        **kwargs: Any,
    ):
        if not isinstance(network, keras.Model) or not network.built:
            raise ValueError(
                f"`network` must be a functional or built model. Received: network={network!r}"
            )
        if preprocessor is not None and not isinstance(preprocessor, keras.layers.Layer):
            raise ValueError(
                f"`preprocessor` must be a Keras layer. Received: preprocessor={preprocessor!r}"
            )
        super().__init__(network, preprocessor, **kwargs)
        self.class_names = _check_names(class_names, network.output_shape[-1])

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """Shape of the images, as in a functional model."""
        return self.network.input_shape

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of the scores, as in a functional model."""
        return self.network.output_shape

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return self.network.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "class_names": list(self.class_names)}


def _check_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    names = tuple(map(str, range(count)) if names is None else names)
    if not all(isinstance(name, str) for name in names) or not len({*names}) == len(names) == count:
        raise ValueError(
            f"`class_names` must be {count} names, all of them different, one for each score. "
            f"Received: class_names={names!r}"
        )
    return names
