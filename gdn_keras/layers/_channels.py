"""What a tensor is in all scale channels at once, and how it gets from grid to grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras import ops

from gdn_keras.layers._sampling import sample_at_once, sample_transposed, swap_axes
from gdn_keras.scale_space import Band, Crop, Operator
from gdn_keras.scale_space.sampling_plan import Group

# For each group of channels, for each input of a layer, the edge of each channel.
Edges = Sequence[Sequence[Sequence[Operator | Crop | None]]]

# Entries of an operator's two matrices multiplied out, up to which one product is faster than two.
_SMALL = 4096


@dataclass(frozen=True)
class Channels:
    """A tensor of the network, in all scale channels.

    Attributes:
        tensors: One for each group of channels that have equal grids, [batch x channels, ...], the
            channels of an image next to one another. Devices that have shared out the images then
            keep their own. Before the image is lifted, the one tensor that all channels share.
        counts: Number of channels in each group.
        lifted: Whether channels have tensors of their own.
        swapped: Whether rows and columns are swapped, as sampling leaves them.
    """

    tensors: tuple[Any, ...]
    counts: tuple[int, ...]
    lifted: bool = True
    swapped: bool = False

    def map(self, function: Callable[[Any], Any]) -> "Channels":
        """Apply a function to the tensors."""
        return replace(self, tensors=tuple(function(x) for x in self.tensors))

    def of_group(self, group: int) -> Any:
        """The tensor that a group reads."""
        return self.tensors[group if self.lifted else 0]

    def sampled(self, group: int, edges: Sequence[Operator | Crop | None]) -> Any:
        """The tensor of a group on other grids, given the edge of each of its channels.

        Operators swap rows and columns.
        """
        x = self.of_group(group)
        if self.lifted and all(edge is edges[0] for edge in edges):
            return applied(x, edges[0], self.swapped)
        parts = unjoined(x, self.counts[group]) if self.lifted else None
        return joined(
            [
                applied(x if parts is None else parts[:, i], edge, self.swapped)
                for i, edge in enumerate(edges)
            ]
        )

    def smoothed(self, edges: Edges) -> "Channels":
        """On other grids, by operators, which lift the image that channels share."""
        tensors = tuple(self.sampled(group, edge) for group, (edge,) in enumerate(edges))
        return replace(self, tensors=tensors, lifted=True, swapped=not self.swapped)

    def in_order(self) -> "Channels":
        """Rows and columns the right way round."""
        return replace(self.map(swap_axes), swapped=False) if self.swapped else self


def aligned(inputs: Sequence[Channels], edges: Edges) -> list[Channels]:
    """What a layer is called on, on its grid and the same way round."""
    result = []
    for k, channels in enumerate(inputs):
        found = [group[k] for group in edges]
        if channels.lifted and any(edge is not None for group in found for edge in group):
            tensors = tuple(channels.sampled(g, edge) for g, edge in enumerate(found))
            swaps = isinstance(found[0][0], Operator)
            channels = replace(channels, tensors=tensors, swapped=channels.swapped != swaps)
        result.append(channels)
    if len({channels.swapped for channels in result}) > 1:
        result = [channels.in_order() for channels in result]
    return result


def joined(tensors: Sequence[Any]) -> Any:
    """Channels of equal grids as one batch, all channels of an image next to one another."""
    if len(tensors) == 1:
        return tensors[0]
    return _reshaped(ops.stack(tensors, axis=1), (-1,), 2)


def unjoined(x: Any, count: int) -> Any:
    """[batch, channels, ...] from such a batch."""
    return _reshaped(x, (-1, count), 1)


def _reshaped(x: Any, start: tuple[int, ...], kept: int) -> Any:
    """`x` with its axes from `kept` on as they are, and `start` in place of those before."""
    shape = ops.shape(x)
    known = tuple(x.shape)
    return ops.reshape(x, (*start, *(known[i] or shape[i] for i in range(kept, len(known)))))


def applied(x: Any, edge: Operator | Crop | None, swapped: bool) -> Any:
    """A tensor on another grid. Operators swap rows and columns, which may be `swapped` already."""
    if edge is None:
        return x
    if isinstance(edge, Crop):
        return _middle(x, edge[::-1] if swapped else edge)
    rows, columns = (edge.columns, edge.rows) if swapped else (edge.rows, edge.columns)
    # Rounded apart, the entries of the product no longer are one, and stencils times sigma^2 make
    # much of that where sigma is many steps of the grid.
    if isinstance(rows, Band) or isinstance(columns, Band):
        return sample_transposed(x, rows, columns)
    small = rows.size * columns.size <= _SMALL and edge.sigma <= 2
    return sample_at_once(x, rows, columns) if small else sample_transposed(x, rows, columns)


def _middle(x: Any, sizes: Sequence[Any]) -> Any:
    for axis, size in enumerate(sizes, start=1):
        size = size if isinstance(size, int) else ops.cast(size, "int32")
        start = (ops.shape(x)[axis] - size) // 2
        x = x[(slice(None),) * axis + (slice(start, start + size),)]
    return x


def stacked_vectors(channels: Channels) -> Any:
    """[batch, scale channels, ...] of channels with tensors of one shape."""
    stacks = map(unjoined, channels.tensors, channels.counts)
    return ops.concatenate(list(stacks), axis=1)


def stacked_points(channels: Channels) -> Any:
    """[batch, points, features]: the points of all channels, row by row."""
    points = []
    for x, count in zip(channels.in_order().tensors, channels.counts, strict=True):
        _, rows, columns, features = ops.shape(x)
        points.append(ops.reshape(x, (-1, count * rows * columns, features)))
    return ops.concatenate(points, axis=1)


def in_pixels(channels: Channels, groups: Sequence[Group]) -> Channels:
    """Feature maps on the image's pixels."""
    maps = []
    for x, group in zip(channels.in_order().tensors, groups, strict=True):
        parts = unjoined(x, len(group.scales))
        sampled = [
            sample_transposed(parts[:, i], operator.rows, operator.columns)
            for i, operator in enumerate(group.outputs or ())
        ]
        maps.append(swap_axes(joined(sampled)))
    return replace(channels, tensors=tuple(maps), swapped=False)
