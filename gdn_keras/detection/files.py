"""Detections in image files: what examples and pipelines share."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.detection.detector import Detector
from gdn_keras.detection.pictures import light_on_dark

MAX_PIXELS = 50_000_000


@dataclass(frozen=True)
class LoadedDetector:
    """A detector from a file.

    Attributes:
        channels: Colour channels of its images.
        detect: Function from uint8 images `[n, height, width, channels]` to arrays as `predict`
            gives them, and "names" of the classes.
    """

    channels: int
    detect: Callable[[np.ndarray], dict[str, np.ndarray]]


def load_detector(path: str | os.PathLike) -> LoadedDetector:
    """A detector from a .keras file, or from the folder of a SavedModel.

    A .keras file runs no code of its own. A SavedModel is a program: load your own only.

    Raises:
        OSError: If there is none, with one sentence.
    """
    path = Path(path)
    if not path.exists():
        raise OSError(f"{path} does not exist: give a .keras file or the folder of a SavedModel")
    try:
        return _load_saved_model(path) if path.is_dir() else _load_keras_file(path)
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise OSError(f"{path} cannot be loaded as a detector ({reason})") from error


def _load_keras_file(path: Path) -> LoadedDetector:
    detector = keras.saving.load_model(path, compile=False, safe_mode=True)
    if not isinstance(detector, Detector):
        raise ValueError(f"it holds a {type(detector).__name__}")
    detector = detector.changed(bounding_box_format="xyxy")
    names = np.array([*detector.class_names, ""])

    def detect(images: np.ndarray) -> dict[str, np.ndarray]:
        found = detector.predict(images, batch_size=len(images), verbose=0)
        return {**found, "names": names[found["labels"]]}

    return LoadedDetector(detector.network.input_shape[-1], detect)


def _load_saved_model(path: Path) -> LoadedDetector:
    import tensorflow as tf

    loaded = tf.saved_model.load(path)
    channels = loaded.detect.input_signature[0].shape[-1]

    def detect(images: np.ndarray) -> dict[str, np.ndarray]:
        found = {name: value.numpy() for name, value in loaded.detect(images).items()}
        return {**found, "names": np.char.decode(found["names"].astype("S"), "utf-8")}

    return LoadedDetector(channels, detect)


def read_picture(path: str | os.PathLike | Any, channels: int) -> np.ndarray:
    """A PNG or JPEG file as uint8 `[height, width, channels]`, the right way up.

    Grey pictures with a light edge are inverted, since objects are light on dark to a network of
    grey values. Transparent parts are black.

    Args:
        path: The file, by name or opened.
        channels: 1 for grey, 3 for colour.

    Raises:
        ValueError, OSError: If it is not such a file, or is damaged.
    """
    pixels = read_pixels(path, channels)
    return light_on_dark(pixels)[0] if channels == 1 else pixels


def read_pixels(path: str | os.PathLike | Any, channels: int) -> np.ndarray:
    """As `read_picture`, light on dark or not."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError("Image files need Pillow: pip install gdn_keras[detection]") from error
    with warnings.catch_warnings(), Image.open(path, formats=("PNG", "JPEG")) as image:
        # Pillow only warns of decompression bombs up to twice its limit.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"{image.width} × {image.height} is more than {MAX_PIXELS} pixels")
        image.load()
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        pixels = np.asarray(image, "float32")
        image = Image.fromarray((pixels * (255 / max(pixels.max(), 1))).astype("uint8"))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], channels)


def as_records(found: Mapping[str, np.ndarray]) -> list[list[dict[str, Any]]]:
    """For each image its detections as JSON has them, best first."""
    return [
        [
            {
                "label": str(found["names"][i, k]),
                "confidence": round(float(found["confidence"][i, k]), 4),
                "box": [round(float(v), 2) for v in found["boxes"][i, k]],
                "size": round(float(found["size"][i, k]), 4),
            }
            for k in range(int(count))
        ]
        for i, count in enumerate(found["num_detections"])
    ]


def one_line(message: object) -> str:
    """Text that does no harm to a table or a terminal."""
    text = " ".join(str(message).split()) or type(message).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
