"""What a network costs, known before it is made, and what it may cost."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

from gdn_keras.checks import check_positive
from gdn_keras.scale_space import (
    DEFAULT_TRUNCATION,
    Plan,
    cascade,
    dense_costs,
)
from gdn_keras.training import Recipe
from gdn_keras.tuning.space import Candidate


class Cost(NamedTuple):
    """What a network costs.

    Attributes:
        parameters: Trainable ones, as the model has them.
        paper_parameters: As the paper counts them (see `gdn_keras.models.parameter_counts`).
        multiply_adds: For one image, forward, in all scale channels.
    """

    parameters: int
    paper_parameters: int
    multiply_adds: int

    def __str__(self) -> str:
        return f"{self.parameters} parameters, {self.multiply_adds / 1e6:.1f} M multiply-adds"


@dataclasses.dataclass(frozen=True)
class Budget:
    """The most that a network may cost, see `Cost`; no limit where it is `None`."""

    max_parameters: int | None = None
    max_multiply_adds: int | None = None

    def __post_init__(self) -> None:
        for name, limit in self.as_dict().items():
            if limit is not None:
                check_positive(name, limit)

    def allows(self, cost: Cost) -> bool:
        """Whether a network is within the budget."""
        limits = (self.max_parameters, self.max_multiply_adds)
        values = (cost.parameters, cost.multiply_adds)
        return all(m is None or v <= m for m, v in zip(limits, values, strict=True))

    def as_dict(self) -> dict[str, int | None]:
        """The limits by name."""
        return dataclasses.asdict(self)


def describe(candidate: Candidate, cost: Cost) -> str:
    """A candidate in one line."""
    return (
        f"{candidate.widths_text}, r {candidate.scale_ratio:g}, {candidate.pooling}, "
        f"rate {candidate.learning_rate:g}: {cost}"
    )


def network_cost(
    candidate: Candidate, recipe: Recipe, image_shape: tuple[int, int, int], classes: int
) -> Cost:
    """What a candidate costs with all scale channels, without making the network."""
    widths, channels = (*candidate.widths, classes), image_shape[2]
    pairs = sum(c_in * c_out for c_in, c_out in itertools.pairwise((channels, *widths)))
    return Cost(
        # Five derivatives for each pair of channels, two numbers for each normalised output.
        parameters=5 * pairs + 2 * sum(widths),
        paper_parameters=6 * pairs,
        multiply_adds=_multiply_adds(
            (channels, *widths),
            candidate.scale_ratio,
            image_shape[:2],
            recipe.scales,
            recipe.sampling,
            recipe.cone,
        ),
    )


@functools.lru_cache(maxsize=256)
def _multiply_adds(
    features: tuple[int, ...],
    scale_ratio: float,
    frame: tuple[int, int],
    scales: tuple[float, ...],
    sampling: str,
    cone: float,
) -> int:
    """Those of `gaussian_derivative_network`, without the network."""
    nodes = cascade([scale_ratio**k for k in range(len(features) - 1)])
    rest = frame, scales, (*features, features[-1])
    if sampling == "dense":
        return sum(map(sum, dense_costs(nodes, DEFAULT_TRUNCATION, *rest)))
    return sum(map(sum, Plan(nodes, "symmetric", DEFAULT_TRUNCATION, cone=cone).costs(*rest)))
