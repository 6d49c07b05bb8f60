"""The report of a classifier: accuracy over sizes, scale selection, fields, confusion."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.analysis import first_layer_fields, plots, second_layer_fields
from gdn_keras.training.report_page import Picture, Section, markdown_table, shown


def summarize(results: dict[str, Any]) -> str:
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
        (f"Trained on size {shown(sizes)} only" if sizes else "Trained")
        + (f" ({', '.join(trained)})" if trained else "")
        + f": at least {_percent(inside[worst])} at every test size from {min(inside):.3g} to "
        f"{max(inside):.3g}, the lowest at {worst:.3g}."
    )


def report_sections(
    results: dict[str, Any], model: keras.Model, others: Mapping[str, dict[str, Any]]
) -> list[Section]:
    """Text, table and pictures; `others` are the results of other runs by name."""
    counts = results["parameters"]
    text = [f"{counts['trainable']} parameters ({counts['paper']} as the paper counts)."]
    if "selection_slope" in results:
        low, high = results["selection_sizes"]
        text.append(
            f"Selected scale over size, both logarithmic, sizes {low:.3g} to {high:.3g}: slope "
            f"{results['selection_slope']:.2f} (1 is perfect)."
        )
    if "effective_training_scales" in results:
        low, high = results["effective_training_scales"]
        text.append(f"Effective training scales: sigma_0 from {low:.3g} to {high:.3g}.")
    curves = {channels_label(results["scales"]): curve(results)}
    curves |= {name: curve(other) for name, other in others.items()}
    return [*text, _table(results, curves), *_pictures(results, model, curves)]


def curve(results: dict[str, Any]) -> dict[float, float]:
    """`{size: accuracy}` of a run's results."""
    return {row["size"]: row["accuracy"] for row in results["sizes"]}


def channels_label(scales: Sequence[float]) -> str:
    """How many scale channels there are, in words."""
    return "single scale channel" if len(scales) == 1 else f"{len(scales)} scale channels"


def _table(results: dict[str, Any], curves: Mapping[str, dict[float, float]]) -> str:
    rows = []
    for size in curve(results):
        trained = " (trained)" if size in results["settings"]["train_sizes"] else ""
        cells = [f"{100 * c[size]:.2f}" if size in c else "" for c in curves.values()]
        rows.append([f"{'validation' if size is None else f'{size:.3g}'}{trained}", *cells])
    head = "images" if rows[0][0] == "validation" else results["size_name"]
    return markdown_table([head, *(f"{name}, %" for name in curves)], rows)


def _pictures(
    results: dict[str, Any], model: keras.Model, curves: Mapping[str, dict[float, float]]
) -> list[Picture]:
    rows, settings = results["sizes"], results["settings"]
    sizes, scales = [row["size"] for row in rows], results["scales"]
    worst = min(rows, key=lambda row: row["accuracy"])
    axis = {"training_sizes": settings["train_sizes"], "size_name": results["size_name"]}
    pictures = []
    if len(sizes) > 1:
        pictures.append(
            Picture(
                "scale_generalization.png",
                "Accuracy over test size; on the right the upper part.",
                lambda path: plots.draw_generalization(curves, path, **axis),
            )
        )
    if len(sizes) > 1 and len(scales) > 1:
        selected = [row["selected"] for row in rows]
        pictures.append(
            Picture(
                "scale_selection.png",
                "Share of the test images won by each scale channel, for each test size. Scale "
                "selection follows size: a diagonal band.",
                lambda path: plots.draw_selection(sizes, scales, selected, path, **axis),
            )
        )
    fields = Picture(
        "receptive_fields.png",
        "Learned receptive fields: the first layer, and the second along each unit's strongest "
        "input; red excites, blue inhibits.",
        lambda path: plots.draw_receptive_fields(_receptive_fields(model), path),
    )
    confusion = Picture(
        "confusion.png",
        "True and predicted classes, at the test size of the lowest accuracy.",
        lambda path: plots.draw_confusion(
            worst["confusion"], path, settings["class_names"], worst["size"]
        ),
    )
    return [*pictures, fields, confusion]


def _receptive_fields(model: keras.Model) -> dict[str, np.ndarray]:
    """Receptive fields of the first layers by name, for each color of the image."""
    first = first_layer_fields(model)
    count = first.shape[1]
    colors = ("red", "green", "blue") if count == 3 else range(1, count + 1)
    names = ["first layer"] if count == 1 else [f"first layer, {color}" for color in colors]
    fields = {name: first[:, channel] for channel, name in enumerate(names)}
    with contextlib.suppress(ValueError):  # there is only one layer
        fields["second layer, along the strongest input"] = second_layer_fields(model)
    return fields


def _percent(share: float) -> str:
    """Rounded down, for "at least"."""
    return f"{np.floor(share * 1e4 + 1e-6) / 100:.2f} %"
