"""Detectors in the browser that answer while you drag a slider of magnification.

    pip install 'gdn_keras[demo]'
    python examples/demo.py

    http://127.0.0.1:7860

It starts in about half a minute. The first tab shows photographs: cell nuclei and road signs, or a
picture of yours. The second has digits, drawn by mouse or finger. Each network was trained at one
size only. The slider rescales the picture: the same objects are found, their size changes in
proportion, and the maxima of the heat move to other scale channels.
"""

import argparse
import asyncio
import base64
import io
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

if TYPE_CHECKING:
    from gradio import HTML, Blocks
    from PIL.Image import Image

HERE = Path(__file__).parent
SIDE = 400  # of the frame of photographs, in pixels
BOARD_SHAPE = (384, 384)
EXAMPLE = {"sizes": (1, 1.5, 2.25, 3.5), "shape": BOARD_SHAPE, "count": (8, 8)}
PHOTOGRAPHS = {
    "nuclei": ("cell nuclei", ("nuclei_1.png", "nuclei_2.png")),
    "road_signs": ("road signs", ("road_signs_1.jpg", "road_signs_2.jpg")),
}
DIGITS = "digit_detector"
FRAMES = {**dict.fromkeys(PHOTOGRAPHS, (SIDE, SIDE)), DIGITS: BOARD_SHAPE}

MAX_BYTES = 3_000_000  # of a request; the page shrinks pictures before it sends them
MAX_SECONDS = 10  # for a request to arrive
MAX_PIXELS = 1_000_000
MAX_VISITORS = 32  # who wait for an answer at once
UNREADABLE = "This picture cannot be read, or is too large."

LEAST = 0.05  # confidence that any slider can ask for
FAINT = 0.3  # heat that stays dark where nothing is found
CELLS = 48  # of a heat map as it is drawn, along its longer side
# Of the color map "inferno" of Matplotlib, at even distances.
COLORS = np.array(
    [
        [0, 0, 4],
        [31, 12, 72],
        [85, 15, 109],
        [136, 34, 106],
        [186, 54, 85],
        [227, 89, 51],
        [249, 140, 10],
        [249, 201, 50],
        [252, 255, 164],
    ],
    "float32",
)

TITLE = """# Trained at one magnification, used at any
Drag the slider: objects stay found, their sizes follow, and the heat moves to other scale channels.
"""
PHOTOGRAPHS_ARE = """One detector was trained on nuclei of 31 pixels (median), the other on signs of
32 to 48 pixels. Neither training had these pictures."""
DIGITS_ARE = "Draw digits, or drop a picture. The detector saw digits of 20 pixels only."
FILE = '<label class="file">your picture …<input type="file" accept="image/*"></label>'
MESSAGE = '<div class="message" role="status"></div>'
BOARD = f"""
<canvas width="{BOARD_SHAPE[1]}" height="{BOARD_SHAPE[0]}" aria-label="drawing board"></canvas>
<div class="tools">
  <button class="example">digits</button>
  <button class="black">blackboard</button>
  <button class="white">paper</button>
  {FILE}
  <label>pen <input type="range" min="2" max="32" value="10" aria-label="pen"></label>
</div>
{MESSAGE}"""
STYLE = """
canvas { width: 100%; display: block; border-radius: 8px; cursor: crosshair;
  touch-action: none; outline: 1px solid #8886; }
.tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-top: 8px;
  font-size: 14px; color: var(--body-text-color); }
.tools button, .tools .file, .tools select { padding: 4px 10px; border-radius: 8px;
  cursor: pointer; border: 1px solid #8886; background: #8881; color: inherit; }
.tools option { color: black; background: white; }
.tools .thumbnail { padding: 0; border: 0; background: none; }
.tools img { height: 64px; border-radius: 6px; display: block; }
.tools img.chosen { outline: 3px solid var(--color-accent); }
.tools input[type=file] { display: none; }
.tools input[type=range] { width: 70px; }
.tools label { display: flex; gap: 6px; align-items: center; }
.message { color: #c22; }"""


class Source(NamedTuple):
    """A visitor's picture, and the detector for it."""

    preset: str
    pixels: np.ndarray
    inverted: bool = False


class Answer(NamedTuple):
    """What the page shows of a picture, as HTML."""

    boxes: str
    found: str
    strip: str


