"""A network's layers, nested models opened up, as a list of calls that run in scale channels."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import require
from gdn_keras.layers._channels import Channels, aligned
from gdn_keras.scale_space import Node, grid_spacings

_FORMAT = {"data_format": "channels_last"}
_GLOBAL = {"keepdims": False, **_FORMAT}


def _table(*rows: tuple[str, dict[str, Any]]) -> dict[type, dict[str, Any]]:
    return {getattr(keras.layers, name): row for names, row in rows for name in names.split()}


# Keras's layers that act on each point alone, with the arguments for which they do.
_POINTWISE = _table(
    ("Activation ActivityRegularization Add AlphaDropout Average Dense Dropout ELU", {}),
    ("GaussianDropout GaussianNoise Identity LeakyReLU Maximum Minimum Multiply", {}),
    ("ReLU Rescaling Subtract", {}),
    ("Concatenate LayerNormalization RMSNormalization Softmax UnitNormalization", {"axis": -1}),
    ("Conv2D", {"kernel_size": (1, 1), "strides": (1, 1), **_FORMAT}),
    ("PReLU", {"shared_axes": [1, 2]}),
    ("SpatialDropout2D", _FORMAT),
)
# Those that read feature maps at all places, likewise.
_READOUTS = _table(("GlobalAveragePooling2D GlobalMaxPooling2D", _GLOBAL))


@dataclass(frozen=True)
class Call:
    """A call of a layer in a network. Tensor 0 is the image, tensor k the output of the k-th."""

    layer: keras.Layer
    inputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)  # other arguments
    merges: bool = False  # whether it is called on a list

    def __call__(self, inputs: Sequence[Any], training: bool | None) -> Any:
        """Call the layer on tensors."""
        options = dict(self.options)
        if "training" in inspect.signature(self.layer.call).parameters:
            options.setdefault("training", training)
        return self.layer(list(inputs) if self.merges else inputs[0], **options)

    @property
    def node(self) -> Node:
        """What the layer's output needs of the grids.

        A layer says so by a method `node`, and then has a method `run_channels` too; or, where it
        acts on each point alone, by an attribute `pointwise = True`.
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


