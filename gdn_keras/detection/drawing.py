"""Pictures with boxes, and what a detector sees: the heat of each scale channel, over place."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from gdn_keras.scale_space import PointGrid

if TYPE_CHECKING:
    from PIL.Image import Image

_COLORS = (
    "#ff5c5c", "#4cc9f0", "#ffd166", "#06d6a0", "#c77dff",
    "#ff9f1c", "#90be6d", "#f78fb3", "#a0c4ff", "#e0e0e0",
)  # fmt: skip


def draw_boxes(
    image: np.ndarray, found: Mapping[str, Sequence | np.ndarray], scale: int = 1
) -> "Image":
    """One image with the boxes that were found in it, a color for each class.

    Args:
        image: uint8 `[height, width, channels]`, grey or color.
        found: For this image: "boxes" `[n, 4]` (x1, y1, x2, y2) and "labels" `[n]`, with
            "names" and "confidence" `[n]` if known; entries with a label of -1 are padding.
        scale: Whole number by which the picture is enlarged.

    Raises:
        ImportError: Without Pillow.
    """
    # `keras.visualization.draw_bounding_boxes` needs OpenCV and has one color for all classes.
    Image, ImageDraw = import_drawing()
    pixels = np.asarray(image)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).convert("RGB")
    picture = picture.resize((picture.width * scale, picture.height * scale))
    pen = ImageDraw.Draw(picture)
    # Legible where the picture is shown as a whole.
    line, text_height = (max(least, min(picture.size) // n) for least, n in ((1, 240), (10, 32)))
    style = {"font_size": text_height, "stroke_width": line, "stroke_fill": "black"}
    for k in np.flatnonzero(np.asarray(found["labels"]) >= 0).tolist():
        label = int(found["labels"][k])
        color = _COLORS[label % len(_COLORS)]
        x1, y1, x2, y2 = (np.asarray(found["boxes"][k], "float64") * scale).tolist()
        pen.rectangle((x1, y1, x2, y2), outline=color, width=line)
        text = str(found["names"][k]) if "names" in found else str(label)
        if "confidence" in found:
            text = f"{text} {float(found['confidence'][k]):.2f}"
        left = min(x1, picture.width - pen.textlength(text, font_size=text_height))
        place = max(0, left), max(0, y1 - 1.3 * text_height)
        pen.text(place, text, fill=color, **style)
    return picture


def import_drawing() -> tuple[ModuleType, ModuleType]:
    """The modules `Image` and `ImageDraw` of Pillow."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise ImportError("Pictures need Pillow: pip install gdn_keras[plots]") from error
    return Image, ImageDraw


def heat_maps(
    predictions: Any, grids: Sequence[PointGrid], shape: tuple[int, int], num_classes: int
) -> tuple[np.ndarray, ...]:
    """The highest heat of any class at each point, as a map for each scale channel.

    An object is a maximum over place and scale. In a picture that is twice as large, the same
    maxima are in channels of twice the scale.

    Example:

    >>> grids, shape = detector.point_grids(images)
    >>> maps = heat_maps(detector(images, training=False), grids, shape, detector.num_classes)

    Args:
        predictions: `[batch, points, features]`, what a `Detector` gives for images.
        grids: Of the channels, in the order of the points.
        shape: Height and width of the images.
        num_classes: Number of classes.

    Returns:
        For each channel an array `[batch, rows, columns]` of numbers from 0 to 1, without points
        beyond the image.
    """
    logits = ops.cast(predictions[..., :num_classes], "float32")
    heat = ops.convert_to_numpy(ops.sigmoid(ops.max(logits, axis=-1)))
    ends = np.cumsum([grid.rows * grid.columns for grid in grids])[:-1]
    maps = []
    for channel, grid in zip(np.split(heat, ends, axis=1), grids, strict=True):
        rows, columns = (
            np.flatnonzero(np.abs(np.arange(count) - (count - 1) / 2) * grid.step < length / 2)
            for count, length in zip((grid.rows, grid.columns), shape, strict=True)
        )
        maps.append(channel.reshape(-1, grid.rows, grid.columns)[:, rows][:, :, columns])
    return tuple(maps)
