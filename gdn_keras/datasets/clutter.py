"""Backgrounds that are not empty: gradients, stripes, soft textures and noise."""

import functools

import numpy as np

# Grey values of clutter, so that light objects still stand out from it.
DARKEST, LIGHTEST = 0.0, 128.0

_COARSEST_CELL = 32  # pixels


def draw_clutter(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A ramp, stripes, a soft texture and noise, added up: float32 from 0 to 128."""
    height, width = shape
    y = np.linspace(-1, 1, height, dtype="float32")[:, None]
    x = np.linspace(-1, 1, width, dtype="float32")
    ramp_y, ramp_x, stripes, texture, noise = rng.random(5, "float32") * (30, 30, 20, 30, 12)
    image = np.float32(rng.uniform(16, 80)) + _signed(rng, ramp_y) * y + _signed(rng, ramp_x) * x
    image += np.float32(stripes) * _stripes(rng, height, width)
    image += np.float32(texture) * _texture(rng, height, width)
    image += np.float32(noise) * rng.standard_normal(shape, "float32")
    return np.clip(image, DARKEST, LIGHTEST, out=image)


def _signed(rng: np.random.Generator, value: float) -> np.float32:
    return np.float32(value if rng.random() < 0.5 else -value)


def _stripes(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """sin(k x + l y + phase), with a wave length between 4 and 64 pixels."""
    angle, phase = rng.uniform(0, 2 * np.pi, 2)
    wave = 2 * np.pi / np.exp(rng.uniform(np.log(4), np.log(64)))
    along_y = np.exp(1j * (wave * np.sin(angle) * np.arange(height) + phase)).astype("complex64")
    along_x = np.exp(1j * wave * np.cos(angle) * np.arange(width)).astype("complex64")
    return np.imag(np.outer(along_y, along_x))


def _texture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """White noise on a coarse grid, interpolated."""
    cell = int(rng.integers(3, _COARSEST_CELL + 1))
    rows, columns = _interpolation(height, cell), _interpolation(width, cell)
    coarse = rng.standard_normal((rows.shape[1], columns.shape[1]), "float32")
    return rows @ coarse @ columns.T


@functools.lru_cache(maxsize=256)
def _interpolation(length: int, cell: int) -> np.ndarray:
    """Linear interpolation from points `cell` pixels apart to all pixels, as a matrix."""
    position = np.arange(length)[:, None] / cell
    weights = np.maximum(0, 1 - np.abs(position - np.arange(length // cell + 2)))
    return weights.astype("float32")
