"""The pictures and the one-page report of a run, from what is in its folder."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.analysis import first_layer_fields, plots, second_layer_fields
from gdn_keras.reporting import Reporter
from gdn_keras.training.run_folder import (
    MODEL,
    PICTURES,
    REPORT,
    load_network,
    read_results,
    replacing,
    write_text,
)

_CAPTIONS = {
    "scale_generalization.png": "Accuracy over test size; on the right the upper part.",
    "scale_selection.png": "Share of the test images won by each scale channel, for each test "
    "size. Scale selection follows size: a diagonal band.",
    "receptive_fields.png": "Learned receptive fields: the first layer, and the second along each "
    "unit's strongest input; red excites, blue inhibits.",
    "confusion.png": "True and predicted classes, at the test size of the lowest accuracy.",
}


def write_report(
    folder: str | os.PathLike,
    compare: Mapping[str, str | os.PathLike] | None = None,
    reporter: Reporter | None = None,
) -> Path:
    """Draws the pictures of a finished run and writes report.md.

    Args:
        folder: The folder of the run.
        compare: Folders of other finished runs, whose curves to draw beside this one, by name.
        reporter: Told if pictures have to be left out.

    Returns:
        The report. Without matplotlib it has no pictures, and says so.
    """
    folder = Path(folder)
    results = read_results(folder)
    others = {name: read_results(path) for name, path in (compare or {}).items()}
    try:
        pictures = draw_pictures(folder, results, others)
        note = ""
    except ImportError as error:
        pictures, note = [], f"Pictures were left out. {error}\n"
        (reporter or Reporter()).line(note.strip())
    parts = [_headline(results), _table(results, others), note]
    parts += [f"![{_CAPTIONS[p]}]({PICTURES}/{p})\n\n*{_CAPTIONS[p]}*\n" for p in pictures]
    parts.append(_settings(results))
    write_text(folder / REPORT, "\n".join(part for part in parts if part))
    return folder / REPORT


def draw_pictures(
    folder: Path, results: dict[str, Any], others: Mapping[str, dict[str, Any]]
) -> list[str]:
    """Draws what there is to draw; returns the names of the pictures."""
    sizes, settings = results["sizes"], results["settings"]
    worst = min(sizes, key=lambda row: row["accuracy"])
    fields = receptive_fields(load_network(folder / MODEL))
    axis = {"training_sizes": settings["train_sizes"], "size_name": results["size_name"]}
    drawings = {
        "receptive_fields.png": lambda path: plots.draw_receptive_fields(fields, path),
        "confusion.png": lambda path: plots.draw_confusion(
            worst["confusion"], path, settings["class_names"], worst["size"]
        ),
    }
    if len(sizes) > 1:
        curves = {label(results): curve(results)}
        curves |= {name: curve(other) for name, other in others.items()}
        drawings["scale_generalization.png"] = lambda path: plots.draw_generalization(
            curves, path, **axis
        )
    if len(sizes) > 1 and len(results["scales"]) > 1:
        counts = [row["selected"] for row in sizes]
        drawings["scale_selection.png"] = lambda path: plots.draw_selection(
            [row["size"] for row in sizes], results["scales"], counts, path, **axis
        )
    (folder / PICTURES).mkdir(exist_ok=True)
    for name, draw in drawings.items():
        with replacing(folder / PICTURES / name) as temporary:
            draw(temporary)
    return [name for name in _CAPTIONS if name in drawings]


def receptive_fields(model: keras.Model) -> dict[str, np.ndarray]:
    """Receptive fields of the first layers by name, for each colour of the image."""
    first = first_layer_fields(model)
    colors = ("red", "green", "blue") if first.shape[1] == 3 else range(1, first.shape[1] + 1)
    names = ["first layer"]
    if first.shape[1] > 1:
        names = [f"first layer, {color}" for color in colors]
    fields = {name: first[:, channel] for channel, name in enumerate(names)}
    with contextlib.suppress(ValueError):  # there is only one
        fields["second layer, along the strongest input"] = second_layer_fields(model)
    return fields


def curve(results: dict[str, Any]) -> dict[float, float]:
    """`{size: accuracy}` of a run's results."""
    return {row["size"]: row["accuracy"] for row in results["sizes"]}


def label(results: dict[str, Any]) -> str:
    """What to call a run in a legend."""
    channels = len(results["scales"])
    return "single scale channel" if channels == 1 else f"{channels} scale channels"


def summarize_run(results: dict[str, Any]) -> str:
    """One sentence: the accuracy at the training size, and the lowest one over sizes.

    The smallest half octave, where objects lose their detail, and the largest octave, where they
    leave the frame, are left to the table.
    """
    accuracies = curve(results)
    if len(accuracies) < 2:
        return f"{_percent(min(accuracies.values()))} of the test images recognised."
    low, high = min(accuracies) * 2**0.5, max(accuracies) / 2
    inside = {s: a for s, a in accuracies.items() if low * 0.999 <= s <= high * 1.001}
    inside = inside if 2 * len(inside) > len(accuracies) else accuracies
    worst = min(inside, key=lambda size: inside[size])
    sizes = results["settings"]["train_sizes"]
    trained = [f"{100 * accuracies[s]:.2f} % at size {s:g}" for s in sizes if s in accuracies]
    return (
        (f"Trained on size {_listed(sizes)} only" if sizes else "Trained")
        + (f" ({', '.join(trained)})" if trained else "")
        + f": at least {_percent(inside[worst])} at every test size from {min(inside):.3g} to "
        f"{max(inside):.3g}, the lowest at {worst:.3g}."
    )


def _headline(results: dict[str, Any]) -> str:
    settings = results["settings"]
    text = f"# {settings['network']} network, {label(results)}\n\n{summarize_run(results)}\n"
    if "selection_slope" in results:
        low, high = results["selection_sizes"]
        text += (
            f"\nSelected scale over size, both logarithmic, sizes {low:.3g} to {high:.3g}: slope "
            f"{results['selection_slope']:.2f} (1 is perfect).\n"
        )
    if "effective_training_scales" in results:
        low, high = results["effective_training_scales"]
        text += f"\nEffective training scales: sigma_0 from {low:.3g} to {high:.3g}.\n"
    return text


def _table(results: dict, others: Mapping[str, dict[str, Any]]) -> str:
    names = [label(results), *others]
    curves = [curve(results), *map(curve, others.values())]
    head = "images" if None in curves[0] else results["size_name"]
    lines = [f"| {head} | {' | '.join(f'{name}, %' for name in names)} |"]
    lines.append("|---" * (len(names) + 1) + "|")
    for size in curves[0]:
        cells = [f"{100 * c[size]:.2f}" if size in c else "" for c in curves]
        trained = " (trained)" if size in results["settings"]["train_sizes"] else ""
        shown = "validation" if size is None else f"{size:.3g}"
        lines.append(f"| {shown}{trained} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _settings(results: dict[str, Any]) -> str:
    counts = results["parameters"]
    rows = dict(results["settings"])
    rows["parameters"] = f"{counts['trainable']} ({counts['paper']} as the paper counts)"
    lines = ["| setting | value |", "|---|---|"]
    lines += [f"| {name} | {_shown(value)} |" for name, value in rows.items() if value is not None]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) if str in map(type, value) else _listed(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.3g}" for v in values)


def _percent(share: float) -> str:
    """Rounded down, for "at least"."""
    return f"{np.floor(share * 1e4 + 1e-6) / 100:.2f} %"
