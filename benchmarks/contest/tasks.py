"""What is measured: who computes what, on how many images of which size."""

from dataclasses import asdict, dataclass

WIDTHS = {
    "default": (12, 16, 24, 32, 64, 10),
    "large": (16, 24, 32, 48, 64, 10),
}
MODES = ("forward", "training")

# Framework of each contestant, its name in tables, and its batch at 112×112: what fits in 8 GB.
CONTESTANTS = {
    "literal_torch": ("torch", "literal PyTorch", 4),
    "literal_keras": ("tensorflow", "literal Keras", 4),
    "dense": ("tensorflow", "gdn_keras, dense", 10),
    "matched": ("tensorflow", "gdn_keras, matched", 50),
    "plain_cnn": ("tensorflow", "plain CNN (one scale)", 50),
}


@dataclass(frozen=True)
class Task:
    """One cell of a table.

    Attributes:
        contestant: One of `CONTESTANTS`.
        mode: "forward" (inference) or "training" (a whole step, the optimiser included).
        widths: Feature channels of the layers, the classes as the last.
        side: Height and width of the images.
        channels: Number of scale channels.
        batch: Images at a time.
        truncation: Of the literal contestants' kernels.
    """

    contestant: str
    mode: str
    widths: tuple[int, ...]
    side: int
    channels: int
    batch: int
    truncation: float = 1e-4

    @property
    def scales(self) -> tuple[float, ...]:
        """sigma_0 = 2^(i/2), from i = -1 on: the paper's for eight channels."""
        return tuple(2 ** (i / 2) for i in range(-1, self.channels - 1))

    @property
    def key(self) -> tuple:
        """Tasks that differ in nothing but the batch share a network."""
        return tuple(value for name, value in asdict(self).items() if name != "batch")

    @classmethod
    def from_dict(cls, values: dict) -> "Task":
        return cls(**{**values, "widths": tuple(values["widths"])})
