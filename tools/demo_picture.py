"""Takes the picture of the demo for docs/guides/demo.md.

    python examples/demo.py --port 7860
    python tools/demo_picture.py http://127.0.0.1:7860

It draws a digit by mouse beside those that the page opens with. It needs playwright and chromium.
"""

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "demo.png"
MILLISECONDS = 300_000
TWO = ((0, 0.25), (0.12, 0.05), (0.4, 0), (0.6, 0.15), (0.55, 0.4), (0.02, 1), (0.7, 0.97))


def draw(page: Page, left: float, top: float, height: float) -> None:
    """A two by mouse; its corner in parts of the board, its height in pixels of the page."""
    box = page.locator("#board canvas").bounding_box()
    x, y = box["x"] + left * box["width"], box["y"] + top * box["height"]
    page.mouse.move(x + TWO[0][0] * height, y + TWO[0][1] * height)
    page.mouse.down()
    for across, down in TWO[1:]:
        page.mouse.move(x + across * height, y + down * height, steps=4)
    page.mouse.up()


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("address", help="that examples/demo.py printed")
    address = flags.parse_args().address
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1360, "height": 700})
        page.set_default_timeout(MILLISECONDS)
        page.goto(address)
        page.wait_for_selector("#found td")
        before = page.locator("#found table").inner_text()
        draw(page, 0.07, 0.45, 72)
        changed = "before => document.querySelector('#found table')?.innerText != before"
        page.wait_for_function(changed, arg=before)
        page.mouse.move(2, 2)
        page.wait_for_timeout(3000)  # for pictures to arrive and marks of progress to fade
        shot = page.screenshot(full_page=True)
        browser.close()
    Image.open(io.BytesIO(shot)).convert("RGB").save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
