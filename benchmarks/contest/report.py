"""The results as a page of Markdown."""

from contest.tasks import CONTESTANTS, MODES

GROWTH = {
    "side": ("Image side", "side", "Batches shrink as images grow; times are by image."),
    "channels": ("Scale channels", "channels", "Coarser channels are added."),
    "batch": ("Batch", "batch", ""),
}


def milliseconds(value: float) -> str:
    """Three digits, without an exponent for thousands."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def write_markdown(results: dict, plots=()) -> str:
    """The whole page."""
    parts = [_machine(results)]
    settings = results["settings"]
    parts += [_table(results, net) for net in settings["nets"]]
    parts.append(_notes(results))
    if settings["extras"]:
        parts += [_memory(results), _covariance(results), _growth(results)]
    parts += [f"![{plot.stem}]({plot.name})" for plot in plots]
    return "\n\n".join(parts) + "\n"


def peak_rate(results: dict) -> float:
    """The machine's limit: the fastest matrix product measured, in flop/s."""
    return max(results["matrix_products"].values())


def _machine(results: dict) -> str:
    machine, versions = results["machine"], results["versions"]
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    rates = ", ".join(
        f"{name} {rate / 1e9:.0f} Gflop/s" for name, rate in results["matrix_products"].items()
    )
    size = results["settings"]["product_size"]
    load = f"{results['load_before']} before and {results['load_after']} after"
    return "\n".join(
        [
            "# Benchmark",
            "",
            f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"{machine['system']}, {machine['date']}",
            f"- {libraries}",
            f"- matrix products of {size}×{size} float32: {rates}",
            f"- load average {load} (this benchmark is part of the latter)",
        ]
    )


def _table(results: dict, net: str) -> str:
    settings = results["settings"]
    widths = "-".join(map(str, settings["widths"][net]))
    modes = {mode: {r["contestant"]: r for r in results[f"{net} {mode}"]} for mode in MODES}
    lines = [
        f"## `{net}`, {widths}, {settings['side']}×{settings['side']} pixels, "
        f"{settings['channels']} scale channels",
        "",
        "| | batch | forward, ms/image | × PyTorch | × Keras | of peak "
        "| training, ms/image | × PyTorch | × Keras | of peak |",
        "|---|" + "---:|" * 9,
    ]
    for name in settings["contestants"]:
        cells = [CONTESTANTS[name][1], str(modes["forward"][name]["batch"])]
        for mode in MODES:
            cells += _cells(modes[mode], name, peak_rate(results))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cells(rows: dict, name: str, peak: float) -> list[str]:
    """Time, how many times faster than either literal network, and fraction of the peak."""
    row = rows[name]
    cells = [milliseconds(1e3 * row["seconds"])]
    for literal in ("literal_torch", "literal_keras"):
        there = literal in rows
        cells.append(f"{rows[literal]['seconds'] / row['seconds']:.3g}" if there else "–")
    flops = row["flops"]
    cells.append("–" if flops is None else f"{flops / row['seconds'] / peak:.0%}")
    return cells


def _notes(results: dict) -> str:
    settings = results["settings"]
    return (
        f"Best of {settings['rounds']} turns of {settings['turn']:g} s, the contestants taking "
        "turns in one sitting, each in a process of its own. *Forward* is inference, *training* a "
        "whole step with Adam. × PyTorch and × Keras: how many times faster than that literal "
        f"network, whose kernels leave out {settings['truncation']:g} of their mass; `gdn_keras` "
        "runs as it is by default. *Of peak*: the arithmetic that the plan needs (matrix products "
        "and convolutions; in training also their gradients, those that are needed), over the "
        "time, over the rate of the fastest large matrix product. The plain CNN has one scale "
        "only, five 3×3 convolutions of the same widths with pooling."
    )


