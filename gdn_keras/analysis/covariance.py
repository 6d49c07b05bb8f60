"""The paper's two theorems as numbers: scale covariance and scale invariance, measured."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from gdn_keras.checks import check_positive, require
from gdn_keras.datasets import rescale_images
from gdn_keras.models import channel_model, network_of, retarget, scale_channels_of

_BATCH = 16


class CovarianceErrors(NamedTuple):
    """Relative errors between matching scale channels at the center, for a `factor` S.

    `scales` is sigma_0 of the finer channel of each matching pair (sigma_0, S sigma_0), and
    `layers` [layers, pairs] holds ||F'_k(S sigma_0) - F_k(sigma_0)|| / ||F_k(sigma_0) - F_k(0)||.
    The norms are over images and feature channels, and F_k(0), the response to an empty image,
    keeps offsets from making errors look small.
    """

    factor: float
    scales: tuple[float, ...]
    layers: np.ndarray

    @property
    def output(self) -> np.ndarray:
        """Errors of the last layer, one for each pair."""
        return self.layers[-1]


class InvarianceErrors(NamedTuple):
    """Relative change of the pooled output, [images, classes], under rescaling by `factor`.

    `errors` is |L(f') - L(f)| over the root mean square of L(f); `inside` tells whether the winning
    channels, before and after rescaling, have their match within the range of scale channels. The
    theorem is about these.
    """

    factor: float
    errors: np.ndarray
    inside: np.ndarray


def covariance_error(
    model: keras.Model, factor: float = 2**0.5, images: np.ndarray | None = None
) -> CovarianceErrors:
    """Measure scale covariance: `F'_k(S sigma_0) = F_k(sigma_0)` for `f'(S x) = f(x)`.

    The image and its frame are rescaled about the center; layers of the channel S sigma_0 on the
    rescaled image are compared with those of sigma_0 on the original.

    Example:

    >>> model = gdn_keras.from_preset("default")
    >>> gdn_keras.analysis.covariance_error(model, factor=2.0).output  # doctest: +SKIP
    array([0.004, 0.006, ...])

    Args:
        model: A model with one `ScaleChannels` layer, whatever it reads.
        factor: S. It must be a ratio of two of the network's scales.
        images: [n, height, width, channels] of the model's shape, rescaled by cubic splines. By
            default, `blob_images` in proportion to each channel's scale, which rescale without an
            error of their own. They are not pixels, and enter after the preprocessor.
    """
    channels = scale_channels_of(model).scales
    pairs = _matching_pairs(channels, factor)
    prepare = None if images is None else getattr(model, "preprocessor", None)
    found: list[list[np.ndarray]] = []
    errors: list[list[float]] = []
    for i, j in pairs:
        if images is None or not found:  # given images serve all pairs
            originals, rescaled = _image_pair(model, factor, images, channels[i])
            originals = np.concatenate([originals, np.zeros_like(originals[:1])])
            found = [_centers(model, batch, prepare) for batch in (originals, rescaled)]
        errors.append([])
        for before, after in zip(*found, strict=True):
            empty = before[-1, i]
            response, matching = before[:-1, i] - empty, after[:, j] - empty
            if not response.any():
                raise ValueError(
                    f"Layer {len(errors[-1]) + 1} of `model` responds to nothing, so that no error "
                    f"relative to its response can be given. Received: model={model.name!r}"
                )
            error = np.linalg.norm(matching - response) / np.linalg.norm(response)
            errors[-1].append(float(error))
    return CovarianceErrors(factor, tuple(channels[i] for i, _ in pairs), np.transpose(errors))


def _centers(model: keras.Model, images: np.ndarray, prepare: Any) -> list[np.ndarray]:
    """What each layer of the network holds at the center, [n, scales, features]."""
    found = []
    for start in range(0, len(images), _BATCH):
        inputs = keras.ops.convert_to_tensor(images[start : start + _BATCH])
        values = scale_channels_of(model).layer_centers(prepare(inputs) if prepare else inputs)
        found.append(map(keras.ops.convert_to_numpy, values))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def invariance_error(
    model: keras.Model, factor: float = 2**0.5, images: np.ndarray | None = None
) -> InvarianceErrors:
    """Measure how much the pooled output changes when the image is rescaled.

    Arguments as for `covariance_error`.
    """
    model = network_of(model) if images is None else model
    channels = scale_channels_of(model)
    if channels.has_maps:
        raise ValueError(
            "`model` must give one answer for an image, or there is nothing to compare between "
            f"images of unlike sizes. Received: model={model.name!r} with maps or points"
        )
    pairs = _matching_pairs(channels.scales, factor)
    middle, _ = pairs[len(pairs) // 2]
    originals, rescaled = _image_pair(model, factor, images, channels.scales[middle])
    other = retarget(model, rescaled.shape[1:])
    before, after = _outputs(model, originals), _outputs(other, rescaled)
    errors = np.abs(after - before) / np.sqrt(np.mean(before**2))
    fine, coarse = np.transpose(pairs)
    inside = np.ones(errors.shape, dtype=bool)
    for network, batch, matched in ((model, originals, fine), (other, rescaled, coarse)):
        inside &= np.isin(_outputs(channel_model(network), batch).argmax(axis=1), matched)
    return InvarianceErrors(factor, errors, inside)


def blob_images(
    shape: tuple[int, int, int], scale: float, count: int = 4, seed: int = 0
) -> np.ndarray:
    """Smooth analytic images: ten Gaussian blobs about the center, of 1.5 to 3 times `scale`.

    The same seed at another scale and shape gives the same pattern, rescaled exactly.
    """
    rng = np.random.default_rng(seed)
    height, width, channels = shape
    y = (np.arange(height) - (height - 1) / 2)[:, None, None] / scale
    x = (np.arange(width) - (width - 1) / 2)[None, :, None] / scale
    images = np.zeros((count, height, width, channels))
    for image in images:
        for _ in range(10):
            x0, y0 = rng.uniform(-5, 5, size=2)
            spread, amplitude = rng.uniform(1.5, 3.0), rng.normal(size=channels)
            image += amplitude * np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / (2 * spread**2))
    return images.astype("float32")


def _image_pair(
    model: keras.Model, factor: float, images: np.ndarray | None, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Images, by default for one scale, and the same with their frames rescaled by `factor`."""
    height, width, channels = shape = tuple(model.input_shape[1:])
    if height is None or width is None:
        raise ValueError(
            "`model` must have a known height and width: `retarget(model, (height, width, "
            f"channels))` gives it one. Received: input_shape={shape}"
        )
    frame = (round(height * factor), round(width * factor))
    if images is None:
        return blob_images(shape, scale), blob_images((*frame, channels), scale * factor)
    images = np.asarray(images, dtype="float32")
    if images.shape[1:] != shape:
        text = f"`images` must have shape [n, {height}, {width}, {channels}]."
        raise ValueError(f"{text} Received: images of shape {images.shape}")
    options = {"smoothing": 0, "boundary": "symmetric", "peak": None}
    return images, rescale_images(images, factor, frame, **options)


def _matching_pairs(scales: Sequence[float], factor: float) -> list[tuple[int, int]]:
    check_positive("factor", factor)
    ratios = np.divide.outer(scales, scales)  # [coarse, fine]
    pairs = [(int(i), int(j)) for i, j in np.argwhere(np.abs(ratios.T / factor - 1) < 1e-4)]
    known = sorted({round(float(ratio), 4) for ratio in ratios.ravel() if ratio > 1})
    require(pairs, "factor", f"be a ratio of two of the network's scales, one of {known}", factor)
    return pairs


def _outputs(model: keras.Model, images: np.ndarray) -> np.ndarray:
    return keras.ops.convert_to_numpy(model(images, training=False))
