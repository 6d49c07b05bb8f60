"""How fast the Large Scale transform is, next to SciPy and one digit at a time.

    python benchmarks/transform.py

It takes ten seconds. For each size it prints the time per digit of the whole recipe (resizing,
smoothing, peak) for a batch of 1 000, and how many times longer SciPy takes: `map_coordinates`
alone, in the mode that gives the same result ("reflect") and in its default mode (which skips what
lies outside the digit), and the whole recipe. They take turns; the best of several counts.
"""

import argparse
import time

import numpy as np
from scipy import ndimage

from gdn_keras.datasets import load_embedded_digits, rescale_images


def best_times(functions, repeats: int) -> list[float]:
    """The shortest time of each function, in seconds; the functions take turns."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def positions(size: float, margin: int = 0) -> np.ndarray:
    axis = (np.arange(-margin, 112 + margin) - 55.5) / size + 13.5
    return np.stack(np.meshgrid(axis, axis, indexing="ij"))


def resize(image: np.ndarray, where: np.ndarray, mode: str) -> np.ndarray:
    return ndimage.map_coordinates(image, where, order=3, mode=mode)


def recipe(image: np.ndarray, where: np.ndarray, size: float, margin: int = 0) -> np.ndarray:
    plane = resize(image, where, "reflect") * (np.abs(where - 13.5) <= 14).all(axis=0)
    plane = ndimage.gaussian_filter(plane, 7 / 8 * size, mode="constant")
    plane = plane[margin : margin + 112, margin : margin + 112]
    return np.maximum(plane, 0) * (255 / plane.max())


def measure(digits: np.ndarray, size: float, repeats: int) -> str:
    few = digits[:50].astype("float32")
    where = positions(size)
    times = best_times(
        [
            lambda: rescale_images(digits, size),
            lambda: [resize(image, where, "reflect") for image in few],
            lambda: [resize(image, where, "constant") for image in few],
            lambda: [recipe(image, where, size) for image in few],
        ],
        repeats,
    )
    here, *others = 1e6 * np.array(times) / [len(digits), 50, 50, 50]
    margin = int(4 * size)
    reference = np.stack([recipe(image, positions(size, margin), size, margin) for image in few])
    difference = np.abs(rescale_images(few, size) - reference).max()
    ratios = "".join(f"{other:7.0f} µs ({other / here:3.0f}×)" for other in others)
    return f"{size:4} {here:5.0f} µs{ratios}   {difference:.0e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    digits = load_embedded_digits().x_test[: options.digits]
    print("size     here  map_coordinates    default mode      whole recipe    difference")
    for size in (1, 2, 4, 8):
        print(measure(digits, size, options.repeats))


if __name__ == "__main__":
    main()