def _memory(results: dict) -> str:
    batch = results["settings"]["memory_batch"]
    memory = results["memory"]
    literal = min((memory[n]["per_image"] for n in memory if n.startswith("literal")), default=0)
    lines = [
        f"## Peak memory of a training step, `{results['settings']['nets'][0]}`, batch {batch}",
        "",
        "| | peak, MB | each image adds, MB | of the leaner literal network's |",
        "|---|---:|---:|---:|",
    ]
    for name, found in memory.items():
        share = f"{found['per_image'] / literal:.1%}" if literal else "–"
        cells = [f"{found[key] / 1e6:.0f}" for key in ("peak", "per_image")]
        lines.append(f"| {CONTESTANTS[name][1]} | {cells[0]} | {cells[1]} | {share} |")
    lines += [
        "",
        "The peak is beyond the memory of the process after its imports, the tracing and "
        f"optimizing of the graph included; what an image adds is taken from batches of 1 and of "
        f"{batch}, and shares are of that.",
    ]
    return "\n".join(lines)


def _covariance(results: dict) -> str:
    found = results["covariance"]
    lines = ["## Covariance errors", ""]
    scales = max((list(e) for by in found.values() for e in by.values()), key=len)
    lines.append("| σ0 of the finer channel | " + " | ".join(scales) + " |")
    lines.append("|---|" + "---:|" * len(scales))
    for sampling, by_factor in found.items():
        for factor, errors in by_factor.items():
            cells = [f"{errors[s]:.2%}" if s in errors else "" for s in scales]
            lines.append(f"| {sampling}, image × {factor} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Relative difference of the logits (less their constant) between matching scale channels, "
        "of an image and of the same image rescaled; random weights, statistics of the "
        "normalization from digits.",
    ]
    return "\n".join(lines)


def _growth(results: dict) -> str:
    net = results["settings"]["nets"][0]
    parts = [f"## Growth, `{net}`, ms/image"]
    for name, (title, column, note) in GROWTH.items():
        parts.append(_growth_table(results, name, title, column))
        if note:
            parts.append(note)
    parts.append("\n".join(f"- {line}" for line in growth_statements(results)))
    return "\n\n".join(parts)


def _growth_table(results: dict, name: str, title: str, column: str) -> str:
    values = sorted({row[column] for row in results[f"{name} forward"]})
    lines = [f"| {title} | " + " | ".join(map(str, values)) + " |", "|---|" + "---:|" * len(values)]
    for sampling in ("matched", "dense"):
        for mode in MODES:
            times = curve(results, name, sampling, mode)
            cells = [milliseconds(1e3 * times[v]) if v in times else "–" for v in values]
            lines.append(f"| {sampling}, {mode} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def curve(
    results: dict, name: str, sampling: str, mode: str, value: str = "seconds"
) -> dict[int, float]:
    """Seconds (or "flops") an image, by image side, number of channels or batch."""
    column = GROWTH[name][1]
    rows = results[f"{name} {mode}"]
    return {row[column]: row[value] for row in rows if row["contestant"] == sampling}


def growth_statements(results: dict) -> list[str]:
    """What the curves say: the cost of an octave more, and of twice the side."""
    count = results["settings"]["channels"]
    lines = []
    for sampling in ("matched", "dense"):
        for mode in MODES:
            by_count = curve(results, "channels", sampling, mode)
            if {count, count + 2} <= set(by_count):
                needed = curve(results, "channels", sampling, mode, "flops")
                time, work = (x[count + 2] / x[count] - 1 for x in (by_count, needed))
                lines.append(
                    f"{sampling}, {mode}: one octave of coarser channels beyond {count} adds "
                    f"{time:.1%} to the time and {work:.1%} to the arithmetic"
                )
            by_side = curve(results, "side", sampling, mode)
            ratios = [
                f"{side} → {2 * side}: × {by_side[2 * side] / by_side[side]:.2f}"
                for side in sorted(by_side)
                if 2 * side in by_side
            ]
            if ratios:
                lines.append(f"{sampling}, {mode}, twice the image side: {', '.join(ratios)}")
    return lines
