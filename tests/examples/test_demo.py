"""examples/demo.py: answers to what people draw, and the page in a browser."""

import base64
import io
import math
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gdn_keras
from tests.examples.conftest import EXAMPLES, load_example

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 180  # for a page that shares its cores


@pytest.fixture(scope="module")
def demo():
    return load_example("demo")


@pytest.fixture(scope="module")
def detector():
    return gdn_keras.from_preset("digit_detector")


def as_url(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def rows(table):
    """Digit, size and size over factor of each line of the table."""
    cells = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return [(name.strip(), float(size), float(original)) for name, _, size, original in cells]


def test_the_answer_stays_while_sizes_change(demo, detector):
    answers = [demo.answer(detector, demo.example_picture(), factor, 0.3) for factor in (1.0, 0.5)]
    whole, half = (sorted(rows(answer.table)) for answer in answers)
    assert [name for name, _, _ in whole] == [name for name, _, _ in half] and len(whole) > 4
    for (_, size, same), (_, small, original) in zip(whole, half, strict=True):
        assert size == same and original == pytest.approx(2 * small, abs=1.5)  # whole pixels
        assert original == pytest.approx(size, rel=0.2)
    assert answers[0].boxes.size == (2 * demo.FRAME[1], 2 * demo.FRAME[0])
    assert answers[0].maps.width > 1000


def test_dark_strokes_on_paper(demo, detector):
    scene = Image.open(io.BytesIO(base64.b64decode(demo.example_picture().partition(",")[2])))
    paper = Image.fromarray(255 - np.asarray(scene))
    light, dark = (demo.answer(detector, as_url(image), 1.0, 0.3) for image in (scene, paper))
    assert "inverted" in dark.remark and "inverted" not in light.remark
    assert rows(light.table) == rows(dark.table)


@pytest.mark.parametrize(
    "drawing",
    [None, "", "nothing", "data:image/png;base64,AAAA", "data:image/png;base64,", "data:,ä"],
)
def test_no_picture_is_a_sentence(demo, drawing):
    answer = demo.answer(None, drawing, 1.0, 0.3)
    assert answer[:3] == (None, None, "") and answer.remark.endswith(".")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_odd_modes_and_empty_pictures(demo, mode):
    answer = demo.answer(_Nothing(), as_url(Image.new(mode, (3, 500))), 0.25, 0.3)
    assert answer.table == "" and answer.remark.startswith("Nothing found")


class _Nothing:
    """A detector that finds nothing, at once."""

    num_classes, class_names = 10, list("0123456789")

    def __call__(self, images, training):
        assert images.dtype == np.uint8 and images.shape[-1] == 1
        return np.full((1, 4, 10), -9.0, "float32")

    def point_grids(self, images):
        return (gdn_keras.scale_space.PointGrid(1.0, 200.0, 2, 2),), images.shape[1:3]

    def with_thresholds(self, confidence_threshold):
        return self

    def decode_predictions(self, features, images):
        empty = {"boxes": np.full((1, 5, 4), -1.0), "labels": np.full((1, 5), -1)}
        scores = {name: np.full((1, 5), -1.0) for name in ("confidence", "size")}
        return {**empty, **scores, "num_detections": np.zeros(1, int)}


def test_without_gradio_a_hint(demo, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert demo.main([]) == 2
    assert "pip install 'gdn_keras[demo]'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The demo in a process of its own, on a free port."""
    pytest.importorskip("playwright", reason="needs playwright")
    pytest.importorskip("gradio", reason="needs gradio: pip install 'gdn_keras[demo]'")
    if not CHROMIUM:
        pytest.skip("needs chromium")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "demo.py", "--port", str(port)],
        cwd=tmp_path_factory.mktemp("demo"),
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()  # empty where the process ended
    assert str(port) in line
    yield line.strip()
    process.terminate()
    process.wait(30)
    process.stdout.close()


@pytest.fixture
def browser_page(address):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.set_default_timeout(1000 * SECONDS)
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(address)
        page.wait_for_selector("#found td")  # the picture that the page opens with
        yield page
        browser.close()
    assert not errors


def found(page, changing):
    """The table, once something has changed it."""
    table = "document.querySelector('#found table')?.innerText ?? ''"
    before = page.evaluate(table)
    changing()
    page.wait_for_function(f"before => ({table}) != before", arg=before)
    lines = [row.locator("td").all_inner_texts() for row in page.locator("#found tbody tr").all()]
    return [(name, float(size), float(original)) for name, _, size, original in lines]


def draw(page, strokes, height):
    """Strokes in parts of the digit's height, drawn by mouse in the middle of an empty board."""
    found(page, page.locator("button.black").click)
    box = page.locator("#board canvas").bounding_box()
    left, top = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def move():
        for points in strokes:
            places = [(left + (x - 0.5) * height, top + (y - 0.5) * height) for x, y in points]
            page.mouse.move(*places[0])
            page.mouse.down()
            for place in places[1:]:
                page.mouse.move(*place, steps=3)
            page.mouse.up()

    return found(page, move)


@pytest.mark.browser
def test_a_digit_drawn_at_two_sizes_and_rescaled(browser_page):
    angles = np.linspace(0, 2 * math.pi, 25)
    zero = [[(0.5 + 0.36 * math.sin(a), 0.5 - 0.5 * math.cos(a)) for a in angles]]
    small, large = (draw(browser_page, zero, height)[0] for height in (70, 140))
    assert small[0] == large[0] == "0"
    assert large[1] / small[1] == pytest.approx(2, rel=0.2)

    number = browser_page.locator("#factor input[type=number]")
    half = found(browser_page, lambda: (number.fill("0.5"), number.press("Enter")))[0]
    assert half[0] == "0" and half[2] == pytest.approx(large[1], rel=0.1)


@pytest.mark.browser
def test_a_file_that_is_no_picture_is_a_sentence(browser_page, tmp_path):
    (tmp_path / "broken.png").write_text("nothing")
    browser_page.set_input_files("#board input[type=file]", str(tmp_path / "broken.png"))
    message = browser_page.locator("#board .message")
    message.filter(has_text=re.compile("not a picture")).wait_for()


@pytest.mark.browser
def test_a_dropped_picture_replaces_the_drawing(browser_page, tmp_path):
    paper = np.full((900, 1400), 250, "uint8")
    paper[300:600, 600:640] = 20  # a stroke: a one
    file = Path(tmp_path / "large.png")
    Image.fromarray(paper).save(file)
    upload = browser_page.set_input_files
    lines = found(browser_page, lambda: upload("#board input[type=file]", str(file)))
    assert "1" in [name for name, _, _ in lines]
    assert "inverted" in browser_page.locator("#remark").inner_text()
