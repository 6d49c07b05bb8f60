"""What a tensor is in all scale channels at once, and how it gets from grid to grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keras import ops

from gdn_keras.layers._sampling import sample, swap_axes
from gdn_keras.scale_space import Batch, Plan


@dataclass(frozen=True)
class Channels:
    """A tensor of the network, in all scale channels.

    There is one tensor for each batch of channels that have equal grids, [images x channels, ...],
    the channels of an image next to one another, so that devices that have shared out the images
    keep their own. Before the image is lifted, all channels share one tensor.
    """

    tensors: tuple[Any, ...]
    plan: Plan
    batches: tuple[Batch, ...]
    training: bool | None = None
    number: int = 0
    swapped: bool = False
    _smoothed: dict[Any, "Channels"] = field(default_factory=dict, init=False, compare=False)

    @property
    def counts(self) -> list[int]:
        """Number of scale channels in each tensor; one, as long as they share it."""
        if self.plan.spacings[self.number] == 0:
            return [1]
        return [len(batch.scales) for batch in self.batches]

    def map(self, function: Callable[[Any], Any]) -> "Channels":
        """Apply a function to the tensors."""
        return replace(self, tensors=tuple(function(x) for x in self.tensors))

    def onto(self, number: int, dtype: Any = None) -> "Channels":
        """On the grids of another tensor, if it has one: smoothed if that is, the image lifted.

        Layers that smooth one tensor to one sigma, on equal grids, share the result.
        """
        plan = self.plan
        if not plan.spacings[number]:
            return self
        node = plan.nodes[number - 1]
        key = node.sigma, node.margin, plan.spacings[number], plan.reaches[number], dtype
        if key not in self._smoothed:
            cast = self if dtype is None else self.map(lambda x: ops.cast(x, dtype))
            self._smoothed[key] = cast._sampled(number)
        return replace(self._smoothed[key], number=number)

    def _sampled(self, number: int) -> "Channels":
        lifted = self.plan.spacings[self.number] != 0
        tensors, swapped = [], self.swapped
        for k, batch in enumerate(self.batches):
            x = self.tensors[k if lifted else 0]
            first, *others = self.plan.operators(batch, self.number, number)
            if first is None:
                rows, columns = (grid.size for grid in batch.grids[number] or ())
                tensors.append(_middle(x, (columns, rows) if self.swapped else (rows, columns)))
                continue
            swapped = not self.swapped
            # Rounded apart, the entries of the product no longer are one, and stencils times
            # sigma^2 make much of that where sigma is many steps of the grid.
            ways = {"swapped": self.swapped, "training": self.training}
            ways["at_once"] = self.plan.density <= 2
            operators: list[Any] = [first] if lifted else [first, *others]
            tensors.append(joined([sample(x, *operator, **ways) for operator in operators]))
        return replace(self, tensors=tuple(tensors), number=number, swapped=swapped)

    def in_order(self) -> "Channels":
        """Rows and columns the right way round."""
        return replace(self.map(swap_axes), swapped=False) if self.swapped else self

    def in_pixels(self) -> "Channels":
        """Feature maps on the image's pixels."""
        maps, ordered = [], self.in_order()
        for x, count, batch in zip(ordered.tensors, self.counts, self.batches, strict=True):
            parts = unjoined(x, count)
            operators = self.plan.operators_to_pixels(batch)
            sampled = [sample(parts[:, i], *operator) for i, operator in enumerate(operators)]
            maps.append(swap_axes(joined(sampled)))
        return replace(ordered, tensors=tuple(maps))

    def stacked(self) -> Any:
        """[batch, scale channels, ...], for tensors of one shape."""
        return ops.concatenate(list(map(unjoined, self.tensors, self.counts)), axis=1)

    def points(self) -> Any:
        """[batch, points, features]: the points of all channels, row by row."""
        points = []
        for x, count in zip(self.in_order().tensors, self.counts, strict=True):
            _, rows, columns, features = ops.shape(x)
            points.append(ops.reshape(x, (-1, count * rows * columns, features)))
        return ops.concatenate(points, axis=1)


def aligned(inputs: Sequence[Channels], number: int) -> list[Channels]:
    """What a layer is called on, on its grids and the same way round."""
    result = [channels.onto(number) for channels in inputs]
    same = len({channels.swapped for channels in result}) == 1
    return result if same else [channels.in_order() for channels in result]


def joined(tensors: Sequence[Any]) -> Any:
    """Channels of equal grids as one batch, all channels of an image next to one another."""
    x = tensors[0]
    if len(tensors) == 1:
        return x
    return ops.reshape(ops.stack(tensors, axis=1), (-1, *ops.shape(x)[1:]))


def unjoined(x: Any, count: int) -> Any:
    """[batch, channels, ...] from such a batch."""
    return ops.reshape(x, (-1, count, *ops.shape(x)[1:]))


def _middle(x: Any, sizes: Sequence[Any]) -> Any:
    for axis, size in enumerate(sizes, start=1):
        length = ops.shape(x)[axis]
        if size is not length and not (isinstance(size, int) and size == length):
            start = (length - size) // 2
            x = x[(slice(None),) * axis + (slice(start, start + size),)]
    return x