class Runner:
    """The calls that a sequential or functional model consists of, run in scale channels.

    `layers` and `nodes` are in the order of the calls; `spacings` are those of all tensors' grids.
    """

    def __init__(self, network: keras.Model):
        self._calls: list[Call] = []
        if _walk(network, 0, self._calls) != len(self._calls):
            text = "The output of `network` must be that of its last layer."
            raise ValueError(f"{text} Received: {network!r}")
        self.layers = [call.layer for call in self._calls]
        self.nodes: tuple[Node, ...] = tuple(call.node for call in self._calls)
        self.spacings = grid_spacings(self.nodes)

    @property
    def has_maps(self) -> bool:
        """Whether the network ends on feature maps, without a read-out."""
        return self.spacings[-1] is not None

    @property
    def smoothing(self) -> tuple[str, float]:
        """The boundary rule and the truncation that all smoothing layers must share."""
        rules = {(x.boundary, x.truncation) for x in self.layers if hasattr(x, "truncation")}
        if len(rules) != 1:
            raise ValueError(
                "`network` must hold GaussianDerivative layers, and all of them must share "
                f"`boundary` and `truncation`. Received: {sorted(rules)}"
            )
        return rules.pop()

    def check_inputs(self) -> None:
        """Raise unless each layer is given what it can take: an image, feature maps or vectors."""
        for node, layer in zip(self.nodes, self.layers, strict=True):
            sources = {self.spacings[k] for k in node.inputs}
            if None in sources and (node.sigma or node.read or sources != {None}):
                raise ValueError(
                    "After a read-out there are vectors, which only layers that act on them alone "
                    f"can take. Received: {layer!r} after one"
                )
            if 0 in sources and (node.read or sources != {0}):
                raise ValueError(
                    "The image itself has no scale: it must go through a GaussianDerivative or a "
                    "GaussianSmoothing layer before it is read, or meets what went through one. "
                    f"Received: {layer!r} on the image"
                )

    def check_steps(self, density: float, scales: Sequence[float]) -> None:
        """Raise unless each layer smooths by at least half a step of the matched grid before it."""
        for node, layer in zip(self.nodes, self.layers, strict=True):
            spacing = self.spacings[node.inputs[0]]
            if not node.sigma or spacing is None:
                continue
            if layer.activity_regularizer is not None:
                raise ValueError(
                    "In matched channels, GaussianDerivative layers have no outputs of their own "
                    "to regularize: leave out `activity_regularizer`, or add an "
                    f"ActivityRegularization layer after them. Received: {layer!r}"
                )
            if spacing == 0 and scales[0] * node.sigma < 0.5 - 1e-6:
                raise ValueError(
                    "`scales` must give the first layer a sigma of at least half a pixel, or there "
                    f"is nothing to sample between pixels. Received: scales={list(scales)} with "
                    f"sigma={node.sigma:g}"
                )
            if node.sigma * density < spacing / 2:
                raise ValueError(
                    "Matched grids have `density` points per sigma, and each layer must smooth by "
                    "at least half a step of the grid before it: choose a higher `density`, sigmas "
                    f"that do not fall, or sampling='dense'. Received: density={density:g} with "
                    f"sigmas={[other.sigma for other in self.nodes if other.sigma]}"
                )

    def features(self, channels: Any) -> list[int]:
        """Feature channels of all tensors, the image's first."""
        found = [(None, None, None, channels)]
        for call in self._calls:
            shapes = [found[k] for k in call.inputs]
            found.append(call.layer.compute_output_shape(shapes if call.merges else shapes[0]))
        return [shape[-1] for shape in found]

    def run_dense(self, image: Any, scales: Sequence[float], training: bool | None) -> list[list]:
        """All tensors of the network in each scale channel, on the pixels of the image.

        Layers take turns over the channels, because batch normalization is joint.
        """
        tensors = [[image] * len(scales)]
        for call, node in zip(self._calls, self.nodes, strict=True):
            inputs = [tensors[k] for k in call.inputs]
            if node.sigma is not None:
                pairs = zip(inputs[0], scales, strict=True)
                outputs = [call.layer(x, scale=scale) for x, scale in pairs]
            elif getattr(call.layer, "joint", False):
                outputs = call.layer(inputs[0], **{"training": training, **call.options})
            else:
                outputs = [call(xs, training) for xs in zip(*inputs, strict=True)]
            tensors.append(outputs)
        return tensors

    def run_matched(self, image: Channels, training: bool | None) -> list[Channels]:
        """All tensors of the network in the channels of a plan, each on its own grid."""
        states = [image]
        absorbed = {} if training else self._absorbed()
        for n, (call, node) in enumerate(zip(self._calls, self.nodes, strict=True), start=1):
            inputs = [states[k] for k in call.inputs]
            if call.inputs[0] in absorbed:
                outputs = inputs[0]
            elif hasattr(call.layer, "run_channels"):
                options = {"normalization": absorbed[n]} if n in absorbed else {}
                training_here = call.options.get("training", training)
                outputs = call.layer.run_channels(inputs[0], n, training_here, **options)
            else:
                inputs = inputs if node.read else aligned(inputs, n)
                tensors = zip(*(channels.tensors for channels in inputs), strict=True)
                outputs = replace(inputs[0], tensors=tuple(call(xs, training) for xs in tensors))
                outputs = replace(outputs, swapped=outputs.swapped and not node.read)
            states.append(replace(outputs, number=n))
        return states

    def _absorbed(self) -> dict[int, keras.Layer]:
        """In inference, normalizations that become part of the kernel before, by their inputs."""
        found = {}
        for call in self._calls:
            source = call.inputs[0]
            before = self.layers[source - 1] if source else None
            shared = sum(other.inputs.count(source) for other in self._calls) > 1
            absorbs = getattr(before, "absorbs_normalization", False) and not shared
            if absorbs and getattr(call.layer, "joint", False) and not call.options:
                found[source] = call.layer
        return found


def _walk(model: keras.Model, source: int, calls: list[Call]) -> int:
    """Append the calls of a sequential or functional model on tensor `source`; its output."""
    if isinstance(model, keras.Sequential):
        for layer in model.layers:
            source = _append(layer, [source], {}, False, calls)
        return source
    ends = (getattr(model, name, None) or () for name in ("inputs", "outputs"))
    text = "be sequential or functional, with one input and one output, as the models in it must"
    require(all(len(tensors) == 1 for tensors in ends), "network", text, model)
    return _walk_graph(model, source, calls)


def _walk_graph(model: keras.Model, source: int, calls: list[Call]) -> int:
    """Follow a functional model with stand-ins for its layers, which leave no trace in them."""
    image = keras.Input(batch_shape=model.inputs[0].shape, dtype=model.inputs[0].dtype)
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
            text = "Layers of `network` must be called on tensors and give one."
            raise ValueError(f"{text} Received: {layer!r}")
        merges = bool(args) and isinstance(args[0], (list, tuple))
        places = [index[id(tensor)] for tensor in called_on]
        index[id(output)] = _append(layer, places, kwargs, merges, calls)
        tensors.append(output)
        return output

    images = image if isinstance(model.input, keras.KerasTensor) else [image]
    clone = keras.models.clone_model(model, images, clone_function=_StandIn, call_function=call)
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
            text = "Models in `network` must be called on one tensor, without other arguments."
            raise ValueError(f"{text} Received: {layer!r} with {options}")
        return _walk(layer, inputs[0], calls)
    calls.append(Call(layer, tuple(inputs), options, merges))
    return len(calls)
