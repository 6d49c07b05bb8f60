"""Scenes: objects of given sizes, scattered over frames, with their boxes."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import ndimage

from gdn_keras.checks import check_choice, check_integer, check_positive, check_sizes, require
from gdn_keras.datasets.augmentation import ROTATION, SHEAR
from gdn_keras.datasets.boxes import pad_boxes
from gdn_keras.datasets.digits import Digits, load_embedded_digits, select_split
from gdn_keras.datasets.image_data import check_labels
from gdn_keras.datasets.pipelines import drawn_pipeline
from gdn_keras.datasets.transform import rescale_images

if TYPE_CHECKING:
    import tensorflow as tf

# Height of a digit of MNIST, in pixels: what size 1 means.
DIGIT_EXTENT = 20.0

BACKGROUNDS = ("empty", "clutter")

# How objects are drawn in training: standard deviations of their blur, in their own pixels, up to
# that of MNIST Large Scale; the greatest gain of their edges; the least light.
_BLURS = (0.0, 0.25, 0.5, 0.7, 7 / 8)
_SHARPEST, _LEAST_LIGHT = 2.0, 0.5

_LIGHTEST = 128.0  # clutter, so that light objects still stand out from it
_TRIES = 24  # places tried for an object before it is left out
_PEAK = 255.0

Sides = np.ndarray | float  # width and height, or one number for both


class Scene(NamedTuple):
    """One frame: uint8 image `[height, width, channels]`, and what is in it.

    Boxes `[n, 4]` are (x1, y1, x2, y2) in pixels; the first pixel covers [0, 1] × [0, 1].
    """

    image: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray


class SceneSet(NamedTuple):
    """Scenes of one shape, stacked; boxes and sizes are padded by zeros and labels by -1."""

    images: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray

    @property
    def bounding_boxes(self) -> dict[str, np.ndarray]:
        """Boxes and labels as Keras has them, and sizes."""
        return {"boxes": self.boxes, "labels": self.labels, "sizes": self.sizes}


@dataclass(frozen=True, eq=False)
class Scenes:
    """How to draw scenes: which objects, how large, how many, over what.

    Objects are light on dark: each is rescaled by cubic splines, smoothed by 7/8 of its own pixels
    and brought to a peak of 255, as in MNIST Large Scale, and put over the background as light is,
    255 - (255 - background) (255 - object) / 255. Frames are uint8, as image files are; the soft
    threshold of MNIST Large Scale is left to the network (`gdn_keras.layers.ArctanContrast`).

    Example:

    >>> scenes = digit_scenes("train", sizes=[1.0], shape=(96, 96), count=(2, 6))
    >>> scene = scenes.draw(seed=0, index=7)
    >>> scene.image.shape, scene.boxes.shape[1]
    ((96, 96, 1), 4)

    Args:
        images: Objects, `[n, h, w]` or `[n, h, w, channels]`, not negative, background 0.
        labels: Integers `[n]`.
        sizes: The sizes to choose from, each equally likely. 1 is an object's own.
        shape: Height and width of the frames.
        count: Least and greatest number of objects in a frame. Where they do not fit, fewer.
        background: "empty", or "clutter" for gradients, stripes, textures and noise, with fragments
            of objects as distractors, up to as many as there are objects.
        extent: Longer side of an object of size 1. Objects keep the square of this side about the
            center of their image to themselves; boxes hold what is at least half as light as the
            object's peak.
        augment: Whether objects are drawn anew each time: rotated and sheared a little, with
            sharper or softer and thinner or thicker strokes, and less light. Sizes are kept.
    """

    images: np.ndarray
    labels: np.ndarray
    sizes: Sequence[float] = (1.0,)
    shape: tuple[int, int] = (96, 96)
    count: tuple[int, int] = (2, 6)
    background: str = "empty"
    extent: float = DIGIT_EXTENT
    augment: bool = False

    def __post_init__(self) -> None:
        check_labels(np.asarray(self.images), self.labels)
        if 0 in np.shape(self.images):
            raise ValueError(f"`images` must hold objects. Received: shape {self.images.shape}")
        check_choice("background", self.background, BACKGROUNDS)
        check_positive("extent", self.extent)
        check_sizes("sizes", self.sizes)
        for name, meaning in (("count", "(least, greatest)"), ("shape", "(height, width)")):
            pair = getattr(self, name)
            ordered = np.shape(pair) == (2,) and (name == "shape" or pair[1] >= max(pair[0], 1))
            require(ordered, name, f"be {meaning}", pair)
            for number in pair:
                check_integer(name, number, minimum=0)
        largest = self.extent * max(self.sizes)
        text = f"have room for the largest object, {largest:g} pixels and one more"
        require(min(self.shape) >= largest + 1, "shape", text, self.shape)

    @property
    def channels(self) -> int:
        """Color channels of the frames."""
        return self.images.shape[3] if self.images.ndim == 4 else 1

    def draw(self, seed: int, index: int) -> Scene:
        """Scene number `index` of this seed, a function of both and nothing else."""
        rng = np.random.default_rng([seed, index])
        frame = np.zeros((*self.shape, self.channels), "float32")
        if self.background == "clutter":
            frame += _draw_clutter(rng, self.shape)[..., None]
        chosen = rng.integers(len(self.images), size=rng.integers(*self.count, endpoint=True))
        # The largest first: between small ones there would be no room left.
        sizes = np.sort(rng.choice(np.asarray(self.sizes, "float64"), len(chosen)))[::-1]
        taken, rows = np.empty((0, 4)), []
        for k, size in zip(chosen, sizes, strict=True):
            patch = self._render(rng, k, size)
            whole, side = np.array(patch.shape[1::-1]), self.extent * size
            corner = self._find_corner(rng, whole, side, taken)
            if corner is None:
                continue
            _add_light(frame, patch, corner)
            taken = np.vstack([taken, _centered_box(corner, whole, side)])
            rows.append((self._box(patch, corner), self.labels[k], size))
        if self.background == "clutter":
            self._scatter(rng, frame, taken)
        return Scene(
            np.rint(frame).astype("uint8"),
            np.array([box for box, _, _ in rows], "float32").reshape(-1, 4),
            np.array([label for _, label, _ in rows], "int32"),
            np.array([size for _, _, size in rows], "float32"),
        )

    def _render(self, rng: np.random.Generator, k: int, size: float) -> np.ndarray:
        """An object at a size, with room for four standard deviations of its blur."""
        image = np.asarray(self.images[k], "float32").reshape(*self.images.shape[1:3], -1)
        blur = _BLURS[-1]
        if self.augment:
            blur, image = float(rng.choice(_BLURS)), _varied(rng, image)
        height, width = (math.ceil(size * (length + 7)) for length in image.shape[:2])
        patch = rescale_images(image[None], float(size), (height, width), smoothing=blur)[0]
        return _restroked(rng, patch) if self.augment else patch

    def _find_corner(
        self, rng: np.random.Generator, whole: np.ndarray, box: Sides, taken: np.ndarray
    ) -> np.ndarray | None:
        """Left and top of a patch whose central box is inside the frame and clear of `taken`."""
        low = np.ceil((box - whole) / 2).astype(int)
        high = np.floor(np.array(self.shape[::-1]) - (box + whole) / 2).astype(int)
        if (high < low).any():
            return None
        corners = rng.integers(low, high + 1, (_TRIES, 2))
        boxes = _centered_box(corners, whole, box)
        apart = (boxes[:, None, :2] >= taken[:, 2:]) | (boxes[:, None, 2:] <= taken[:, :2])
        free = np.flatnonzero(np.all(apart.any(axis=2), axis=1))
        return corners[free[0]] if len(free) else None

    def _box(self, patch: np.ndarray, corner: np.ndarray) -> np.ndarray:
        """What is at least half as light as the peak, in the frame."""
        light = patch.max(axis=2)
        [(y, x)] = ndimage.find_objects((light >= light.max() / 2).astype(int))
        box = np.array([x.start, y.start, x.stop, y.stop]) + np.tile(corner, 2)
        return np.clip(box, 0, np.tile(self.shape[::-1], 2))

    def _scatter(self, rng: np.random.Generator, frame: np.ndarray, taken: np.ndarray) -> None:
        """Pieces of objects, too small to tell what they are of, where there is room."""
        for _ in range(rng.integers(len(taken), endpoint=True)):
            index = int(rng.integers(len(self.images)))
            patch = self._render(rng, index, rng.choice(self.sizes))
            shape = np.array(patch.shape[:2])
            piece = rng.integers(shape // 4, shape * 2 // 5 + 1) + 1
            top, left = rng.integers(shape // 5, shape - shape // 5 - piece + 1)
            patch = patch[top : top + piece[0], left : left + piece[1]]
            corner = self._find_corner(rng, piece[::-1], piece[::-1], taken)
            if corner is not None:
                _add_light(frame, patch, corner)


def digit_scenes(split: str, *, source: Digits | None = None, **recipe: Any) -> Scenes:
    """Scenes of MNIST digits, those that come with the package by default.

    Args:
        split, source: As in `load_large_scale`.
        **recipe: Arguments of `Scenes` other than `images` and `labels`.
    """
    source = load_embedded_digits() if source is None else source
    return Scenes(*select_split(source, split), **recipe)


def scene_set(scenes: Scenes, count: int, seed: int = 0) -> SceneSet:
    """The first `count` scenes of a seed as arrays: a fixed set to test on.

    Example:

    >>> test = scene_set(digit_scenes("test", sizes=[0.5, 1, 2, 4], shape=(224, 224)), 20)
    >>> test.images.shape
    (20, 224, 224, 1)
    """
    check_integer("count", count)
    images, boxes, labels, sizes = zip(*(scenes.draw(seed, k) for k in range(count)), strict=True)
    return SceneSet(np.stack(images), **pad_boxes(boxes, labels, scenes.count[1], sizes=sizes))


def scene_pipeline(
    scenes: Scenes, *, batch_size: int = 16, seed: int = 0, first: int = 0
) -> "tf.data.Dataset":
    """Endless batches of new scenes for training.

    >>> model.fit(scene_pipeline(scenes), steps_per_epoch=100, epochs=20)  # doctest: +SKIP

    Args:
        scenes: What to draw.
        batch_size: Scenes in a batch.
        seed: Non-negative integer.
        first: The batch to begin with: batch `k` holds scenes `k * batch_size` and on.

    Returns:
        `tf.data.Dataset` of uint8 images `[batch, height, width, channels]` and a dictionary of
        float32 "boxes" `[batch, n, 4]` and int32 "labels" `[batch, n]`, padded as in `SceneSet`.
    """
    shape, most = (*scenes.shape, scenes.channels), scenes.count[1]
    return drawn_pipeline(scenes.draw, shape, most, batch_size, seed, first)


def _varied(rng: np.random.Generator, image: np.ndarray) -> np.ndarray:
    """An object rotated and sheared about its center, as `RandomAffine` does it."""
    angle, slant = rng.uniform(-1, 1, 2) * (ROTATION, SHEAR)
    cos, sin = np.cos(angle), np.sin(angle)
    linear = np.array([[slant * sin + cos, sin], [slant * cos - sin, cos]])
    center = (np.array(image.shape[:2]) - 1) / 2
    offset = center - linear @ center
    planes = [ndimage.affine_transform(p, linear, offset) for p in np.moveaxis(image, 2, 0)]
    return np.clip(np.stack(planes, axis=-1), 0, image.max())


def _restroked(rng: np.random.Generator, patch: np.ndarray) -> np.ndarray:
    """The object with sharper edges, thinner or thicker strokes, and less light."""
    gain = math.exp(rng.uniform(0, math.log(_SHARPEST)))
    # Between these levels, what was dark stays dark and the peak stays the peak.
    level = rng.uniform(0.5 / gain, 1 - 0.5 / gain)
    strokes = np.clip(0.5 + gain * (patch / _PEAK - level), 0, 1)
    return (_PEAK * rng.uniform(_LEAST_LIGHT, 1) * strokes).astype("float32")


def _add_light(frame: np.ndarray, patch: np.ndarray, corner: np.ndarray) -> None:
    """255 - (255 - frame) (255 - patch) / 255, with the patch's corner at (left, top)."""
    left, top = corner
    begin_y, begin_x = max(0, -top), max(0, -left)
    target = frame[max(0, top) : top + patch.shape[0], max(0, left) : left + patch.shape[1]]
    light = patch[begin_y : begin_y + target.shape[0], begin_x : begin_x + target.shape[1]]
    target += light - target * light / _PEAK


