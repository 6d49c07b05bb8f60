"""A detector in the browser: draw digits of any size, or drop a picture with some.

    pip install 'gdn_keras[demo]'
    python examples/demo.py

    http://127.0.0.1:7860

The network was trained on digits of one size only. The page shows what it finds, with sizes, and
the heat of each scale channel. A slider rescales the picture: the same digits are found, their size
changes in proportion, and the maxima move to other channels. Strokes may be light on dark or dark
on light.
"""

import argparse
import base64
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

if TYPE_CHECKING:
    from gradio import HTML, Blocks
    from PIL.Image import Image

    from gdn_keras.detection import Detector

FRAME = (420, 560)
EXAMPLE = {"sizes": (1, 1.5, 2.25, 3.5, 5.5), "shape": FRAME, "count": (8, 8)}
DATA_URL = "data:image/png;base64,"
MAX_BYTES = 50_000_000  # of a data URL, which is a third longer than its picture
FAINT = 0.3  # heat that stays dark where nothing is found
CELLS = 48  # of a heat map as it is drawn, along its longer side
UNREADABLE = "This picture cannot be read, or has more than 50 megapixels or 37 megabytes."

TITLE = """# Trained at one size, finds digits of any size
Draw digits, or drop a picture. The detector saw digits of size 1 only, 20 pixels high. **Move the
slider**: the answer stays, sizes change in proportion, and the heat moves to other scale channels.
"""
BOARD = f"""
<canvas width="{FRAME[1]}" height="{FRAME[0]}" aria-label="drawing board"></canvas>
<div class="tools">
  <button class="example">digits</button>
  <button class="black">blackboard</button>
  <button class="white">paper</button>
  <label class="file">picture …<input type="file" accept="image/*"></label>
  <label>pen <input type="range" min="2" max="40" value="12" aria-label="pen"></label>
</div>
<div class="message" role="status"></div>"""
BOARD_STYLE = """
canvas { max-width: 100%; display: block; margin: auto; border-radius: 8px; cursor: crosshair;
  touch-action: none; outline: 1px solid #8886; }
.tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-top: 12px;
  font-size: 13px; }
.tools button, .tools .file { padding: 4px 10px; border-radius: 8px; cursor: pointer;
  border: 1px solid #8886; background: #8881; }
.tools input[type=file] { display: none; }
.tools input[type=range] { width: 70px; }
.tools label { display: flex; gap: 6px; align-items: center; }
.message { color: #c22; }"""
STYLE = """
.gradio-container { max-width: 1360px !important; }
footer { display: none !important; }
#boxes .icon-button-wrapper, #maps .icon-button-wrapper { display: none; }
#found table { width: 100%; }
#found td, #found th { padding: 1px 6px; font-size: 14px; white-space: nowrap; }
#board { padding: 0; }"""


class Answer(NamedTuple):
    """What the page shows of a picture: with boxes, heat maps, a table, and a remark."""

    boxes: Any
    maps: Any
    table: str
    remark: str


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("--port", type=int, help="from 7860 on, the first that is free, by default")
    flags.add_argument("--share", action="store_true", help="a public address for three days")
    return flags


def answer(detector: "Detector", drawing: str | None, factor: float, confidence: float) -> Answer:
    """What is found in a drawing, a PNG in a data URL, at `factor` times its size."""
    from gdn_keras import datasets, detection

    if not drawing:
        return Answer(None, None, "", "Draw a digit.")
    if len(drawing) > MAX_BYTES:
        return Answer(None, None, "", UNREADABLE)
    try:
        content = base64.b64decode(drawing.partition(",")[2])
        pixels = datasets.read_picture(io.BytesIO(content), channels=1)
    except (ValueError, OSError):
        return Answer(None, None, "", UNREADABLE)
    pixels, inverted = datasets.light_on_dark(pixels)
    framed, _ = datasets.place_in_frame(pixels, FRAME)
    images = datasets.rescale_photographs(framed[None], factor, FRAME, boundary="edge")
    features = detector(images, training=False)
    found = detector.with_thresholds(confidence_threshold=confidence).decode_predictions(
        features, images
    )
    found = {name: np.asarray(values)[0] for name, values in found.items()}
    found = {name: found[name][: found["num_detections"]] for name in found if found[name].ndim}
    names = [detector.class_names[label] for label in found["labels"]]
    captions = [f"{name} · {size:.0f}" for name, size in zip(names, found["size"], strict=True)]
    labels = {"boxes": found["boxes"], "labels": found["labels"], "names": captions}
    grids, shape = detector.point_grids(images)
    maps = detection.heat_maps(features, grids, detector.num_classes)
    return Answer(
        detection.draw_boxes(images[0], labels, scale=2),
        draw_heat_maps([channel[0] for channel in maps], grids, shape),
        table(names, found, factor),
        remarks(len(names), inverted),
    )


