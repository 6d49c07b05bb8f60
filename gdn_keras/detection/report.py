"""Pictures and one page about a trained detector."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras.atomic_files import replacing
from gdn_keras.datasets.scenes import SceneSet
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.drawing import draw_boxes, import_drawing
from gdn_keras.training.run_folder import PICTURES, REPORT, write_text

PRECISION = "average_precision.png"
DETECTIONS = "detections.png"

_CAPTIONS = {
    PRECISION: "Average precision over the size of the digits, and the training size.",
    DETECTIONS: "Test scenes with the boxes that were found in them.",
}
_CURVES = {"ap50": "IoU 0.5", "ap75": "IoU 0.75", "ap": "COCO, 0.5 to 0.95"}
_MOST_TICKS = 9


def summary(results: dict[str, Any], low: float = 2**-0.5, high: float = 4.0) -> str:
    """One sentence: the lowest average precision between two sizes."""
    rows = [row for row in results["sizes"] if low - 1e-6 <= row["size"] <= high + 1e-6]
    rows = [row for row in rows or results["sizes"] if row["objects"]]
    if not rows:
        return "There was no object in the test."
    trained = ", ".join(f"{size:g}" for size in results["settings"]["train_sizes"])
    return (
        f"Trained on size {trained} only: average precision at least "
        f"{min(row['ap50'] for row in rows):.3f} at IoU 0.5 and "
        f"{min(row['ap75'] for row in rows):.3f} at 0.75, at every size from "
        f"{rows[0]['size']:.3g} to {rows[-1]['size']:.3g}."
    )


def write_detection_report(
    folder: Path, results: dict[str, Any], detector: Detector, scenes: SceneSet
) -> None:
    """Draws the pictures and writes report.md; without matplotlib, without curves."""
    (folder / PICTURES).mkdir(exist_ok=True)
    pictures, notes = [DETECTIONS], []
    with replacing(folder / PICTURES / DETECTIONS) as temporary:
        draw_page(detector, scenes).save(temporary)
    try:
        with replacing(folder / PICTURES / PRECISION) as temporary:
            draw_precision(results, temporary)
        pictures.insert(0, PRECISION)
    except ImportError as error:
        notes.append(f"Curves were left out. {error}\n")
    parts = [f"# Detector of digits\n\n{summary(results)}\n", *notes, _table(results)]
    parts += [f"![{_CAPTIONS[p]}]({PICTURES}/{p})\n\n*{_CAPTIONS[p]}*\n" for p in pictures]
    parts.append(_settings(results))
    write_text(folder / REPORT, "\n".join(parts))


def draw_precision(results: dict[str, Any], path: Path) -> None:
    """Average precision over size."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install gdn_keras[plots]") from error
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    axis = figure.subplots()
    sizes = [row["size"] for row in results["sizes"]]
    for name, label in _CURVES.items():
        values = np.array([row[name] for row in results["sizes"]], "float64")
        axis.plot(sizes, values, "o-", markersize=4, label=label)
    for size in results["settings"]["train_sizes"]:
        axis.axvline(size, color="0.5", linestyle="--", linewidth=1)
    axis.set_xscale("log", base=2)
    ticks = sizes[:: math.ceil(len(sizes) / _MOST_TICKS)]
    axis.set_xticks(ticks, [f"{size:.3g}" for size in ticks])
    axis.minorticks_off()
    axis.set(xlabel="size", ylabel="average precision", ylim=(0, 1.02))
    axis.legend(frameon=False)
    figure.savefig(path, dpi=200)


def draw_page(detector: Detector, scenes: SceneSet, rows: int = 2, columns: int = 2) -> Any:
    """The first scenes with what was found in them, on one page (a Pillow image)."""
    Image, _ = import_drawing()
    images = scenes.images[: rows * columns]
    found = detector.predict(images, batch_size=1, verbose=0)
    height, width = images.shape[1:3]
    page = Image.new("RGB", (columns * (width + 4), rows * (height + 4)), "white")
    for k, image in enumerate(images):
        here = {name: values[k] for name, values in found.items()}
        picture = draw_boxes(image, here)
        page.paste(picture, (k % columns * (width + 4), k // columns * (height + 4)))
    return page


def _table(results: dict[str, Any]) -> str:
    lines = [
        "| size | digits | AP at IoU 0.5 | at 0.75 | COCO mean | size error, % | centre error, % |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in [*results["sizes"], results["all"]]:
        name = "all" if row["size"] is None else f"{row['size']:.3g}"
        errors = (_percent(row[k]) for k in ("size_error", "center_error"))
        values = ("" if row[k] is None else f"{row[k]:.3f}" for k in _CURVES)
        lines.append(f"| {name} | {row['objects']} | {' | '.join((*values, *errors))} |")
    note = (
        "\nErrors are medians over the digits that were found, of the centre in sides of the box."
    )
    if results["slope"] is not None:
        note += f" Size found over size, both logarithmic: slope {results['slope']:.3f}."
    return "\n".join([*lines, note]) + "\n"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _settings(results: dict[str, Any]) -> str:
    lines = ["| setting | value |", "|---|---|", f"| parameters | {results['parameters']} |"]
    for name, value in results["settings"].items():
        shown = ", ".join(f"{v:.3g}" for v in value) if isinstance(value, list) else value
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines) + "\n"
