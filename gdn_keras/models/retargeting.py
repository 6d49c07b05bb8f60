"""Other models from the weights of one: other sizes and scales, the stack before pooling."""

import math
from collections.abc import Sequence
from typing import Any

import keras

from gdn_keras.checks import check_choice, check_input_shape, require
from gdn_keras.layers import GaussianDerivative, ScaleChannels, ScalePooling
from gdn_keras.models.gaussian_derivative_network import OUTPUTS, READOUTS
from gdn_keras.models.image_model import Classifier, ImageModel
from gdn_keras.scale_space import jet_orders


def network_of(model: keras.Model) -> keras.Model:
    """The network of a classifier or a detector; any other model is its own network."""
    return getattr(model, "network", model)


def scale_channels_of(model: keras.Model) -> ScaleChannels:
    """The `ScaleChannels` layer of a model."""
    require(isinstance(model, keras.Model), "model", "be a keras.Model", model)
    found = [layer for layer in network_of(model).layers if isinstance(layer, ScaleChannels)]
    if len(found) != 1:
        text = "`model` must hold exactly one ScaleChannels layer."
        raise ValueError(f"{text} Received: model={model.name!r} with {len(found)} of them")
    return found[0]


def _require_graph(model: keras.Model) -> ScaleChannels:
    """The `ScaleChannels` layer of a model, if it is known what the layer is connected to."""
    layer = scale_channels_of(model)
    if not hasattr(layer, "output"):
        raise ValueError(
            "`model` must be a functional or a built sequential model, so that its graph is known. "
            f"Received: model={model.name!r}, which has no inputs yet"
        )
    return layer


