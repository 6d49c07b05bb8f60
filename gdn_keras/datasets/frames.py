"""Pictures of any size in frames of one size, for training and prediction alike."""

import numpy as np

from gdn_keras.datasets.image_files import import_pillow, resize_pixels

# Share of the frame that an object may fill: the largest training digits fill as much.
_FILL = 80 / 112
_MIN_CONTRAST = 16  # of an object to its background, in grey values of 255


def place_in_frame(picture: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """A picture in the middle of a frame, its edge continued; shrunk only if it is larger.

    Args:
        picture: uint8 `[height, width, channels]`.
        frame: Height and width.

    Returns:
        uint8 `[*frame, channels]`, and by how much the picture was shrunk (1 if it fits).
    """
    picture, shrink = shrink_to_fit(picture, frame)
    margins = [(m - n) / 2 for n, m in zip(picture.shape, frame, strict=False)]
    padding = [(int(margin), int(margin + 0.5)) for margin in margins]
    return np.pad(picture, [*padding, (0, 0)], "edge"), shrink


def shrink_to_fit(picture: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """A picture that fits into a frame, and by how much it was shrunk for that (1 if not)."""
    shrink = max(1.0, *(n / m for n, m in zip(picture.shape, frame, strict=False)))
    if shrink == 1:
        return picture, shrink
    height, width = (max(1, round(n / shrink)) for n in picture.shape[:2])
    return resize_pixels(picture, height, width, "LANCZOS"), shrink


def place_object(pixels: np.ndarray, frame: tuple[int, int]) -> tuple[np.ndarray, float]:
    """The one object of a grey picture, light on black, its center of mass in a frame's middle.

    Args:
        pixels: uint8 `[height, width, 1]`, an object on an even background.
        frame: Height and width.

    Returns:
        uint8 `[*frame, 1]`, and by how much the object was shrunk to fit (1 if it did).

    Raises:
        ValueError: If nothing stands out from the background.
    """
    image = import_pillow().Image
    light = _on_black(pixels[..., 0])
    strong = np.where(light > light.max() / 4, light, 0)
    centers, shrink = [], 1.0
    for profile, length in zip((strong.sum(axis=1), strong.sum(axis=0)), frame, strict=True):
        center = float((np.arange(len(profile)) + 0.5) @ profile / profile.sum())
        inside = np.flatnonzero(profile)
        reach = max(center - inside[0], inside[-1] + 1 - center)
        centers.append(center)
        shrink = max(shrink, 2 * reach / (_FILL * length))
    height, width = (round(shrink * length) for length in frame)
    top, left = (round(c - n / 2) for c, n in zip(centers, (height, width), strict=True))
    # Beyond the edges, `crop` continues with zeros: the background.
    part = image.fromarray(light).crop((left, top, left + width, top + height))
    part = np.asarray(part.resize(frame[::-1], image.Resampling.BILINEAR))
    return np.rint(part * (255 / part.max())).astype("uint8")[..., None], shrink


def light_on_dark(pixels: np.ndarray) -> tuple[np.ndarray, bool]:
    """Grey pixels `[height, width, 1]`, light objects on dark, and whether they were inverted."""
    inverted = _ground(pixels) > 128
    return (255 - pixels if inverted else pixels), inverted


def _on_black(pixels: np.ndarray) -> np.ndarray:
    """Grey values above or below the background, which is what most of the border shows."""
    contrast = np.float32(pixels) - np.float32(_ground(pixels))
    if -contrast.min() > contrast.max():
        contrast = -contrast
    if contrast.max() < _MIN_CONTRAST:
        raise ValueError("nothing stands out from the background")
    return np.maximum(contrast, 0)


def _ground(pixels: np.ndarray) -> float:
    """The median of the edge, which objects touch less than the middle."""
    edge = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    return float(np.median(np.concatenate(edge)))