def draw_heat_maps(
    maps: Sequence[np.ndarray], grids: Sequence[Any], shape: tuple[int, int]
) -> "Image":
    """The maps of one image side by side, small scales first, with the highest heat of each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    width = 11  # inches
    figure = Figure(
        figsize=(width, width / len(grids) * shape[0] / shape[1] + 0.9), layout="constrained"
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(grids), squeeze=False)[0]
    top = max(FAINT, *(float(heat.max()) for heat in maps))
    for axis, heat, grid in zip(axes, maps, grids, strict=True):
        # Maxima over blocks, so that narrow peaks still show in a small picture.
        block = -(-max(heat.shape) // CELLS)
        blocks = np.pad(heat, [(0, -count % block) for count in heat.shape])
        rows, columns = (count // block for count in blocks.shape)
        blocks = blocks.reshape(rows, block, columns, block).max(axis=(1, 3))
        axis.imshow(blocks, cmap="inferno", vmin=0, vmax=top, interpolation="bilinear")
        axis.set(xticks=[], yticks=[], title=f"{heat.max():.2f}", xlabel=f"{grid.scale:.2g}")
    figure.supxlabel("scale channels, by the size that they respond to, and their highest scores")
    figure.set_dpi(200)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def table(names: Sequence[str], found: dict[str, np.ndarray], factor: float) -> str:
    """Markdown, the largest first."""
    lines = [f"| digit | score | pixels | pixels ÷ {factor:g} |", "|---|---|---|---|"]
    for k in np.argsort(-found["size"]):
        size = found["size"][k]
        lines.append(
            f"| {names[k]} | {found['confidence'][k]:.0%} | {size:.0f} | {size / factor:.0f} |"
        )
    return "\n".join(lines) if names else ""


def remarks(count: int, inverted: bool) -> str:
    """What else is to be said, in short sentences."""
    said = [f"{count} found." if count else "Nothing found: draw a digit."]
    if inverted:
        said.append("Dark on light: inverted for the network.")
    return " ".join(said)


def example_picture() -> str:
    """Test digits of several sizes, as a data URL."""
    from PIL import Image

    from gdn_keras.datasets import digit_scenes

    file = io.BytesIO()
    pixels = digit_scenes("test", **EXAMPLE).draw(seed=0, index=0).image
    Image.fromarray(pixels[..., 0]).save(file, "PNG")
    return DATA_URL + base64.b64encode(file.getvalue()).decode()


def drawing_board(gr: ModuleType) -> "HTML":
    """A board to draw on; its value is a PNG in a data URL."""
    return gr.HTML(
        html_template=BOARD,
        css_template=BOARD_STYLE,
        js_on_load=Path(__file__).with_name("demo_board.js").read_text(encoding="utf-8"),
        apply_default_css=False,
        elem_id="board",
        example=example_picture(),
    )


def page(detector: "Detector") -> "Blocks":
    """The page, and what happens on it."""
    import gradio as gr

    with gr.Blocks(title="gdn_keras", analytics_enabled=False) as blocks:
        gr.Markdown(TITLE)
        with gr.Row():
            with gr.Column(scale=5):
                board = drawing_board(gr)
            with gr.Column(scale=5):
                boxes = gr.Image(show_label=False, buttons=[], elem_id="boxes", container=False)
                factor = gr.Slider(
                    0.25, 2, 1, step=0.05, label="rescale the picture by", elem_id="factor"
                )
            with gr.Column(scale=3, min_width=260):
                remark = gr.Markdown(elem_id="remark")
                rows = gr.Markdown(elem_id="found")
                least = detector.confidence_threshold
                confidence = gr.Slider(0.05, 0.95, least, step=0.05, label="least score")
        maps = gr.Image(show_label=False, buttons=[], elem_id="maps", container=False)
        gr.on(
            [board.input, factor.change, confidence.change],
            lambda *values: answer(detector, *values),
            [board, factor, confidence],
            Answer(boxes, maps, rows, remark),
            trigger_mode="always_last",
            show_progress="minimal",
            api_visibility="private",
        )
    return blocks


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, loads and serves: 0, or 2 for a mistake."""
    options = parser().parse_args(arguments)
    try:
        import gradio as gr
    except ImportError:
        print("error: the demo needs gradio: pip install 'gdn_keras[demo]'", file=sys.stderr)
        return 2
    import gdn_keras

    detector = gdn_keras.from_preset("digit_detector")
    answer(detector, example_picture(), 1.0, 0.5)  # the first answer takes longest
    blocks = page(detector)
    theme = gr.themes.Soft(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    try:
        _, address, public = blocks.launch(
            server_port=options.port,
            share=options.share,
            theme=theme,
            css=STYLE,
            quiet=True,
            ssr_mode=False,
            prevent_thread_lock=True,
        )
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(public or address, flush=True)
    blocks.block_thread()
    return 0


if __name__ == "__main__":
    sys.exit(main())