class Finder:
    """A detector, compiled for pictures of one size."""

    def __init__(self, preset: str):
        import gdn_keras

        # What is shown is chosen afterwards: a better detection never depends on a worse one.
        trained = gdn_keras.from_preset(preset)
        self.confidence_threshold = trained.confidence_threshold
        self.class_names = trained.class_names
        self.shape = FRAMES[preset]
        self.detector = trained.with_thresholds(preprocessor=None, confidence_threshold=LEAST)
        self.channels = self.detector.network.input_shape[-1]
        self._preprocessor = trained.preprocessor
        self._compiled = compiled(self.detector)
        empty = np.zeros((1, *self.shape, self.channels), "uint8")
        self.grids, _ = self.detector.point_grids(empty)

    def __call__(
        self, images: np.ndarray, picture: np.ndarray, least: float
    ) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """What is found in one image, and its heat maps.

        Contrast is that of the whole picture at each magnification.
        """
        from gdn_keras import detection

        prepare = self._preprocessor
        if hasattr(prepare, "fixed"):
            prepare = prepare.fixed(picture[None].astype("float32"))
        prepared = np.asarray(prepare(images.astype("float32")))
        outputs = self._compiled.predict_on_batch(prepared)
        features, classes = outputs.pop("features"), self.detector.num_classes
        maps = detection.heat_maps(features, self.grids, self.shape, classes)
        shown = outputs["confidence"][0] >= least  # padding is -1
        found = {name: values[0][shown] for name, values in outputs.items() if values.ndim > 1}
        return found, [heat[0] for heat in maps]


def compiled(detector: Any) -> Any:
    """A model of features and detections; `predict_on_batch` runs it as one graph."""
    import keras

    class Outputs(keras.Model):
        def __init__(self):
            super().__init__()
            self.detector, self.built = detector, True

        def call(self, images: Any) -> dict[str, Any]:
            features = detector(images, training=False)
            return {"features": features, **detector.decode_predictions(features, images)}

    return Outputs()


def read(preset: str, drawing: str | None, channels: int) -> Source | None:
    """A picture in a data URL; `None` if it cannot be read or is too large."""
    from gdn_keras.datasets import read_picture
    from gdn_keras.datasets.frames import shrink_to_fit
    from gdn_keras.datasets.image_files import open_picture

    if not drawing or len(drawing) > MAX_BYTES:
        return None
    try:
        content = base64.b64decode(drawing.partition(",")[2])
        with open_picture(io.BytesIO(content), MAX_PIXELS):  # reads the header alone
            pass
        pixels = read_picture(io.BytesIO(content), channels)
    except (ValueError, OSError):
        return None
    return Source(preset, shrink_to_fit(pixels, FRAMES[preset])[0])


def magnified(pixels: np.ndarray, factor: float, frame: tuple[int, int]) -> np.ndarray:
    """One picture in the middle of an even frame: a batch, and the part of the frame that it is."""
    from gdn_keras.datasets import rescale_photographs

    sides = zip(pixels.shape, frame, strict=False)
    height, width = (min(m, max(1, round(n * factor))) for n, m in sides)
    part = rescale_photographs(pixels[None], factor, (height, width), boundary="edge")
    top, left = (frame[0] - height) // 2, (frame[1] - width) // 2
    images = np.empty((1, *frame, pixels.shape[2]), "uint8")
    images[:] = np.median(pixels, axis=(0, 1))
    images[:, top : top + height, left : left + width] = part
    return images


def answer(
    finder: Finder, source: Source | None, factor: float, least: float | None = None
) -> Answer:
    """What is found in a picture at `factor` times its size."""
    from gdn_keras import detection

    if source is None:
        return Answer("", f"<p>{UNREADABLE}</p>", "")
    images = magnified(source.pixels, factor, finder.shape)
    least = finder.confidence_threshold if least is None else least
    found, maps = finder(images, source.pixels, least)
    names = [finder.class_names[label] for label in found["labels"]]
    sizes = [f"{size:.0f}" for size in found["size"]]
    if len(finder.class_names) > 1:
        sizes = [f"{name} · {size}" for name, size in zip(names, sizes, strict=True)]
    labels = {"boxes": found["boxes"], "labels": found["labels"], "names": sizes}
    drawn = detection.draw_boxes(images[0], labels, scale=2)
    remark = " Dark on light: inverted for the network." if source.inverted else ""
    return Answer(
        f'<img src="{data_url(drawn, "JPEG")}" alt="{len(names)} objects in boxes">',
        f"<p>{len(names)} found.{remark}</p>{table(names, found['size'], factor)}",
        strip(maps, [finder.detector.extent * grid.scale for grid in finder.grids], finder.shape),
    )