def _centered_box(corner: np.ndarray, whole: np.ndarray, box: Sides) -> np.ndarray:
    """The box of these sides about the middle of a patch, (x1, y1, x2, y2)."""
    return np.concatenate([corner + (whole - box) / 2, corner + (whole + box) / 2], axis=-1)


def _draw_clutter(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A ramp, stripes, a soft texture and noise, added up: float32 from 0 to 128."""
    height, width = shape
    y = np.linspace(-1, 1, height, dtype="float32")[:, None]
    x = np.linspace(-1, 1, width, dtype="float32")
    strengths = (rng.random(5, "float32") * (30, 30, 20, 30, 12)).astype("float32")
    level = np.float32(rng.uniform(16, 80))
    ramp_y, ramp_x = strengths[:2] * np.where(rng.random(2) < 0.5, 1, -1).astype("float32")
    image = level + ramp_y * y + ramp_x * x
    image += strengths[2] * _stripes(rng, height, width)
    image += strengths[3] * _texture(rng, height, width)
    image += strengths[4] * rng.standard_normal(shape, "float32")
    return np.clip(image, 0, _LIGHTEST, out=image)


def _stripes(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """sin(k x + l y + phase), with a wave length between 4 and 64 pixels."""
    angle, phase = rng.uniform(0, 2 * np.pi, 2)
    wave = 2 * np.pi / np.exp(rng.uniform(np.log(4), np.log(64)))
    along_y = np.exp(1j * (wave * np.sin(angle) * np.arange(height) + phase)).astype("complex64")
    along_x = np.exp(1j * wave * np.cos(angle) * np.arange(width)).astype("complex64")
    return np.imag(np.outer(along_y, along_x))


def _texture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """White noise on a coarse grid, interpolated."""
    cell = int(rng.integers(3, 33))  # pixels
    rows, columns = _interpolation(height, cell), _interpolation(width, cell)
    coarse = rng.standard_normal((rows.shape[1], columns.shape[1]), "float32")
    return rows @ coarse @ columns.T


@functools.lru_cache(maxsize=256)
def _interpolation(length: int, cell: int) -> np.ndarray:
    """Linear interpolation from points `cell` pixels apart to all pixels, as a matrix."""
    position = np.arange(length)[:, None] / cell
    weights = np.maximum(0, 1 - np.abs(position - np.arange(length // cell + 2)))
    return weights.astype("float32")
