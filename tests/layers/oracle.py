"""Eq. (lin-comb-2-jet-with-indices) by brute force in float64, independent of the package."""

import math

import numpy as np
from scipy.special import ive

PAD_MODES = {"symmetric": "symmetric", "edge": "edge", "constant": "constant"}


def kernel(sigma, truncation):
    """T(n; s) = e^{-s} I_n(s), cut where less than `truncation` lies outside, of sum one."""
    radius, s = 0, sigma**2
    while 1 - sum(ive(abs(n), s) for n in range(-radius, radius + 1)) >= truncation:
        radius += 1
    taps = np.array([ive(abs(n), s) for n in range(-radius, radius + 1)])
    return taps / taps.sum()


def smooth(image, sigma, boundary, truncation, margin):
    """The image continued by the boundary rule, smoothed, `margin` pixels beyond each edge."""
    taps = kernel(sigma, truncation)
    pad = len(taps) // 2 + margin
    for axis in (0, 1):
        width = [(pad, pad) if a == axis else (0, 0) for a in range(image.ndim)]
        padded = np.pad(image, width, mode=PAD_MODES[boundary])
        size = image.shape[axis] + 2 * margin
        image = sum(
            tap * np.take(padded, np.arange(i, i + size), axis=axis) for i, tap in enumerate(taps)
        )
    return image


def jet_layer(image, weights, bias, sigma, boundary, truncation, order=2):
    """One layer at all pixels. image [h, w, c_in], weights [terms, c_in, c_out]."""
    margin = 1 if order <= 2 else 2
    h, w = image.shape[:2]
    big = smooth(image.astype(np.float64), sigma, boundary, truncation, margin)

    def at(dy, dx):
        return big[margin + dy : margin + dy + h, margin + dx : margin + dx + w]

    differences = {
        0: {0: 1.0},
        1: {-1: -0.5, 1: 0.5},
        2: {-1: 1.0, 0: -2.0, 1: 1.0},
        3: {-2: -0.5, -1: 1.0, 1: -1.0, 2: 0.5},
    }
    result = np.zeros((h, w, weights.shape[-1])) + bias
    term = 0
    for n in range(1, order + 1):
        for b in range(n + 1):
            a = n - b
            derivative = sum(
                cx * cy * at(dy, dx)
                for dx, cx in differences[a].items()
                for dy, cy in differences[b].items()
            )
            normalised = sigma**n * derivative / (math.factorial(a) * math.factorial(b))
            result += normalised @ weights[term]
            term += 1
    return result