def table(names: Sequence[str], sizes: np.ndarray, factor: float) -> str:
    """Count and size of each class, the largest first."""
    rows = []
    for name in set(names):
        mine = sizes[[k for k, other in enumerate(names) if other == name]]
        rows.append((float(np.median(mine)), name, len(mine)))
    lines = [
        f"<tr><td>{name}</td><td>{count}</td><td>{size:.0f}</td><td>{size / factor:.0f}</td></tr>"
        for size, name, count in sorted(rows, reverse=True)
    ]
    if not lines:
        return ""
    heads = ("", "count", "size, pixels", f"size ÷ {factor:g}")
    head = "".join(f"<th>{text}</th>" for text in heads)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def strip(maps: Sequence[np.ndarray], sizes: Iterable[float], frame: tuple[int, int]) -> str:
    """The heat of each scale channel, small scales first."""
    ratio = frame[1] / frame[0]
    top = max(FAINT, *(float(heat.max()) for heat in maps))
    tiles = [
        f'<figure><img src="{data_url(tile(heat / top))}" alt="" style="aspect-ratio:{ratio}">'
        f"<b>{size:.0f} px</b><br>{heat.max():.2f}</figure>"
        for heat, size in zip(maps, sizes, strict=True)
    ]
    said = "Scale channels: the size that each responds to, and its highest score"
    return f"<p>{said}</p>{''.join(tiles)}"


