"""What a layer does in scale channels: which layers a network may hold, and how they are run.

A new kind of layer is taken in by registering its rule, in its own file:

    @rule_of.register
    def _(layer: MyLayer) -> Rule:
        return Pointwise()
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import keras
import numpy as np

from gdn_keras.layers._channels import Channels, Edges
from gdn_keras.layers._graph import Step
from gdn_keras.scale_space import Node


class Rule:
    """How a layer acts in scale channels."""

    def node(self, inputs: tuple[int, ...]) -> Node:
        """What the layer's output needs, for the plan of the grids."""
        return Node(inputs)

    def run(
        self, step: Step, inputs: Sequence[Channels], edges: Edges, training: bool | None
    ) -> Channels:
        """The layer's output in all channels.

        Args:
            step: The call.
            inputs: What the layer is called on; for a rule whose node has no sigma, no read-out and
                no neighbours, on one grid and the same way round.
            edges: What brings the inputs to the grid of the output.
            training: Whether it is called in training.
        """
        raise NotImplementedError  # each rule has its own

    def absorb(self, following: keras.Layer) -> bool:
        """Whether, in inference, the rule does the work of the layer that follows too."""
        return False


class Pointwise(Rule):
    """A layer that acts on each point alone, or merges several tensors point by point."""

    def run(
        self, step: Step, inputs: Sequence[Channels], edges: Edges, training: bool | None
    ) -> Channels:
        tensors = zip(*(channels.tensors for channels in inputs), strict=True)
        return replace(inputs[0], tensors=tuple(step.call(xs, training) for xs in tensors))


class ReadOut(Rule):
    """A layer that reads feature maps, each on its channel's own grid: vectors come out."""

    def __init__(self, where: str):
        self.where = where

    def node(self, inputs: tuple[int, ...]) -> Node:
        return Node(inputs, read=self.where)

    def run(
        self, step: Step, inputs: Sequence[Channels], edges: Edges, training: bool | None
    ) -> Channels:
        read = inputs[0].map(lambda x: step.call([x], training))
        return replace(read, swapped=False)


@singledispatch
def rule_of(layer: keras.Layer) -> Rule:
    """The rule of a layer.

    Raises:
        ValueError: If the layer has no place in scale channels.
    """
    raise ValueError(
        "`network` may hold GaussianDerivative, GaussianSmoothing, ScaleBatchNormalization and "
        "ScaleInteraction, layers that act on each point alone (activations, dropout, Dense, 1x1 "
        "Conv2D, normalisation of the last axis), merges (Add, Concatenate, ...), models of such "
        "layers, and one read-out (CentralPixel, GlobalMaxPooling2D, GlobalAveragePooling2D). "
        "Anything else would see the size of the grid, and break scale covariance. "
        f"Received: {layer!r}"
    )


def _require(layer: Any, **expected: Any) -> None:
    """Raise unless the layer's arguments have the values with which it acts on each point alone."""
    for name, value in expected.items():
        found = getattr(layer, name)
        if found != value and list(np.atleast_1d(found)) != list(np.atleast_1d(value)):
            raise ValueError(
                f"In `network`, {type(layer).__name__} must have {name}={value!r}, or it does not "
                f"act on each point alone. Received: {layer!r} with {name}={found!r}"
            )


_POINTWISE = (
    keras.layers.Activation,
    keras.layers.ActivityRegularization,
    keras.layers.AlphaDropout,
    keras.layers.Dense,
    keras.layers.Dropout,
    keras.layers.ELU,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.Identity,
    keras.layers.LeakyReLU,
    keras.layers.ReLU,
    keras.layers.Rescaling,
    keras.layers.Add,
    keras.layers.Average,
    keras.layers.Maximum,
    keras.layers.Minimum,
    keras.layers.Multiply,
    keras.layers.Subtract,
)
_ALONG_LAST_AXIS = (
    keras.layers.Concatenate,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
    keras.layers.Softmax,
    keras.layers.UnitNormalization,
)
_EVERYWHERE = (keras.layers.GlobalAveragePooling2D, keras.layers.GlobalMaxPooling2D)

for _kind in _POINTWISE:
    rule_of.register(_kind, lambda layer: Pointwise())


def _along_last_axis(layer: Any) -> Rule:
    _require(layer, axis=-1)
    return Pointwise()


for _kind in _ALONG_LAST_AXIS:
    rule_of.register(_kind, _along_last_axis)


def _everywhere(layer: Any) -> Rule:
    _require(layer, data_format="channels_last", keepdims=False)
    return ReadOut("everywhere")


for _kind in _EVERYWHERE:
    rule_of.register(_kind, _everywhere)


@rule_of.register
def _(layer: keras.layers.Conv2D) -> Rule:
    _require(layer, kernel_size=(1, 1), strides=(1, 1), data_format="channels_last")
    return Pointwise()


@rule_of.register
def _(layer: keras.layers.PReLU) -> Rule:
    _require(layer, shared_axes=[1, 2])
    return Pointwise()


@rule_of.register
def _(layer: keras.layers.SpatialDropout2D) -> Rule:
    _require(layer, data_format="channels_last")
    return Pointwise()