def retarget(
    model: keras.Model,
    input_shape: Sequence[int | None] | None = None,
    scales: Sequence[float] | None = None,
    readout: str | None = None,
    surround: float | None = None,
) -> keras.Model:
    """The same network, with the same weights, for other images, scale channels or read-outs.

    A network can thus be trained on small images with few scale channels and used on large images
    with many, or trained on objects in the center and used to look for them everywhere. The new
    model has its own copy of the weights. From a classifier it is a classifier, with the same
    preprocessor and class names.

    A network that reads the center mirrors feature maps at the end of its receptive cone, where
    other read-outs have the rest of the image. That makes them different functions: with a cone of
    3.5 a logit of 9 changed by up to 3.8, in a trained network of six layers. Where it matters,
    train with the read-out that is used.

    Example:

    >>> small = gdn_keras.from_preset("default", input_shape=(56, 56, 1), scales=(1, 2))
    >>> large = gdn_keras.models.retarget(small, input_shape=(112, 112, 1), scales=(1, 2, 4, 8))
    >>> points = gdn_keras.models.retarget(small, input_shape=(None, None, 1), readout="points")

    Args:
        model: A model made by `gaussian_derivative_network`, or any other functional model with
            one `ScaleChannels` layer.
        input_shape: Height, width and channels of the new model's images.
        scales: sigma_0 of the new model's scale channels.
        readout, surround: As in `gaussian_derivative_network`. Without a `surround`, outputs other
            than "center" and "anywhere" have none; other than "points" have no `border`.

    Arguments that are left out keep their value in `model`.
    """
    if isinstance(model, Classifier):
        network = retarget(model.network, input_shape, scales, readout, surround)
        preprocessor = model.preprocessor
        if preprocessor is not None:
            preprocessor = type(preprocessor).from_config(preprocessor.get_config())
        return Classifier(network, model.class_names, preprocessor, name=model.name)
    channels = _require_graph(model)
    shape = check_input_shape(model.input_shape[1:] if input_shape is None else input_shape)
    features = model.input_shape[-1]
    text = f"be (height, width, {features}), with the channels of the model"
    require(shape[-1] == features, "input_shape", text, input_shape)
    if readout in ("average", "points", "map") and surround is None:
        surround = 0.0
    given = {"scales": scales, "surround": surround}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if readout is not None:
        check_choice("readout", readout, OUTPUTS)
        text = "be 'points' for a network with boxes, which are no class scores"
        require(readout == "points" or not _has_boxes(channels.network), "readout", text, readout)
        others = {"readout": "map", "border": 0.0}
        changes |= {"readout": "points", "pooling": None} if readout == "points" else others

    def clone(layer: keras.Layer) -> keras.Layer:
        config = layer.get_config()
        if not isinstance(layer, ScaleChannels):
            return type(layer).from_config(config)
        network = keras.saving.deserialize_keras_object(config["network"])
        network = network if readout is None else _read_as(network, readout)
        return ScaleChannels(**{**config, "network": network, **changes})

    def call(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
        if isinstance(layer, ScalePooling) and readout == "points":
            return args[0]
        result = layer(*args, **kwargs)
        was_points = isinstance(layer, ScaleChannels) and channels.readout == "points"
        if was_points and readout not in (None, "points"):
            return ScalePooling(dtype=result.dtype, name="scale_pooling")(result)
        return result

    inputs = keras.Input(shape, dtype=model.input.dtype, name=model.input.name)
    copy = keras.models.clone_model(model, inputs, clone_function=clone, call_function=call)
    copy.set_weights(model.get_weights())
    return copy


def _has_boxes(network: keras.Model) -> bool:
    """Whether four numbers for boxes stand after the scores, as `boxes=True` puts them."""
    *layers, last = network.layers
    return isinstance(last, keras.layers.Concatenate) and any(
        isinstance(x, GaussianDerivative) and x.filters == 4 and x.output is last.input[-1]
        for x in layers
    )


def _read_as(network: keras.Model, readout: str) -> keras.Model:
    """The network with another read-out, or none, in the place of the one it has."""
    found = [layer for layer in network.layers if isinstance(layer, tuple(READOUTS.values()))]
    dtype = (found or network.layers)[-1].dtype_policy
    replacement = READOUTS[readout](dtype=dtype) if readout in READOUTS else None
    if isinstance(network, keras.Sequential):
        kept = [replacement if layer in found else layer for layer in network.layers]
        kept += [] if found else [replacement]
        return keras.Sequential([x for x in kept if x is not None], name=network.name)

    def call(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
        if layer not in found:
            return layer(*args, **kwargs)
        return args[0] if replacement is None else replacement(args[0])

    copy = keras.models.clone_model(network, clone_function=lambda x: x, call_function=call)
    if found or replacement is None:
        return copy
    return keras.Model(copy.input, replacement(copy.output), name=network.name)


def channel_model(model: keras.Model) -> keras.Model:
    """A model from the same images to the stack of scale channels, [batch, scales, classes].

    It shares its weights with `model`, which itself pools over the second axis.
    """
    return _prepared(model, _stack(model), "channels")


def with_channels(model: keras.Model) -> keras.Model:
    """A model from the same images to the output of `model` and the stack of scale channels.

    It shares its weights with `model`.
    """
    return _prepared(model, [network_of(model).output, _stack(model)], "with_channels")


def _stack(model: keras.Model) -> Any:
    """The stack of scale channels in the graph of a model."""
    layer = _require_graph(model)
    return layer.output if layer.pooling is None else ChannelStack(layer)(layer.input)


def _prepared(model: keras.Model, outputs: Any, suffix: str) -> keras.Model:
    """A model with other outputs of a model's network, behind that model's preprocessor."""
    network = ImageModel(network_of(model).input, outputs, name=f"{model.name}_{suffix}")
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None:
        return network
    images = keras.Input(network.input_shape[1:], name="images")
    result = ImageModel(images, network(preprocessor(images)), name=network.name)
    result.takes_pixels = True
    return result


@keras.saving.register_keras_serializable(package="gdn_keras")
class ChannelStack(keras.layers.Wrapper):
    """What a `ScaleChannels` layer pools, with the same weights."""

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.layer.channels(inputs, training)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        batch, *rest = self.layer.compute_output_shape(input_shape)
        return (batch, len(self.layer.scales), *rest)


def parameter_counts(model: keras.Model) -> dict[str, int]:
    """The number of parameters: "paper", as it counts them, "trainable" and "non_trainable".

    The paper counts 6 for each pair of an input and an output channel of a layer, with an offset
    C_0 for each. Offsets add up over input channels, so one for each output channel is enough,
    and none before batch normalization, which has a factor and an offset of its own.
    """
    paper = 0
    for layer in scale_channels_of(model).shared_layers:
        if hasattr(layer, "compose_kernel"):
            _, c_in, c_out = layer.kernel.shape
            paper += (len(jet_orders(layer.order, layer.zero_order)) + 1) * c_in * c_out
    sizes = [
        sum(math.prod(weight.shape) for weight in weights)
        for weights in (model.trainable_weights, model.non_trainable_weights)
    ]
    return {"paper": paper, "trainable": sizes[0], "non_trainable": sizes[1]}
