"""Models that check the images they are given, and know what their classes are called."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from gdn_keras.checks import check_images, require

# A mixin in fact: Keras changes the bases of functional models, which would reach subclassed ones.
_Model = keras.Model if TYPE_CHECKING else object


class CheckedImages(_Model):
    """Models of one batch of images, which is checked before Keras sees it.

    Keras accepts an empty batch silently in `fit` and fails obscurely in `predict`. After
    images of several sizes, its errors no longer say what is wrong with the next. A model that
    `takes_pixels`, of 0 to 255 and any dtype, refuses arrays that cannot be pixels.
    """

    takes_pixels = False

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> keras.callbacks.History:
        """As for any Keras model, with at least one image."""
        return super().fit(self._checked(x, y), y, *args, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As for any Keras model, with at least one image."""
        return super().evaluate(self._checked(x, y), y, *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As for any Keras model, with at least one image."""
        return super().predict(self._checked(x), *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """As for any Keras model, with at least one image."""
        return super().predict_on_batch(self._checked(x))

    def export(self, filepath: Any, *args: Any, input_signature: Any = None, **kwargs: Any) -> None:
        """As for any Keras model, without the need to call it first."""
        if input_signature is None:
            shape = (None, *self.input_shape[1:])
            input_signature = [keras.InputSpec(dtype="float32", shape=shape, name="images")]
        super().export(filepath, *args, input_signature=input_signature, **kwargs)

    def _checked(self, images: Any, labels: Any = None) -> Any:
        """The images, checked, as are labels of one number per image where the loss takes such."""
        loss = getattr(self, "loss", None)
        is_sparse = "sparse" in str(getattr(loss, "name", loss))
        if is_sparse and labels is not None and getattr(loss, "ignore_class", None) is None:
            wrong, classes = np.asarray(labels).ravel(), self.output_shape[-1]
            if hasattr(labels, "shape") and wrong.dtype.kind in "biuf":
                wrong = wrong[~((wrong >= 0) & (wrong < classes) & (wrong % 1 == 0))]
            if wrong.size:
                raise ValueError(
                    "Labels must be an array of whole numbers below the number of classes, "
                    f"{classes}. Received: {wrong[:1].tolist()[0]!r}"
                )
        return check_images(images, self.input_shape[-1], self.takes_pixels)


class PackedNetwork(keras.Model):
    """A network with its preprocessor, or `None`, in front. Both travel into files and exports."""

    def __init__(self, network: keras.Model, preprocessor: Any = None, **kwargs: Any):
        is_layer = preprocessor is None or isinstance(preprocessor, keras.layers.Layer)
        require(is_layer, "preprocessor", "be a Keras layer", preprocessor)
        super().__init__(**kwargs)
        self.network = network
        self.preprocessor = preprocessor
        self.takes_pixels = preprocessor is not None
        self.built = True

    @classmethod
    def from_preset(cls, preset: str, **overrides: Any) -> Any:
        """A trained model of this kind by its name; see `gdn_keras.from_preset`."""
        import gdn_keras  # presets are above all models

        model = gdn_keras.from_preset(preset, **overrides)
        if not isinstance(model, cls):
            raise ValueError(
                f"`preset` must name a trained {cls.__name__}. Received: preset={preset!r}, which "
                f"is a {type(model).__name__}"
            )
        return model

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        inputs = inputs if self.preprocessor is None else self.preprocessor(inputs)
        return self.network(inputs, training=training)

    def get_config(self) -> dict[str, Any]:
        parts = {"network": self.network, "preprocessor": self.preprocessor}
        parts = {n: keras.saving.serialize_keras_object(part) for n, part in parts.items()}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        parts = {
            name: keras.saving.deserialize_keras_object(config[name], custom_objects)
            for name in ("network", "preprocessor")
        }
        return cls(**{**config, **parts})


@keras.saving.register_keras_serializable(package="gdn_keras")
class ImageModel(CheckedImages, keras.Model):
    """A functional model of one batch of images, which it checks before Keras sees it.

    >>> images = keras.Input((24, 24, 3))
    >>> model = ImageModel(images, keras.layers.GlobalMaxPooling2D()(images))
    >>> model.predict(np.zeros((0, 24, 24, 3)))
    Traceback (most recent call last):
    ValueError: There must be at least one image. Received: shape (0, 24, 24, 3)
    """


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
        network: A functional model from images to class scores [..., classes], which is not copied.
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
        is_built = isinstance(network, keras.Model) and network.built
        require(is_built, "network", "be a functional or built model", network)
        super().__init__(network, preprocessor, **kwargs)
        self.class_names = tuple(check_names(class_names, network.output_shape[-1], distinct=True))

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


def check_names(names: Sequence[str] | None, count: int, distinct: bool = False) -> list[str]:
    """Names of classes; their numbers if there are none."""
    names = [str(k) for k in range(count)] if names is None else list(names)
    fit = len(names) == count and all(isinstance(name, str) for name in names)
    text = f"be {count} strings, one for each class{', all of them different' * distinct}"
    require(fit and not (distinct and len({*names}) < count), "class_names", text, names)
    return names
