"""A network's layers, run in all scale channels at once."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from gdn_keras.layers._channels import Channels, aligned, joined, unjoined
from gdn_keras.layers._graph import Step, steps_of
from gdn_keras.layers._resampling import sample_transposed, swap_axes
from gdn_keras.layers._rules import rule_of
from gdn_keras.layers.central_pixel import CentralPixel
from gdn_keras.scale_space import Group, Node


class Program:
    """Calls of layers, each with the rule of its layer.

    Args:
        steps: The calls.

    Attributes:
        nodes: What the plan of the grids depends on.
    """

    def __init__(self, steps: Sequence[Step]):
        self._steps = list(steps)
        self._rules = [rule_of(step.layer) for step in self._steps]
        self.nodes: tuple[Node, ...] = tuple(
            rule.node(step.inputs) for rule, step in zip(self._rules, self._steps, strict=True)
        )
        # Steps that need not be run in inference, because the one before does their work.
        self._absorbed = {
            n for n, step in enumerate(self._steps, start=1) if self._absorbs(step, step.inputs[0])
        }

    @classmethod
    def of(cls, network: keras.Model) -> "Program":
        """What a sequential or functional model computes."""
        return cls(steps_of(network))

    @property
    def layers(self) -> list[keras.Layer]:
        """The layers in the order of their calls."""
        return [step.layer for step in self._steps]

    def _absorbs(self, step: Any, source: int) -> bool:
        shared = sum(other.inputs.count(source) for other in self._steps) > 1
        if source == 0 or shared or step.options:
            return False
        return self._rules[source - 1].absorb(step.layer)

    def derivatives(self) -> list[int]:
        """Indices of the tensors that layers with a scale of their own give."""
        return [n for n, node in enumerate(self.nodes, start=1) if node.sigma is not None]

    def up_to(self, tensor: int) -> "Program":
        """The part of the network that ends in the given tensor, read at the centre."""
        read = Step(CentralPixel(), (tensor,))
        return Program([*self._steps[:tensor], read])

    def features(self, channels: Any) -> list[int]:
        """Feature channels of all tensors, the image's first."""
        found = [(None, None, None, channels)]
        for step in self._steps:
            shapes = [found[k] for k in step.inputs]
            found.append(step.layer.compute_output_shape(shapes if step.merges else shapes[0]))
        return [shape[-1] for shape in found]

    def run(self, groups: Sequence[Group], image: Any, training: bool | None) -> Channels:
        """The last tensor of the network, in all channels of a plan."""
        counts = tuple(len(group.scales) for group in groups)
        states = [Channels((image,), counts, lifted=False)]
        for n, (step, rule) in enumerate(zip(self._steps, self._rules, strict=True)):
            inputs = [states[k] for k in step.inputs]
            if not training and n + 1 in self._absorbed:
                states.append(inputs[0])
                continue
            edges = [group.edges[n] for group in groups]
            node = self.nodes[n]
            if node.sigma is None and not node.read and not node.neighbors:
                inputs = aligned(inputs, edges)
            states.append(rule.run(step, inputs, edges, training))
        return states[-1]


def stacked_vectors(channels: Channels) -> Any:
    """[batch, scale channels, features] from what read-outs give."""
    stacks = map(unjoined, channels.tensors, channels.counts)
    return ops.concatenate(list(stacks), axis=1)


def stacked_points(channels: Channels) -> Any:
    """[batch, points, features]: the points of all channels, row by row."""
    points = []
    for x, count in zip(channels.in_order().tensors, channels.counts, strict=True):
        _, rows, columns, features = ops.shape(x)
        points.append(ops.reshape(x, (-1, count * rows * columns, features)))
    return ops.concatenate(points, axis=1)


def stacked_maps(channels: Channels, groups: Sequence[Group]) -> Any:
    """[batch, scale channels, height, width, features], on the image's pixels."""
    stacks = []
    for x, group in zip(channels.in_order().tensors, groups, strict=True):
        count = len(group.scales)
        if group.outputs is not None:
            parts = unjoined(x, count)
            maps = [
                sample_transposed(parts[:, i], operator.rows, operator.columns)
                for i, operator in enumerate(group.outputs)
            ]
            x = swap_axes(joined(maps))
        stacks.append(unjoined(x, count))
    return ops.concatenate(stacks, axis=1)
