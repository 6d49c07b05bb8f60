"""A network as a TensorFlow function of images only."""

from types import ModuleType
from typing import Any

import keras

from gdn_keras.export.folding import fold_constants
from gdn_keras.models import network_of, retarget, scale_channels_of, with_channels


def require_tensorflow() -> ModuleType:
    """TensorFlow, if Keras runs on it."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Export needs Keras on TensorFlow: set KERAS_BACKEND=tensorflow and load the .keras "
            f"file of the model there. Received: backend={keras.backend.backend()!r}"
        )
    import tensorflow as tf

    return tf


def in_float32(model: keras.Model) -> keras.Model:
    """The model itself if it computes in float32, else a copy that does.

    Raises:
        ValueError: If it is not a model that can be exported.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(f"`model` must be a keras.Model. Received: model={model!r}")
    channels = scale_channels_of(model)
    ranks = len(channels.output.shape), len(model.output_shape)
    if ranks != (3, 2):
        raise ValueError(
            "`model` must go from images over a stack [batch, scale channels, classes], "
            '`ScaleChannels(..., pooling=None)` with readout="center", to logits [batch, classes]. '
            f"Received: {tuple(channels.output.shape)} and {tuple(model.output_shape)}"
        )
    if all(layer.compute_dtype == "float32" for layer in _all_layers(model)):
        return model
    model = retarget(model)
    for layer in _all_layers(model):
        layer.dtype_policy = "float32"
    return model


def freeze(model: keras.Model) -> Any:
    """The network as a function from float32 images to `logits` and `channel_logits`.

    Nothing is left in it that could be computed once.
    """
    tf = require_tensorflow()
    both = with_channels(model)
    weights = [
        [keras.ops.convert_to_numpy(variable) for variable in variables]
        for variables in (both.trainable_variables, both.non_trainable_variables)
    ]

    @tf.function
    def network(images: Any) -> dict[str, Any]:
        outputs, _ = both.stateless_call(*weights, images, training=False)
        names = ("logits", "channel_logits")
        return {name: tf.identity(y) for name, y in zip(names, outputs, strict=True)}

    spec = tf.TensorSpec([None, *model.input_shape[1:]], "float32", name="images")
    return fold_constants(network.get_concrete_function(spec))


def _all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    network = network_of(model)
    return [model, *model.layers, *network.layers, *scale_channels_of(model).shared_layers]
