"""Draws the figures of docs/how_it_works.md, those of the paper under the number they have there.

    python tools/figures.py
    python tools/figures.py --gtsrb GTSRB      the traffic sign too, from a folder of photographs
    python tools/figures.py --nuclei NUCLEI    the moving picture of README

It takes half a minute. The paper's figures 5 and 6 are diagrams without data; 8 and 10 are drawn by
every run of examples/train_large_scale.py, 9 by tools/results.py.
"""

import argparse
import functools
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import numpy as np
from keras import ops
from paper_data.gtsrb import TRAIN_SIDES, held_out_tracks, load_photographs
from PIL import Image, ImageDraw

import gdn_keras
from gdn_keras.analysis import draw_sizes, scale_selection
from gdn_keras.analysis.plots import COLORS, figure_file
from gdn_keras.datasets import (
    load_boxes,
    load_embedded_digits,
    read_boxed_image,
    rescale_images,
    split_boxes,
)
from gdn_keras.detection import draw_boxes
from gdn_keras.models import scale_channels_of
from gdn_keras.scale_space import (
    Plan,
    cascade,
    directional_derivative,
    gaussian_derivative_kernel,
)
from gdn_keras.training.picture_detection import PictureRecipe

_FRAME, _ZOOMED = (560, 440), 8  # of the moving picture, and its first nuclei

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
SIGMA, ANGLE = 4.0, math.pi / 6  # as in the paper's figures 3 and 4
DIGIT = 28  # of the test digits in the package


def support_regions(path: Path) -> None:
    """Figure 1: a receptive field of fixed size, and one that grows with the object."""
    sizes = (1, 2, 4)
    with figure_file(path, 2, 3, (6.3, 4.3)) as (_, axes):
        for column, size in enumerate(sizes):
            for row, scale in enumerate((2, size)):
                axis = axes[row, column]
                _show(axis, _digit(size), "gray")
                for radius in (1, 2):
                    circle = _circle(axis, 4 * radius * scale)
                    axis.add_patch(circle)
        axes[0, 0].set_ylabel("fixed receptive field")
        axes[1, 0].set_ylabel("matching receptive field")


def feature_maps(path: Path) -> None:
    """Figure 2, with images: smooth and differentiate, then rescale, or the other way round."""
    layer = scale_channels_of(gdn_keras.from_preset("large_size2")).network.layers[0]
    small, large = _digit(2), _digit(4)
    maps = [
        ops.convert_to_numpy(layer(x[None, ..., None].astype("float32"), scale=scale))[0]
        for x, scale in ((small, 2.0), (large, 4.0))
    ]
    feature = int(maps[0].std(axis=(0, 1)).argmax())
    upper = [x[..., feature] for x in maps]
    # A pixel of the small map lies between four of the large one; its middle half is all of it.
    reduced = upper[1].reshape(56, 2, 56, 2).mean(axis=(1, 3))
    middle = upper[0][28:84, 28:84]
    error = np.linalg.norm(reduced - middle) / np.linalg.norm(middle - middle.mean())
    limit = max(np.abs(x).max() for x in upper)
    with figure_file(path, 2, 2, (4.8, 5.0)) as (figure, axes):
        for column, (image, features, size) in enumerate(
            zip((small, large), upper, (2, 4), strict=True)
        ):
            _show(axes[0, column], features, "RdBu_r", limit)
            _show(axes[1, column], image, "gray")
            axes[0, column].set_title(rf"$F_1$ at $\sigma_0$ = {size}")
            axes[1, column].set_xlabel(["$f$", "$f'(2x) = f(x)$"][column])
        figure.suptitle(f"the two ways differ by {100 * error:.1f} %", fontsize=9)


def kernels(path: Path) -> None:
    """Figure 3: the Gaussian kernel and its derivatives up to order two."""
    orders = {"$g$": (0, 0), "$g_x$": (1, 0), "$g_y$": (0, 1)}
    orders |= {"$g_{xx}$": (2, 0), "$g_{xy}$": (1, 1), "$g_{yy}$": (0, 2)}
    places = {(0, 0): (0, 1), (1, 0): (1, 0), (0, 1): (1, 2)}
    places |= {(2, 0): (2, 0), (1, 1): (2, 1), (0, 2): (2, 2)}
    with figure_file(path, 3, 3, (4.2, 4.6)) as (_, axes):
        for axis in axes.flat:
            axis.set_axis_off()
        for name, order in orders.items():
            axis = axes[places[order]]
            axis.set_axis_on()
            _show(axis, _as_convolution(gaussian_derivative_kernel(*order, SIGMA)), "RdBu_r")
            axis.set_title(name)


