"""Takes the picture of the demo for docs/guides/demo.md, and measures its answers.

    python examples/demo.py --port 7860
    python tools/demo_picture.py http://127.0.0.1:7860

    nuclei: 21 answers, median 95 ms, slowest 140 ms

The time is from a step of the slider to the new table, in the browser. It needs playwright and
chromium.
"""

import argparse
import io
import shutil
import statistics
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "demo.png"
MILLISECONDS = 300_000
EXAMPLES = {"nuclei": 0, "road signs": 2}
STEPS = 21

# Resolves to the milliseconds until the table shows the answer to a new magnification.
STEP = """([slider, found, value]) => new Promise((resolve) => {
  const input = document.querySelector(`${slider} input[type=range]`);
  const seen = () => document.querySelector(`${found} th:last-child`)?.innerText;
  const begin = performance.now();
  const wait = () => seen()?.endsWith(` ${value}`)
    ? resolve(performance.now() - begin) : requestAnimationFrame(wait);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  wait();
})"""


def measure(page: Page, name: str, slider: str, found: str) -> None:
    """Moves a slider step by step, and prints how long answers take."""
    values = [round(0.5 + 0.05 * k, 2) for k in range(STEPS)]
    times = [page.evaluate(STEP, [slider, found, value]) for value in values]
    middle, slowest = statistics.median(times), max(times)
    print(f"{name}: {STEPS} answers, median {middle:.0f} ms, slowest {slowest:.0f} ms")
    page.evaluate(STEP, [slider, found, 1])


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("address", help="that examples/demo.py printed")
    address = flags.parse_args().address
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1100, "height": 700})
        page.set_default_timeout(MILLISECONDS)
        page.goto(address)
        page.wait_for_selector("#found td")
        for name, example in EXAMPLES.items():
            page.locator("#examples button").nth(example).click()
            page.wait_for_selector(f"#examples button:nth-child({example + 1}) img.chosen")
            measure(page, name, "#factor", "#found")
        page.locator("#examples button").first.click()
        page.wait_for_selector("#found td:text('nucleus')")
        page.mouse.move(2, 2)
        page.wait_for_timeout(1000)  # for the strip to be drawn
        shot = page.screenshot(full_page=True)
        page.get_by_role("tab", name="Digits").click()
        page.wait_for_selector("#digit_found td")
        measure(page, "digits", "#digit_factor", "#digit_found")
        browser.close()
    Image.open(io.BytesIO(shot)).convert("RGB").save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
