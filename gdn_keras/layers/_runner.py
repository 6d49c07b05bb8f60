"""A network's layers, run in all scale channels at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras

from gdn_keras.layers._calls import calls_of
from gdn_keras.layers._channels import Channels, aligned
from gdn_keras.scale_space import Node, Plan, grid_spacings


class Runner:
    """The calls that a network consists of, and how they run in scale channels.

    Args:
        network: A sequential or functional model.

    Attributes:
        layers: The layers in the order of their calls.
        nodes: What the grids depend on.
        spacings: Of the grids of all tensors, see `grid_spacings`.
    """

    def __init__(self, network: keras.Model):
        self._calls = calls_of(network)
        self.layers = [call.layer for call in self._calls]
        self.nodes: tuple[Node, ...] = tuple(call.node for call in self._calls)
        self.spacings = grid_spacings(self.nodes)

    @property
    def has_maps(self) -> bool:
        """Whether the network ends on feature maps, without a read-out."""
        return self.spacings[-1] is not None

    def features(self, channels: Any) -> list[int]:
        """Feature channels of all tensors, the image's first."""
        found = [(None, None, None, channels)]
        for call in self._calls:
            shapes = [found[k] for k in call.inputs]
            found.append(call.layer.compute_output_shape(shapes if call.merges else shapes[0]))
        return [shape[-1] for shape in found]

    def run_dense(self, image: Any, scales: Sequence[float], training: bool | None) -> list[list]:
        """All tensors of the network in each scale channel: the paper to the letter.

        Every layer works on the pixels of the image, at `sigma * sigma_0`. Layers take turns over
        the channels, and not channels over the layers, because batch normalization is joint.
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

    def run_matched(
        self,
        image: Any,
        plan: Plan,
        shape: tuple[Any, Any],
        scales: Sequence[float],
        training: bool | None,
    ) -> list[Channels]:
        """All tensors of the network in the channels of a plan, each on its own grid.

        `shape` is the height and width of the image, integers or tensors.
        """
        states = [Channels((image,), plan, plan.batches(shape, scales))]
        absorbed = {} if training else self._absorbed()
        absorbing = {source: layer for layer, source in absorbed.values()}
        for n, (call, node) in enumerate(zip(self._calls, self.nodes, strict=True), start=1):
            inputs = [states[k] for k in call.inputs]
            if n in absorbed:
                outputs = inputs[0]
            elif hasattr(call.layer, "run_channels"):
                options = {"normalization": absorbing[n]} if n in absorbing else {}
                training_here = call.options.get("training", training)
                outputs = call.layer.run_channels(inputs[0], n, training_here, **options)
            else:
                inputs = inputs if node.read else aligned(inputs, n)
                tensors = zip(*(channels.tensors for channels in inputs), strict=True)
                outputs = replace(inputs[0], tensors=tuple(call(xs, training) for xs in tensors))
                if node.read:
                    outputs = replace(outputs, swapped=False)
            states.append(replace(outputs, number=n))
        return states

    def _absorbed(self) -> dict[int, tuple[keras.Layer, int]]:
        """Normalizations that, in inference, are part of the kernel of the layer before.

        Returns:
            For the tensor of each: the layer, and the tensor that it normalizes.
        """
        found = {}
        for n, call in enumerate(self._calls, start=1):
            source = call.inputs[0]
            before = self.layers[source - 1] if source else None
            shared = sum(other.inputs.count(source) for other in self._calls) > 1
            absorbs = getattr(before, "absorbs_normalization", False) and not shared
            if absorbs and getattr(call.layer, "joint", False) and not call.options:
                found[n] = call.layer, source
        return found