def directional(path: Path) -> None:
    """Figure 4: directional derivatives, as combinations of those along the axes."""
    with figure_file(path, 1, 2, (4.2, 2.4)) as (_, axes):
        for order, axis in zip((1, 2), axes[0], strict=True):
            weights = directional_derivative(order, ANGLE)
            parts = [gaussian_derivative_kernel(order - j, j, SIGMA) for j in range(order + 1)]
            size = max(len(part) for part in parts)
            field = sum(w * _framed(x, size) for w, x in zip(weights, parts, strict=True))
            _show(axis, _as_convolution(field), "RdBu_r")
            axis.set_title([r"$g_\varphi$", r"$g_{\varphi\varphi}$"][order - 1])


def sample_images(path: Path) -> None:
    """Figure 7: MNIST Large Scale."""
    draw_sizes(load_embedded_digits().x_test[:3], (1, 2**0.5, 2, 8**0.5, 4), path=path)


def matched_grids(path: Path) -> None:
    """The grids of three layers in three scale channels. Not in the paper."""
    shape, ratio = (112, 112), 1.25
    with figure_file(path, 3, 3, (6.3, 6.6)) as (_, axes):
        for row, layers in enumerate((1, 3, 6)):
            nodes = cascade([ratio**k for k in range(layers)], read=None)
            grids = Plan(nodes, "symmetric", 1e-3).point_grids(shape, (1.0, 2.0, 4.0))
            for axis, grid in zip(axes[row], grids, strict=True):
                _show(axis, _digit(grid.scale), "gray")
                y, x = (
                    55.5 + grid.step * (np.arange(n) - (n - 1) / 2)
                    for n in (grid.rows, grid.columns)
                )
                points = (m.ravel() for m in np.meshgrid(x, y))
                axis.plot(*points, "C1.", markersize=min(1.0, 0.45 * grid.step))  # never touch
                axis.set_title(rf"$\sigma_0$ = {grid.scale:g}, {grid.rows} × {grid.columns}")
            axes[row, 0].set_ylabel(f"layer {layers}")


def approaching_sign(path: Path, directory: Path) -> None:
    """One traffic sign as a car comes nearer: class, confidence and selected scale.

    Of the tracks that were held out of the training of `traffic_signs`, the one whose sizes differ
    most.
    """
    tracks = held_out_tracks(directory).values()
    track = max(tracks, key=lambda t: max(p.side for p in t) / min(p.side for p in t))
    images, labels = load_photographs(track, frame=112)
    images, sides = np.asarray(images), np.array([p.side for p in track])
    network = gdn_keras.from_preset("traffic_signs")
    probabilities = ops.convert_to_numpy(ops.sigmoid(network.predict(images, verbose=0)))
    predicted, scales = probabilities.argmax(axis=1), scale_selection(network, images)
    wanted = np.geomspace(sides[0], sides[-1], 7)
    shown = sorted({int(np.abs(sides - side).argmin()) for side in wanted})
    names = network.class_names
    right = predicted == labels
    with figure_file(path, 2, len(shown), (1.25 * len(shown), 4.2)) as (figure, axes):
        for axis, k in zip(axes[0], shown, strict=True):
            _show(axis, images[k], "gray")
            axis.set_title(f"{sides[k]} pixels", fontsize=9)
            text = f"{names[predicted[k]]}\n{probabilities[k].max():.1%}"
            text += rf", $\sigma_0$ = {scales[k]:.2g}"
            axis.set_xlabel(text, fontsize=8, color="black" if right[k] else COLORS[1])
        for axis in axes[1]:
            axis.remove()
        axis = figure.add_subplot(axes[0, 0].get_gridspec()[1, :])
        _scale_over_side(axis, sides, scales, right)
        channels = scale_channels_of(network).scales
        axis.set_yticks(channels, [f"{scale:.2g}" for scale in channels])
        axis.minorticks_off()


def zoom(path: Path, directory: Path) -> None:
    """Nuclei of three magnifications, with what one detector finds in them, one after the other.

    First one picture zoomed in, then pictures that microscopes took at other magnifications. The
    middles of these are written beside the examples.
    """
    detector = gdn_keras.Detector.from_preset("nuclei")
    frames, durations = [], []
    trained, *others = (
        load_boxes(directory, group).images for group in ("696x520", "360x360", "256x256")
    )
    _, held_out = split_boxes(trained, PictureRecipe.validation, None)
    for k in range(-4, 5):
        pixels, _ = read_boxed_image(held_out[_ZOOMED], 2 ** (k / 4), 1)
        frames.append(_found_in(detector, pixels, "the same picture, rescaled"))
        durations.append(1200 if k in (-4, 4) else 260)
    for images, number, factor in zip(others, (3, 67), (1, 2), strict=True):
        pixels, _ = read_boxed_image(images[number], 1, 1)
        file = Path(__file__).parents[1] / "examples" / "pictures" / f"nuclei_{factor}.png"
        Image.fromarray(_stretched(pixels)[..., 0]).save(file)
        frames.append(_found_in(detector, pixels, "another microscope", factor))
        durations.append(2600)
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True
    )


