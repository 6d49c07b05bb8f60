"""Other models from the weights of one: other sizes and scales, the stack before pooling."""

from collections.abc import Sequence

import keras

from gdn_keras.layers import ScaleChannels
from gdn_keras.scale_space import jet_orders
from gdn_keras.scale_space.validation import check_input_shape, check_scales


def scale_channels_of(model: keras.Model) -> ScaleChannels:
    """The `ScaleChannels` layer of a model."""
    if not isinstance(model, keras.Model):
        raise ValueError(f"`model` must be a keras.Model. Received: model={model!r}")
    found = [layer for layer in model.layers if isinstance(layer, ScaleChannels)]
    if len(found) != 1:
        raise ValueError(
            "`model` must hold exactly one ScaleChannels layer. "
            f"Received: model={model.name!r} with {len(found)} of them"
        )
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
    input_shape: Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
) -> keras.Model:
    """The same network, with the same weights, for another image size or other scale channels.

    Weights depend on neither, so that a network can be trained on small images with few scale
    channels and used on large images with many. The new model has its own copy of the weights.

    Example:

    >>> small = gdn_keras.models.from_preset("default", input_shape=(56, 56, 1), scales=(1, 2))
    >>> large = gdn_keras.models.retarget(small, input_shape=(112, 112, 1), scales=(1, 2, 4, 8))

    Args:
        model: A model made by `gaussian_derivative_network`, or any other functional model with
            one `ScaleChannels` layer.
        input_shape: Height, width and channels of the new model's images; unchanged by default.
        scales: sigma_0 of the new model's scale channels; unchanged by default.
    """
    _require_graph(model)
    shape = check_input_shape(model.input_shape[1:] if input_shape is None else input_shape)
    if scales is not None:
        scales = check_scales(scales)
    if shape[-1] != model.input_shape[-1]:
        raise ValueError(
            f"`input_shape` must be (height, width, {model.input_shape[-1]}), with the channels "
            f"of the model. Received: input_shape={input_shape!r}"
        )

    def clone(layer):
        config = layer.get_config()
        if isinstance(layer, ScaleChannels) and scales is not None:
            config["scales"] = list(scales)
        return type(layer).from_config(config)

    inputs = keras.Input(shape, name=model.inputs[0].name)
    clone_of = keras.models.clone_model(model, input_tensors=inputs, clone_function=clone)
    clone_of.set_weights(model.get_weights())
    return clone_of


def channel_model(model: keras.Model) -> keras.Model:
    """A model from the same images to the stack of scale channels, [batch, scales, classes].

    It shares its weights with `model`, which itself pools over the second axis.
    """
    layer = _require_graph(model)
    stack = layer.output
    if layer.pooling is not None:
        unpooled = ScaleChannels(
            layer.network,
            layer.scales,
            pooling=None,
            sampling=layer.sampling,
            density=layer.density,
            dtype=layer.dtype_policy,
        )
        stack = unpooled(layer.input)
    return keras.Model(model.inputs, stack, name=f"{model.name}_channels")


def parameter_counts(model: keras.Model) -> dict[str, int]:
    """The number of parameters as the paper counts them, and as the model has them.

    The paper counts 6 for each pair of an input and an output channel of a layer, with an offset
    C_0 for each. Offsets add up over input channels, so one for each output channel is enough,
    and none before batch normalisation, which has a factor and an offset of its own.

    Returns:
        "paper", and the model's "trainable" and "non_trainable".
    """
    paper = 0
    for layer in scale_channels_of(model).network.layers:
        if hasattr(layer, "compose_kernel"):
            _, c_in, c_out = layer.kernel.shape
            paper += (len(jet_orders(layer.order, layer.zero_order)) + 1) * c_in * c_out
    return {
        "paper": paper,
        "trainable": sum(_size(w) for w in model.trainable_weights),
        "non_trainable": sum(_size(w) for w in model.non_trainable_weights),
    }


def _size(weight) -> int:
    size = 1
    for n in weight.shape:
        size *= n
    return size
