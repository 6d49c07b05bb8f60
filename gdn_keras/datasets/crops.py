"""Crops of annotated pictures, drawn at random, for the training of detectors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gdn_keras.checks import check_choice, check_integer, check_positive, check_share
from gdn_keras.datasets.boxes import BoxedImage, longer_sides, read_boxed_image
from gdn_keras.datasets.image_files import resize_pixels
from gdn_keras.datasets.pipelines import drawn_pipeline

if TYPE_CHECKING:
    import tensorflow as tf

IGNORED = -2  # label of what is neither an object to be found nor background

_ABOUT_OBJECTS = 0.75  # share of the crops that are taken about an object to learn
_VISIBLE = 0.5  # least share of an object that a crop may leave of it
_MAGNIFICATIONS = (2.0, 4.0)  # of crops that show the insides of objects
_GAMMA, _CONTRAST, _BRIGHTNESS = 0.3, 0.3, 0.1  # largest changes: logs, and share of the range
_NOISE = 16  # largest standard deviation of a sensor's noise, in grey levels
_BYTES_KEPT = 2**30  # of pictures in memory; the others are read again each time


class Crop(NamedTuple):
    """A part of a picture: uint8 pixels, float32 boxes `[n, 4]`, int32 labels `[n]`."""

    pixels: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray


@dataclass
class Crops:
    """Crops of annotated pictures; a function of seed and number, and nothing else.

    Objects keep their sizes. Those of which a crop leaves less than a half, and those of other
    sizes than `sizes`, are labelled `IGNORED`.

    What is inside of a large object must not be taken for a small one. A share of the crops
    therefore comes from pictures enlarged by 2 to 4, around an object: its inside is background,
    and the object itself is ignored, so that no new size is shown as an object.

    Args:
        images: The pictures.
        side: Height and width of a crop in pixels, at the resolution.
        resolution: Factor on height and width of the pictures.
        channels: 1 for grey, 3 for color.
        sizes: Shortest and longest longer side of the objects to learn, at the resolution.
        mirror: Whether crops are mirrored at random, left and right.
        turns: Whether they are turned by multiples of 90 degrees.
        light: Whether brightness, contrast and gamma are changed a little, and noise is added.
        insides: Share of the crops that are enlarged.
        prepare: Function of the uint8 pixels of a picture, before crops are taken of it.
    """

    images: Sequence[BoxedImage]
    side: int
    resolution: float = 1.0
    channels: int = 3
    sizes: tuple[float, float] = (0.0, math.inf)
    mirror: bool = True
    turns: bool = False
    light: bool = True
    insides: float = 0.15
    prepare: Callable[[np.ndarray], np.ndarray] | None = None
    _kept: dict[int, Crop] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_integer("side", self.side, minimum=3)
        check_positive("resolution", self.resolution)
        check_choice("channels", self.channels, (1, 3))
        check_share("insides", self.insides)
        learned = [self._learned(image.boxes * self.resolution).any() for image in self.images]
        self._useful = np.flatnonzero(learned)
        if not len(self._useful):
            raise ValueError(f"`images` must have boxes of `sizes`. Received: {self.sizes}")

    def draw(self, seed: int, index: int) -> Crop:
        """The crop of a number."""
        rng = np.random.default_rng([seed, index])
        enlarged, about = rng.random(2) < (self.insides, _ABOUT_OBJECTS)
        picture = self._read(int(rng.choice(self._useful if about else len(self.images))))
        if enlarged and len(picture.boxes):
            crop = self._inside(rng, picture)
        else:
            crop = self._cut(rng, picture, about)
        crop = self._turned(rng, crop)
        return _relit(rng, crop) if self.light else crop

    def _read(self, number: int) -> Crop:
        """A picture at the resolution."""
        if number in self._kept:
            return self._kept[number]
        image = self.images[number]
        pixels, boxes = read_boxed_image(image, self.resolution, self.channels)
        pixels = pixels if self.prepare is None else self.prepare(pixels)
        picture = Crop(pixels, boxes, np.where(self._learned(boxes), image.labels, IGNORED))
        if sum(kept.pixels.nbytes for kept in self._kept.values()) < _BYTES_KEPT:
            self._kept[number] = picture
        return picture

    def _learned(self, boxes: np.ndarray) -> np.ndarray:
        low, high = self.sizes
        sides = longer_sides([boxes])
        return (low <= sides) & (sides <= high)

    def _cut(self, rng: np.random.Generator, picture: Crop, about: bool) -> Crop:
        """A crop anywhere, or about one of the objects to learn."""
        wanted = np.flatnonzero(picture.labels >= 0)
        low, high = _room(picture, self.side)
        if about and len(wanted):
            box = picture.boxes[rng.choice(wanted)]
            ends = np.sort([box[2:] - self.side, box[:2]], axis=0)
            low, high = (np.clip(end, low, high) for end in ends)
        corner = np.floor(rng.uniform(np.ceil(low), np.floor(high) + 1)).astype("int64")
        return self._window(picture, corner, self.side)

    def _inside(self, rng: np.random.Generator, picture: Crop) -> Crop:
        """An enlarged crop about a point of an object, larger ones more often."""
        boxes = picture.boxes
        areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1, dtype="float64")
        box = boxes[rng.choice(len(boxes), p=areas / areas.sum())]
        span = round(self.side / math.exp(rng.uniform(*np.log(_MAGNIFICATIONS))))
        corner = np.floor(rng.uniform(box[:2], box[2:]) - span / 2).astype("int64")
        ends = _room(picture, span)
        ignored = picture._replace(labels=np.full(len(boxes), IGNORED))
        cut = self._window(ignored, np.clip(corner, *ends), span)
        pixels = resize_pixels(cut.pixels, self.side, self.side, "BICUBIC")
        return Crop(pixels, cut.boxes * np.float32(self.side / span), cut.labels)

    def _window(self, picture: Crop, corner: np.ndarray, span: int) -> Crop:
        """The pixels from a corner (x, y) on, continued at edges, and what is left of objects."""
        columns, rows = (
            np.clip(np.arange(start, start + span), 0, length - 1)
            for start, length in zip(corner, picture.pixels.shape[1::-1], strict=True)
        )
        moved = picture.boxes - np.tile(corner, 2)
        inside = np.clip(moved, 0, span)
        area, left = (np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (moved, inside))
        is_whole = (left >= _VISIBLE * area) & self._learned(inside)
        labels, seen = np.where(is_whole, picture.labels, IGNORED), left > 0
        return Crop(picture.pixels[np.ix_(rows, columns)], inside[seen], labels[seen])

    def _turned(self, rng: np.random.Generator, crop: Crop) -> Crop:
        pixels, boxes, labels = crop
        for _ in range(rng.integers(4) if self.turns else 0):  # by 90 degrees, to the left
            pixels = np.rot90(pixels)
            x1, y1, x2, y2 = boxes.T
            boxes = np.stack([y1, self.side - x2, y2, self.side - x1], axis=1)
        if self.mirror and rng.random() < 0.5:
            pixels = pixels[:, ::-1]
            x1, y1, x2, y2 = boxes.T
            boxes = np.stack([self.side - x2, y1, self.side - x1, y2], axis=1)
        return Crop(pixels, boxes, labels)


def _room(picture: Crop, span: int) -> np.ndarray:
    """The first and the last corner (x, y) of crops of a picture, which it may be smaller than."""
    height, width = picture.pixels.shape[:2]
    return np.sort([[width - span, height - span], [0, 0]], axis=0)


def _relit(rng: np.random.Generator, crop: Crop) -> Crop:
    """Other brightness, contrast, gamma and noise; pixels saturate, as those of a sensor do."""
    gamma, contrast, light = rng.uniform(-1, 1, 3) * (_GAMMA, _CONTRAST, 255 * _BRIGHTNESS)
    values = 255 * (crop.pixels.astype("float32") / 255) ** math.exp(gamma)
    mean = values.mean()
    values = mean + math.exp(contrast) * (values - mean) + light
    noise = _NOISE * rng.random() ** 2  # much of it is rare
    values += noise * rng.standard_normal(values.shape, dtype="float32")
    return crop._replace(pixels=np.rint(np.clip(values, 0, 255)).astype("uint8"))


def crop_pipeline(
    crops: Crops, *, batch_size: int = 8, seed: int = 0, first: int = 0
) -> "tf.data.Dataset":
    """Endless batches of crops for `Detector.fit`; the arguments are those of `scene_pipeline`.

    Returns:
        `tf.data.Dataset` of uint8 images `[batch, side, side, channels]` and a dictionary of
        float32 "boxes" `[batch, n, 4]` and int32 "labels" `[batch, n]`, padded by -1.
    """
    shape = (crops.side, crops.side, crops.channels)
    return drawn_pipeline(crops.draw, shape, None, batch_size, seed, first)
