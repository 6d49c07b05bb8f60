"""Networks that take raw pixels and know what their classes are called."""

from collections.abc import Sequence
from typing import Any

import keras

from gdn_keras.models.class_scores import ClassScores
from gdn_keras.models.image_model import ImageModel
from gdn_keras.models.raw_pixels import RawPixels


def as_classifier(
    model: keras.Model,
    preprocessing: keras.layers.Layer | None = None,
    class_names: Sequence[str] | None = None,
) -> keras.Model:
    """The same network with its preprocessing in front and the names of its classes at the end.

    Example:

    >>> network = gdn_keras.models.gaussian_derivative_network((64, 64, 3), classes=2)
    >>> network = as_classifier(network, keras.layers.Rescaling(1 / 255), ["cat", "dog"])
    >>> network.predict(np.zeros((1, 64, 64, 3), "uint8"))  # doctest: +SKIP

    Args:
        model: A functional model from images to class scores, with neither of the two.
        preprocessing: Layer from integer pixels to what `model` takes, see `RawPixels`.
        class_names: One name for each score.

    Returns:
        A functional model with its own copy of the weights.
    """
    images = keras.Input(model.input_shape[1:], name=model.inputs[0].name)
    prepared = images
    if preprocessing is not None:
        copy = type(preprocessing).from_config(preprocessing.get_config())
        prepared = RawPixels(copy, name="raw_pixels")(images)

    def call(layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
        args = tuple(prepared if argument is images else argument for argument in args)
        return layer(*args, **kwargs)

    clone = keras.models.clone_model(
        model, input_tensors=images, clone_function=_copy, call_function=call
    )
    scores = clone.output
    if class_names is not None:
        scores = ClassScores(class_names, name="class_scores")(scores)
    result = ImageModel(images, scores, name=model.name)
    result.set_weights(model.get_weights())
    return result


def class_names_of(model: keras.Model) -> tuple[str, ...] | None:
    """What the classes of a model are called, or `None` if it does not know."""
    return next((x.class_names for x in model.layers if isinstance(x, ClassScores)), None)


def preprocessing_of(model: keras.Model) -> keras.layers.Layer | None:
    """The layer that turns raw pixels into what the network takes, or `None` without one."""
    return next((x.preprocessing for x in model.layers if isinstance(x, RawPixels)), None)


def _copy(layer: keras.layers.Layer) -> keras.layers.Layer:
    return type(layer).from_config(layer.get_config())
