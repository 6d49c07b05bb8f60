"""The layers of a Keras model, nested models opened up, as a list of steps."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras


@dataclass(frozen=True)
class Step:
    """One call of a layer.

    Attributes:
        layer: The layer.
        inputs: Indices of the tensors that it is called on; 0 is the image, k the output of the
            k-th step.
        options: Other arguments that the model calls it with.
        merges: Whether it is called on a list.
    """

    layer: keras.Layer
    inputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    merges: bool = False

    def call(self, inputs: Sequence[Any], training: bool | None) -> Any:
        """Call the layer on tensors."""
        options = dict(self.options)
        if "training" in inspect.signature(self.layer.call).parameters:
            options.setdefault("training", training)
        return self.layer(list(inputs) if self.merges else inputs[0], **options)


def steps_of(network: keras.Model) -> list[Step]:
    """The calls that a sequential or functional model consists of, in order.

    Raises:
        ValueError: If the model has several inputs or outputs, or its graph is not known.
    """
    steps: list[Step] = []
    last = _walk(network, 0, steps)
    if last != len(steps):
        raise ValueError(
            f"The output of `network` must be that of its last layer. Received: network={network!r}"
        )
    return steps


def _walk(model: keras.Model, source: int, steps: list[Step]) -> int:
    """Append the calls of a model on tensor `source`; the index of its output."""
    if isinstance(model, keras.Sequential):
        for layer in model.layers:
            source = _append(layer, [source], {}, False, steps)
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
    return _walk_graph(model, source, steps)


def _walk_graph(model: keras.Model, source: int, steps: list[Step]) -> int:
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
        index[id(output)] = _append(layer, places, kwargs, merges, steps)
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
    layer: Any, inputs: list[int], options: dict[str, Any], merges: bool, steps: list[Step]
) -> int:
    options = {key: value for key, value in options.items() if value is not None}
    if isinstance(layer, keras.Model):
        if options or len(inputs) != 1:
            raise ValueError(
                "Models in `network` must be called on one tensor, without other arguments. "
                f"Received: {layer!r} with {options}"
            )
        return _walk(layer, inputs[0], steps)
    steps.append(Step(layer, tuple(inputs), options, merges))
    return len(steps)
