"""The layers of a network, nested models opened up, as a list of calls."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from gdn_keras.scale_space import Node

_LAST = {"axis": -1}
_FORMAT = {"data_format": "channels_last"}

# Keras's layers that act on each point alone, with the arguments for which they do.
_POINTWISE: dict[type, dict[str, Any]] = {
    keras.layers.Activation: {},
    keras.layers.ActivityRegularization: {},
    keras.layers.Add: {},
    keras.layers.AlphaDropout: {},
    keras.layers.Average: {},
    keras.layers.Concatenate: _LAST,
    keras.layers.Conv2D: {"kernel_size": (1, 1), "strides": (1, 1), **_FORMAT},
    keras.layers.Dense: {},
    keras.layers.Dropout: {},
    keras.layers.ELU: {},
    keras.layers.GaussianDropout: {},
    keras.layers.GaussianNoise: {},
    keras.layers.Identity: {},
    keras.layers.LayerNormalization: _LAST,
    keras.layers.LeakyReLU: {},
    keras.layers.Maximum: {},
    keras.layers.Minimum: {},
    keras.layers.Multiply: {},
    keras.layers.PReLU: {"shared_axes": [1, 2]},
    keras.layers.RMSNormalization: _LAST,
    keras.layers.ReLU: {},
    keras.layers.Rescaling: {},
    keras.layers.Softmax: _LAST,
    keras.layers.SpatialDropout2D: _FORMAT,
    keras.layers.Subtract: {},
    keras.layers.UnitNormalization: _LAST,
}
# Those that read feature maps at all places, likewise.
_READOUTS: dict[type, dict[str, Any]] = {
    keras.layers.GlobalAveragePooling2D: {"keepdims": False, **_FORMAT},
    keras.layers.GlobalMaxPooling2D: {"keepdims": False, **_FORMAT},
}


@dataclass(frozen=True)
class Call:
    """One call of a layer in a network.

    Attributes:
        layer: The layer.
        inputs: Indices of the tensors that it is called on; 0 is the image, k the output of the
            k-th call.
        options: Other arguments that the network calls it with.
        merges: Whether it is called on a list.
    """

    layer: keras.Layer
    inputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    merges: bool = False

    def __call__(self, inputs: Sequence[Any], training: bool | None) -> Any:
        """Call the layer on tensors."""
        options = dict(self.options)
        if "training" in inspect.signature(self.layer.call).parameters:
            options.setdefault("training", training)
        return self.layer(list(inputs) if self.merges else inputs[0], **options)

    @property
    def node(self) -> Node:
        """What the layer's output needs of the grids.

        A layer says so itself, by a method `node`, and then has a method `run_channels` too. One
        that acts on each point alone needs no more than an attribute `pointwise = True`.
        """
        if hasattr(self.layer, "node"):
            return self.layer.node(self.inputs)
        if getattr(self.layer, "pointwise", False) or _listed(self.layer, _POINTWISE):
            return Node(self.inputs)
        if _listed(self.layer, _READOUTS):
            return Node(self.inputs, read="everywhere")
        raise ValueError(
            "`network` may hold GaussianDerivative, GaussianSmoothing and ScaleBatchNormalization, "
            "layers that act on each point alone (activations, dropout, Dense, 1x1 Conv2D, "
            "normalization of the last axis), merges (Add, Concatenate, ...), models of such "
            "layers, and one read-out (CentralPixel, GlobalMaxPooling2D, GlobalAveragePooling2D). "
            "Anything else would see the size of the grid, and break scale covariance. "
            f"Received: {self.layer!r}"
        )


def _listed(layer: keras.Layer, table: dict[type, dict[str, Any]]) -> bool:
    """Whether a table has a kind of layer; an error if it is called with other arguments."""
    kind = next((kind for kind in type(layer).__mro__ if kind in table), None)
    for name, value in table[kind].items() if kind else ():
        found = getattr(layer, name)
        if found != value and list(np.atleast_1d(found)) != list(np.atleast_1d(value)):
            raise ValueError(
                f"In `network`, {type(layer).__name__} must have {name}={value!r}, or it does not "
                f"act on each point alone. Received: {layer!r} with {name}={found!r}"
            )
    return kind is not None


def calls_of(network: keras.Model) -> list[Call]:
    """The calls that a sequential or functional model consists of, in order.

    Raises:
        ValueError: If the model has several inputs or outputs, or its graph is not known.
    """
    calls: list[Call] = []
    last = _walk(network, 0, calls)
    if last != len(calls):
        raise ValueError(
            f"The output of `network` must be that of its last layer. Received: network={network!r}"
        )
    return calls


def _walk(model: keras.Model, source: int, calls: list[Call]) -> int:
    """Append the calls of a model on tensor `source`; the index of its output."""
    if isinstance(model, keras.Sequential):
        for layer in model.layers:
            source = _append(layer, [source], {}, False, calls)
        return source
    inputs, outputs = (getattr(model, name, None) for name in ("inputs", "outputs"))
    if not inputs or not outputs:
        raise ValueError(
            "`network` must be a sequential or functional model, and so must be the models in it: "
            f"what others compute is not known. Received: {model!r}"
        )
    if len(inputs) != 1 or len(outputs) != 1:
        raise ValueError(
            f"`network` must have one input and one output. Received: {model!r} with "
            f"{len(inputs)} and {len(outputs)}"
        )
    return _walk_graph(model, source, calls)


def _walk_graph(model: keras.Model, source: int, calls: list[Call]) -> int:
    """Follow a functional model with stand-ins for its layers, which leave no trace in them."""
    image = keras.KerasTensor(model.inputs[0].shape, model.inputs[0].dtype)
    image = keras.Input(tensor=image)
    index = {id(image): source}
    tensors = [image]  # kept, so that no two get one id

    def call(stand_in: _StandIn, *args: Any, **kwargs: Any) -> Any:
        layer = stand_in.layer
        if not isinstance(layer, keras.Layer):
            raise ValueError(
                "`network` must consist of layers: write an operation on tensors as the layer "
                f"that does it, such as keras.layers.Add for a sum. Received: {layer!r}"
            )
        called_on = keras.tree.flatten(args)
        output = stand_in(*args, **kwargs)
        known = all(id(tensor) in index for tensor in called_on)
        if not known or not isinstance(output, keras.KerasTensor):
            raise ValueError(
                f"Layers of `network` must be called on tensors and give one. Received: {layer!r}"
            )
        merges = bool(args) and isinstance(args[0], (list, tuple))
        places = [index[id(tensor)] for tensor in called_on]
        index[id(output)] = _append(layer, places, kwargs, merges, calls)
        tensors.append(output)
        return output

    single = isinstance(model.input, keras.KerasTensor)
    clone = keras.models.clone_model(
        model,
        input_tensors=image if single else [image],
        clone_function=_StandIn,
        call_function=call,
    )
    return index[id(clone.outputs[0])]


class _StandIn(keras.Operation):
    """A layer's shapes, without the layer."""

    def __init__(self, layer: keras.Layer):
        super().__init__(name=layer.name)
        self.layer = layer

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer.compute_output_spec(*args, **kwargs)


def _append(
    layer: Any, inputs: list[int], options: dict[str, Any], merges: bool, calls: list[Call]
) -> int:
    options = {key: value for key, value in options.items() if value is not None}
    if isinstance(layer, keras.Model):
        if options or len(inputs) != 1:
            raise ValueError(
                "Models in `network` must be called on one tensor, without other arguments. "
                f"Received: {layer!r} with {options}"
            )
        return _walk(layer, inputs[0], calls)
    calls.append(Call(layer, tuple(inputs), options, merges))
    return len(calls)
