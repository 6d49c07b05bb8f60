"""What the documents say: their Python runs as printed, their links lead somewhere."""

import importlib
import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = [*PAGES, *sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("saved_models/*/README.md"))]
# At most, with code and tables; of some pages without their tables.
WORDS = {"README.md": 800, "docs/research.md": 3500, "docs/cluster.md": 400}
WORDS |= {"RELIABILITY.md": 400, "RESULTS.md": 1000}
WITHOUT_TABLES = "RELIABILITY.md", "RESULTS.md"
# Public between the folders of the package, but of no use to others.
_INTERNAL = {"Band", "Batch", "Cost", "Grid", "Node", "Operator"}

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _blocks(page: Path) -> list[str]:
    """The Python blocks of a page, each below as many empty lines as stand before it there."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text[: m.start(1)].count("\n") + m[1] for m in _BLOCK.finditer(text)]


def _pages_to_run() -> list[Path]:
    """Those with Python, except where it is the beginning of another page's."""
    blocks = {page: [block.strip() for block in _blocks(page)] for page in PAGES}
    return [
        page
        for page, own in blocks.items()
        if own and not any(x[: len(own)] == own != x for x in blocks.values())
    ]


@pytest.mark.parametrize("page", _pages_to_run(), ids=_name)
def test_python_blocks_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Image.open(ROOT / "examples" / "pictures" / "nuclei_1.png") as nuclei:
        nuclei.crop((0, 0, 180, 180)).save("picture.png")  # the reader's own
    monkeypatch.setenv("GDN_KERAS_CACHE", str(tmp_path / "cache"))
    namespace = {"__name__": "page"}
    for block in _blocks(page):
        exec(compile(block, page, "exec"), namespace)


def _anchors(page: Path) -> set[str]:
    """What headings are called in links."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in _anchors(target)


def test_links_lead_somewhere():
    broken = [
        f"{_name(page)}: {link}"
        for page in dict.fromkeys(LINKING)
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
        if not _leads_somewhere(page, link)
    ]
    assert not broken


def test_api_pages_list_what_is_public():
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        package = importlib.import_module(f"gdn_keras.{page.stem}")
        listed = re.findall(
            rf"^::: {package.__name__}\.(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        public = {name for name in package.__all__ if not name.isupper()}
        assert set(listed) == public - _INTERNAL, page.stem
        assert len(listed) == len(set(listed)), page.stem


@pytest.mark.parametrize("page", WORDS)
def test_pages_are_short(page):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("<!--")]
    if page in WITHOUT_TABLES:
        lines = [line for line in lines if not line.startswith("|")]
    assert sum(any(map(str.isalnum, token)) for token in " ".join(lines).split()) <= WORDS[page]


def test_each_picture_is_shown():
    shown = "".join(page.read_text(encoding="utf-8") for page in LINKING)
    pictures = sorted((ROOT / "docs").glob("**/*.png")) + sorted((ROOT / "docs").glob("**/*.gif"))
    assert not [_name(file) for file in pictures if f"{file.name})" not in shown]