def _stretched(pixels: np.ndarray) -> np.ndarray:
    low, high = np.percentile(pixels, [1, 99.8])
    return np.clip((pixels - low) / max(high - low, 1) * 255, 0, 255).astype("uint8")


def _found_in(detector: Any, pixels: np.ndarray, what: str, shown: int = 1) -> Any:
    """A frame with the middle of a picture, boxes, their number and size; dark around."""
    found = {name: x[0] for name, x in detector.predict(pixels[None], verbose=0).items()}
    count = int(found["num_detections"])
    drawn = {"boxes": found["boxes"][:count], "labels": np.full(count, 3), "names": [""] * count}
    picture = draw_boxes(_stretched(pixels), drawn, scale=shown)
    frame = Image.new("RGB", _FRAME, "#14181c")
    frame.paste(picture, tuple((a - b) // 2 for a, b in zip(_FRAME, picture.size, strict=True)))
    text = f"{what}: {count} nuclei, {np.median(found['size'][:count]):.0f} pixels in the median"
    pen = ImageDraw.Draw(frame)
    pen.rectangle((0, _FRAME[1] - 30, *_FRAME), fill="#14181c")
    pen.text((12, _FRAME[1] - 25), text, fill="white", font_size=18)
    return frame.quantize(64)


def _scale_over_side(axis: Any, sides: np.ndarray, scales: np.ndarray, right: np.ndarray) -> None:
    """Selected scale over the side of a sign, both logarithmic."""
    middle = np.exp(np.mean(np.log(scales / sides)))
    axis.plot(sides, middle * sides, color="0.6", linewidth=1, label="proportional to the side")
    axis.plot(sides[right], scales[right], "o", color=COLORS[0], label="recognised")
    if not right.all():
        axis.plot(sides[~right], scales[~right], "x", color=COLORS[1], label="mistaken")
    axis.axvspan(*TRAIN_SIDES, color="0.92", zorder=0, label="sizes of the training")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    ticks = (16, 32, 64, 128)
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set_xlabel("side of the sign, pixels")
    axis.set_ylabel(r"selected scale channel, $\sigma_0$")
    axis.legend(loc="upper left", fontsize=8)


def _digit(size: float) -> np.ndarray:
    return rescale_images(load_embedded_digits().x_test[DIGIT : DIGIT + 1], size)[0]


def _show(axis: Any, image: np.ndarray, colors: str, limit: float | None = None) -> None:
    if colors != "gray":
        limit = limit or np.abs(image).max()
        axis.imshow(image, cmap=colors, vmin=-limit, vmax=limit)
    else:
        axis.imshow(image, cmap=colors)
    axis.set_xticks([])
    axis.set_yticks([])


def _circle(axis: Any, radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle((55.5, 55.5), radius, fill=False, color="C1", linewidth=1)


def _as_convolution(kernel: np.ndarray) -> np.ndarray:
    """The kernel itself, from the template that an image is correlated with; y upwards."""
    return kernel[::-1, ::-1][::-1]


def _framed(kernel: np.ndarray, size: int) -> np.ndarray:
    return np.pad(kernel, (size - len(kernel)) // 2)


FIGURES: dict[str, Callable[[Path], None]] = {
    "figure_1_support_regions.png": support_regions,
    "figure_2_commuting_diagram.png": feature_maps,
    "figure_3_kernels.png": kernels,
    "figure_4_directional_derivatives.png": directional,
    "figure_7_sample_images.png": sample_images,
    "matched_grids.png": matched_grids,
}


def main() -> None:
    """Draws all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    text = "folder of the German traffic signs, to draw approaching_sign.png from"
    parser.add_argument("--gtsrb", type=Path, metavar="FOLDER", help=text)
    text = "folder of nuclei (BBBC038), to draw nuclei.gif from"
    parser.add_argument("--nuclei", type=Path, metavar="FOLDER", help=text)
    text = "those that need a folder, and no others"
    parser.add_argument("--only-folders", action="store_true", help=text)
    options = parser.parse_args()
    figures = {} if options.only_folders else dict(FIGURES)
    if options.gtsrb:
        figures["approaching_sign.png"] = functools.partial(
            approaching_sign, directory=options.gtsrb
        )
    if options.nuclei:
        figures["nuclei.gif"] = functools.partial(zoom, directory=options.nuclei)
    for name, draw in figures.items():
        draw(PICTURES / name)
        print(PICTURES / name)


if __name__ == "__main__":
    main()
