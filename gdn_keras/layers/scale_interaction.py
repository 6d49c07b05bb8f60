"""Interaction between neighbouring scale channels."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from gdn_keras.layers._base import check_image_shape
from gdn_keras.layers._channels import Channels, Edges, applied, joined, unjoined
from gdn_keras.layers._graph import Step
from gdn_keras.layers._resampling import swap_axes
from gdn_keras.layers._rules import Rule, rule_of
from gdn_keras.scale_space import Node, Operator


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleInteraction(keras.layers.Layer):
    """Adds learned contributions of the next finer and the next coarser scale channel.

    y_i = x_i + W_fine R(x_{i-1}) + W_coarse R(x_{i+1}), at each point of channel i, where R samples
    a neighbour's feature maps on the grid of channel i. The paper names such interactions as the
    generalisation of its independent scale channels. They help where an object is told by details
    at another scale than its own.

    All channels share W, so that a rescaled image still gives the same channels shifted along the
    scale axis, but for the first and the last one, which lack a neighbour; each such layer brings
    that one channel further in.

    Example:

    >>> network = keras.Sequential([
    ...     gdn_keras.layers.GaussianDerivative(8, sigma=1.0),
    ...     keras.layers.ReLU(),
    ...     gdn_keras.layers.ScaleInteraction(),
    ...     gdn_keras.layers.GaussianDerivative(3, sigma=1.25),
    ...     gdn_keras.layers.CentralPixel(),
    ... ])
    >>> layer = gdn_keras.layers.ScaleChannels(network, scales=[1.0, 2.0, 4.0])

    Args:
        kernel_initializer: Of W, [2, channels, channels]; channels start out independent by
            default.
        kernel_regularizer, kernel_constraint: As in `Dense`.
        **kwargs: Passed to `keras.layers.Layer`.

    Call arguments:
        inputs: Feature maps. The layer works inside `ScaleChannels` only, whose `scales` must then
            be in geometric progression.

    Output shape:
        The shape of the inputs.
    """

    def __init__(
        self,
        kernel_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        kernel_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)

    def build(self, input_shape: Sequence[int | None]) -> None:
        check_image_shape(self, input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(2, input_shape[-1], input_shape[-1]),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        raise ValueError(
            f"`{self.name}` works inside `ScaleChannels` only, where there are neighbouring "
            f"channels. Received: a call on inputs of shape {tuple(inputs.shape)}"
        )

    def mix(self, neighbor: Any, side: int) -> Any:
        """The contribution of the finer (side 0) or the coarser (side 1) neighbour."""
        kernel = ops.cast(ops.convert_to_tensor(self.kernel), neighbor.dtype)
        return ops.matmul(neighbor, kernel[side])

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
        }


class _Interaction(Rule):
    def __init__(self, layer: ScaleInteraction):
        self._layer = layer

    def node(self, inputs: tuple[int, ...]) -> Node:
        return Node(inputs, neighbors=True)

    def run(
        self, step: Step, inputs: Sequence[Channels], edges: Edges, training: bool | None
    ) -> Channels:
        channels = inputs[0].map(lambda x: ops.cast(x, self._layer.compute_dtype))
        each = [
            part
            for x, count in zip(channels.tensors, channels.counts, strict=True)
            for part in ops.unstack(unjoined(x, count), count, axis=1)
        ]
        flat = [edge for group in edges for edge in zip(*group, strict=True)]
        mixed = []
        for i, (own, *beside) in enumerate(flat):
            y = applied(each[i], own, channels.swapped)
            for side, (j, edge) in enumerate(zip((i - 1, i + 1), beside, strict=True)):
                if 0 <= j < len(each):
                    y = y + self._layer.mix(_sampled(each[j], edge, channels.swapped), side)
            mixed.append(y)
        tensors, start = [], 0
        for count in channels.counts:
            tensors.append(joined(mixed[start : start + count]))
            start += count
        return replace(channels, tensors=tuple(tensors))


def _sampled(x: Any, edge: Any, swapped: bool) -> Any:
    """A neighbour's tensor on the channel's grid, rows and columns as before."""
    y = applied(x, edge, swapped)
    return swap_axes(y) if isinstance(edge, Operator) else y


@rule_of.register
def _(layer: ScaleInteraction) -> Rule:
    return _Interaction(layer)
