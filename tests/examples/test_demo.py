"""examples/demo.py: answers to what people draw, and the page in a browser."""

import asyncio
import base64
import concurrent.futures
import io
import math
import os
import re
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.examples.conftest import EXAMPLES, load_example

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 180  # for a page that shares its cores


@pytest.fixture(scope="module")
def demo():
    return load_example("demo")


@pytest.fixture(scope="module")
def finders(demo):
    return {preset: demo.Finder(preset) for preset in demo.FRAMES}


def as_url(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def rows(found):
    """Class, count, size and size over magnification of each line of a table."""
    lines = re.findall("<tr><td>(.*?)</td></tr>", found)
    cells = (line.split("</td><td>") for line in lines)
    return sorted((name, int(n), float(size), float(same)) for name, n, size, same in cells)


def photograph(demo, finders, preset, number=0):
    _, names = demo.PHOTOGRAPHS[preset]
    url = demo.example_photograph(names[number])
    return demo.source_of_photograph(finders, f"{preset} {url}")


def test_digits_stay_while_sizes_change(demo, finders):
    source = demo.source_of_digits(demo.example_digits())
    answers = [demo.answer(finders[demo.DIGITS], source, factor, 0.3) for factor in (1.0, 0.6)]
    whole, small = (rows(answer.found) for answer in answers)
    assert [row[:2] for row in whole] == [row[:2] for row in small] and len(whole) > 4
    for (*_, size, same), (*_, less, original) in zip(whole, small, strict=True):
        assert size == same and original == pytest.approx(less / 0.6, abs=1.5)  # whole pixels
        assert original == pytest.approx(size, rel=0.25)


@pytest.mark.parametrize(
    "preset, counts", [("nuclei", {"nucleus": 20}), ("road_signs", {"crosswalk": 2})]
)
def test_photographs_stay_while_sizes_change(demo, finders, preset, counts):
    source = photograph(demo, finders, preset)
    sizes = []
    for factor in (1.0, 0.5):
        answer = demo.answer(finders[preset], source, factor)
        found = {name: (count, same) for name, count, _, same in rows(answer.found)}
        for name, count in counts.items():
            assert found[name][0] >= count
        sizes.append(next(found[name][1] for name in counts))
        assert answer.strip.count("<figure>") == len(finders[preset].grids)
    assert sizes[0] == pytest.approx(sizes[1], rel=0.15)


def test_visitors_at_once_get_their_own_answers(demo, finders):
    asked = [(preset, factor) for preset in demo.PHOTOGRAPHS for factor in (0.5, 0.75, 1.0, 1.5)]

    def ask(preset, factor):
        return demo.answer(finders[preset], photograph(demo, finders, preset), factor)

    one_by_one = [ask(*question) for question in asked]
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as visitors:
        at_once = list(visitors.map(lambda question: ask(*question), asked))
    assert at_once == one_by_one and len(set(at_once)) == len(asked)


def test_dark_strokes_on_paper(demo, finders):
    scene = Image.open(io.BytesIO(base64.b64decode(demo.example_digits().partition(",")[2])))
    paper = Image.fromarray(255 - np.asarray(scene))
    finder = finders[demo.DIGITS]
    sources = [demo.source_of_digits(as_url(image)) for image in (scene, paper)]
    light, dark = (demo.answer(finder, source, 1.0, 0.3) for source in sources)
    assert "inverted" in dark.found and "inverted" not in light.found
    assert rows(light.found) == rows(dark.found)


LARGE = as_url(Image.new("L", (2000, 1000)))  # few bytes, many pixels


@pytest.mark.parametrize(
    "drawing",
    [
        None,
        "",
        "nothing",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,",
        "data:,ä",
        pytest.param(LARGE, id="pixels"),
        pytest.param("A" * 4_000_000, id="bytes"),
    ],
)
def test_no_picture_is_a_sentence(demo, finders, drawing):
    sources = [demo.source_of_digits(drawing)]
    sources += [demo.source_of_photograph(finders, f"nuclei {drawing}")]
    sources += [demo.source_of_photograph(finders, drawing)]
    for source in sources:
        answer = demo.answer(finders["nuclei"], source, 1.0)
        assert answer == ("", f"<p>{demo.UNREADABLE}</p>", "")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_odd_modes_and_empty_pictures(demo, finders, mode):
    url = as_url(Image.new(mode, (3, 500)))
    for preset, finder in finders.items():
        if preset == demo.DIGITS:
            source = demo.source_of_digits(url)
        else:
            source = demo.source_of_photograph(finders, f"{preset} {url}")
        assert demo.answer(finder, source, 0.25).found == "<p>0 found.</p>"


def test_requests_are_limited_in_size_and_time(demo, monkeypatch):
    pytest.importorskip("starlette", reason="needs gradio: pip install 'gdn_keras[demo]'")
    monkeypatch.setattr(demo, "MAX_SECONDS", 0.05)

    async def echo(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        await send({"status": 200, "size": len(body)})

    async def status(*chunks, end=True):
        async def receive():
            if chunks_left:
                chunk = chunks_left.pop(0)
                return {"body": chunk, "more_body": bool(chunks_left) or not end}
            return await asyncio.sleep(60)

        async def send(message):
            sent.append(message)

        chunks_left, sent = list(chunks), []
        await demo.LimitRequests(echo)({"type": "http"}, receive, send)
        return sent[0]

    half = b"x" * (demo.MAX_BYTES // 2)
    assert asyncio.run(status(half, half)) == {"status": 200, "size": len(half) * 2}
    assert asyncio.run(status(half, half, half))["status"] == 413
    assert asyncio.run(status(half, end=False))["status"] == 408


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


@pytest.fixture(scope="module")
def browser(address):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """Opens a page, as a visitor does."""
    errors, pages = [], []

    def visit(width=1360):
        page = browser.new_page(viewport={"width": width, "height": 900})
        pages.append(page)
        page.set_default_timeout(1000 * SECONDS)
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(address)
        page.wait_for_selector("#found td")  # of the picture that the page opens with
        return page

    yield visit
    for page in pages:
        page.close()
    assert not errors


@pytest.fixture
def digits_page(open_page):
    page = open_page()
    page.get_by_role("tab", name="Digits").click()
    page.wait_for_selector("#digit_found td")
    return page


def lines(page, found):
    cells = page.locator(f"{found} tr").all()[1:]
    texts = (row.locator("td").all_inner_texts() for row in cells)
    return [(name, int(count), float(size), float(same)) for name, count, size, same in texts]


def after(page, found, changing):
    """The table, once something has changed it."""
    table = f"document.querySelector('{found} table')?.innerText ?? ''"
    before = page.evaluate(table)
    changing()
    page.wait_for_function(f"before => ({table}) != before", arg=before)
    return lines(page, found)


def draw(page, strokes, height):
    """Strokes in parts of the digit's height, drawn by mouse in the middle of an empty board."""
    after(page, "#digit_found", page.locator("button.black").click)
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

    return after(page, "#digit_found", move)


def magnify(page, value, slider="#factor"):
    number = page.locator(f"{slider} input[type=number]")
    number.fill(str(value))
    number.press("Enter")


@pytest.mark.browser
def test_it_answers_while_the_slider_moves(open_page):
    page = open_page()
    handle = page.locator("#factor input[type=range]").bounding_box()
    middle = handle["y"] + handle["height"] / 2
    page.mouse.move(handle["x"] + 0.43 * handle["width"], middle)
    page.mouse.down()
    heads = set()
    for share in (0.3, 0.2, 0.1):  # the button stays down
        after(
            page,
            "#found",
            lambda x=share: page.mouse.move(handle["x"] + x * handle["width"], middle),
        )
        heads.add(page.locator("#found th").last.inner_text())
    page.mouse.up()
    assert len(heads) == 3


@pytest.mark.browser
def test_visitors_share_the_demo(open_page):
    pages = [open_page(width) for width in (1360, 820, 390)]
    pages[1].locator("#examples button").nth(2).click()
    pages[1].wait_for_selector("#found td:text('crosswalk')")
    for page, factor in zip(pages, (0.5, 1.5, 0.75), strict=True):
        magnify(page, factor)
    for page, factor in zip(pages, (0.5, 1.5, 0.75), strict=True):
        page.wait_for_selector(f"#found th:text('÷ {factor}')")
    tables = [lines(page, "#found") for page in pages]
    assert [table[0][0] for table in tables] == ["nucleus", "crosswalk", "nucleus"]
    assert tables[2][0][2] == pytest.approx(1.5 * tables[0][0][2], rel=0.15)


@pytest.mark.browser
def test_nothing_is_cut_on_a_phone(open_page):
    page = open_page(390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    labels = page.locator("#maps b").all()
    sizes = [label.evaluate("x => parseFloat(getComputedStyle(x).fontSize)") for label in labels]
    assert min(sizes) >= 12


@pytest.mark.browser
def test_a_digit_drawn_at_two_sizes_and_rescaled(digits_page):
    angles = np.linspace(0, 2 * math.pi, 25)
    zero = [[(0.5 + 0.36 * math.sin(a), 0.5 - 0.5 * math.cos(a)) for a in angles]]
    small, large = (draw(digits_page, zero, height)[0] for height in (70, 140))
    assert small[:2] == large[:2] == ("0", 1)
    assert large[2] / small[2] == pytest.approx(2, rel=0.2)

    half = after(digits_page, "#digit_found", lambda: magnify(digits_page, 0.5, "#digit_factor"))[0]
    assert half[0] == "0" and half[3] == pytest.approx(large[2], rel=0.1)


@pytest.mark.browser
@pytest.mark.parametrize("tab", ["examples", "board"])
def test_a_file_that_is_no_picture_is_a_sentence(digits_page, tmp_path, tab):
    (tmp_path / "broken.png").write_text("nothing")
    digits_page.set_input_files(f"#{tab} input[type=file]", str(tmp_path / "broken.png"))
    message = digits_page.locator(f"#{tab} .message")
    message.filter(has_text=re.compile("not a picture")).wait_for(state="attached")


@pytest.mark.browser
def test_a_large_photograph_of_the_visitor(open_page):
    page = open_page()
    picture = Image.open(EXAMPLES / "pictures" / "nuclei_1.png").resize((1800, 1800))
    file = {"name": "mine.png", "mimeType": "image/png", "buffer": _png(picture)}
    found = after(page, "#found", lambda: page.set_input_files("#examples input[type=file]", file))
    assert found[0][0] == "nucleus" and found[0][1] > 15


def _png(picture):
    return base64.b64decode(as_url(picture).partition(",")[2])


@pytest.mark.browser
def test_a_dropped_picture_replaces_the_drawing(digits_page):
    paper = np.full((900, 1400), 250, "uint8")
    paper[300:600, 600:640] = 20  # a stroke: a one
    file = {"name": "one.png", "mimeType": "image/png", "buffer": _png(Image.fromarray(paper))}
    upload = digits_page.set_input_files
    found = after(digits_page, "#digit_found", lambda: upload("#board input[type=file]", file))
    assert "1" in [line[0] for line in found]
    assert "inverted" in digits_page.locator("#digit_found").inner_text()