def tile(heat: np.ndarray) -> "Image":
    """Numbers from 0 to 1 in colors: maxima over blocks, so that narrow peaks still show."""
    from PIL import Image

    block = -(-max(heat.shape) // CELLS)
    blocks = np.pad(heat, [(0, -count % block) for count in heat.shape])
    rows, columns = (count // block for count in blocks.shape)
    blocks = blocks.reshape(rows, block, columns, block).max(axis=(1, 3))
    places = np.linspace(0, 1, len(COLORS))
    pixels = np.stack([np.interp(blocks, places, color) for color in COLORS.T], axis=-1)
    return Image.fromarray(pixels.astype("uint8"))


def data_url(picture: "Image", kind: str = "PNG") -> str:
    """A picture that needs no further request."""
    file = io.BytesIO()
    picture.save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def example_digits() -> str:
    """Test digits of several sizes, as a data URL."""
    from PIL import Image

    from gdn_keras.datasets import digit_scenes

    pixels = digit_scenes("test", **EXAMPLE).draw(seed=0, index=1).image
    return data_url(Image.fromarray(pixels[..., 0]))


def example_photograph(name: str) -> str:
    """A file of examples/pictures, as a data URL."""
    kind = "png" if name.endswith("png") else "jpeg"
    content = (HERE / "pictures" / name).read_bytes()
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def source_of_photograph(finders: dict[str, Finder], value: str | None) -> Source | None:
    """The photograph that the page sends: a detector's name and a data URL."""
    preset, _, drawing = (value or "").partition(" ")
    return read(preset, drawing, finders[preset].channels) if preset in PHOTOGRAPHS else None


def source_of_digits(value: str | None) -> Source | None:
    """The drawing that the page sends, with light strokes, in a frame of its own ground."""
    from gdn_keras import datasets

    source = read(DIGITS, value, channels=1)
    if source is None:
        return None
    pixels, inverted = datasets.light_on_dark(source.pixels)
    return Source(DIGITS, datasets.place_in_frame(pixels, BOARD_SHAPE)[0], inverted)


def script(name: str) -> str:
    return "".join((HERE / file).read_text(encoding="utf-8") for file in ("demo_files.js", name))


def photographs(gr: ModuleType) -> "HTML":
    """Examples, and a file of the visitor's; its value is a detector's name and a data URL."""
    thumbnails = "".join(
        f'<button class="thumbnail" aria-label="{title} {k}"><img src="{example_photograph(name)}" '
        f'data-detector="{preset}" alt="{title} {k}"></button>'
        for preset, (title, names) in PHOTOGRAPHS.items()
        for k, name in enumerate(names, 1)
    )
    options = "".join(f'<option value="{k}">{v[0]}</option>' for k, v in PHOTOGRAPHS.items())
    choice = f'<label>find <select aria-label="find">{options}</select></label>'
    return gr.HTML(
        html_template=f'<div class="tools">{thumbnails}{choice}{FILE}</div>{MESSAGE}',
        css_template=STYLE,
        js_on_load=script("demo_photographs.js"),
        apply_default_css=False,
        elem_id="examples",
        side=SIDE,
    )


def drawing_board(gr: ModuleType) -> "HTML":
    """A board to draw on; its value is a PNG in a data URL."""
    return gr.HTML(
        html_template=BOARD,
        css_template=STYLE,
        js_on_load=script("demo_board.js"),
        apply_default_css=False,
        elem_id="board",
        example=example_digits(),
    )


def slider(gr: ModuleType, name: str) -> Any:
    return gr.Slider(0.25, 2, 1, step=0.05, label="magnification", elem_id=name)


def page(finders: dict[str, Finder]) -> "Blocks":
    """The page, and what happens on it."""
    import gradio as gr

    def shown(name: str, kind: str) -> "HTML":
        return gr.HTML(elem_id=name, elem_classes=kind)

    def connect(
        given: "HTML", sliders: list[Any], answers: Answer, read_source: Callable[[Any], Any]
    ) -> None:
        """The picture is sent once; each step of a slider only sends numbers."""
        source = gr.State()

        def from_source(source: Source | None, *numbers: float) -> Answer:
            finder = finders[source.preset if source else DIGITS]
            return answer(finder, source, *numbers)

        def from_picture(value: Any, *numbers: float) -> tuple[Any, ...]:
            source = read_source(value)
            return source, *from_source(source, *numbers)

        shared: dict[str, Any] = {
            "trigger_mode": "always_last",
            "show_progress": "hidden",
            "api_visibility": "private",
            "concurrency_id": "network",  # an answer at a time, on all cores
        }
        gr.on([given.input], from_picture, [given, *sliders], [source, *answers], **shared)
        changes = [one.change for one in sliders]
        gr.on(changes, from_source, [source, *sliders], list(answers), **shared)

    with gr.Blocks(title="gdn_keras", analytics_enabled=False) as blocks:
        gr.Markdown(TITLE)
        with gr.Tab("Photographs"):
            gr.Markdown(PHOTOGRAPHS_ARE)
            with gr.Row():
                with gr.Column(scale=5, min_width=260):
                    boxes = shown("boxes", "answer")
                with gr.Column(scale=4, min_width=260):
                    factor = slider(gr, "factor")
                    given = photographs(gr)
                    found = shown("found", "found")
            maps = shown("maps", "strip")
            answers = Answer(boxes, found, maps)
            connect(given, [factor], answers, lambda value: source_of_photograph(finders, value))
        with gr.Tab("Digits"):
            gr.Markdown(DIGITS_ARE)
            with gr.Row():
                with gr.Column(scale=5, min_width=260):
                    board = drawing_board(gr)
                with gr.Column(scale=5, min_width=260):
                    boxes = shown("digit_boxes", "answer")
                    factor = slider(gr, "digit_factor")
                with gr.Column(scale=3, min_width=260):
                    found = shown("digit_found", "found")
                    least = finders[DIGITS].confidence_threshold
                    confidence = gr.Slider(LEAST, 0.95, least, step=0.05, label="least score")
            maps = shown("digit_maps", "strip")
            connect(board, [factor, confidence], Answer(boxes, found, maps), source_of_digits)
    return blocks.queue(max_size=MAX_VISITORS, default_concurrency_limit=1)


class LimitRequests:
    """Middleware that refuses requests whose body is too large, or too slow to arrive."""

    def __init__(self, app: Callable[..., Awaitable[None]]):
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        messages, size, more = [], 0, True
        try:
            async with asyncio.timeout(MAX_SECONDS):
                while more and size <= MAX_BYTES:
                    messages.append(await receive())
                    size += len(messages[-1].get("body", b""))
                    more = messages[-1].get("more_body", False)
        except TimeoutError:
            await PlainTextResponse("too slow", 408)(scope, receive, send)
            return
        if size > MAX_BYTES:
            await PlainTextResponse("too large", 413)(scope, receive, send)
            return

        async def again() -> dict[str, Any]:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, again, send)


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("--port", type=int, help="from 7860 on, the first that is free, by default")
    flags.add_argument("--share", action="store_true", help="a public address for three days")
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, loads and serves: 0, or 2 for a mistake."""
    options = parser().parse_args(arguments)
    try:
        import gradio as gr
        from starlette.middleware import Middleware
    except ImportError:
        print("error: the demo needs gradio: pip install 'gdn_keras[demo]'", file=sys.stderr)
        return 2
    finders = {preset: Finder(preset) for preset in FRAMES}
    for preset, finder in finders.items():  # the first answer takes longest
        answer(finder, Source(preset, np.zeros((*finder.shape, finder.channels), "uint8")), 1.0)
    blocks = page(finders)
    theme = gr.themes.Soft(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    try:
        _, address, public = blocks.launch(
            server_port=options.port,
            share=options.share,
            theme=theme,
            css_paths=HERE / "demo.css",
            quiet=True,
            ssr_mode=False,
            prevent_thread_lock=True,
            max_file_size=MAX_BYTES,
            state_session_capacity=4 * MAX_VISITORS,  # each holds a picture
            app_kwargs={"middleware": [Middleware(LimitRequests)]},
        )
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(public or address, flush=True)
    blocks.block_thread()
    return 0


if __name__ == "__main__":
    sys.exit(main())
