"""Checks the built site: links lead somewhere, nothing comes from elsewhere, code fits.

mkdocs build --strict && python tools/check_site.py site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

CODE_WIDTH = 110  # columns that fit at 1400 pixels, see docs/stylesheets/site.css
TABLE_COLUMNS = 13
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src"}

_STDERR = "application/vnd.jupyter.stderr"


class Page(HTMLParser):
    """What a page links to, what it loads, its anchors, and its longest line of code."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.code: list[str] = []
        self.columns = self._column = 0
        self._in_code = self._is_hidden = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(values["href"])
        elif tag in _LOADED and _LOADED[tag] in values:
            self.loaded.append(values[_LOADED[tag]])
        # Messages of TensorFlow differ from machine to machine, and the site does not show them.
        self._is_hidden |= values.get("data-mime-type") == _STDERR
        self._in_code |= tag == "pre" and not self._is_hidden
        self._column = 0 if tag == "tr" else self._column + (tag in ("td", "th"))
        self.columns = max(self.columns, self._column)

    def handle_endtag(self, tag: str) -> None:
        self._in_code &= tag != "pre"
        self._is_hidden &= tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code.append(data)


def problems(site: Path) -> list[str]:
    """One line for each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: no pages"]
    for path, page in pages.items():
        name = path.relative_to(site)
        if name.name == "404.html":  # its links begin at the root of a server
            continue
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    found.append(f"{name}: loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in pages:
                anchors = pages[target].anchors | {"__codelineno"}
                if unquote(parts.fragment) not in anchors and "codelineno" not in parts.fragment:
                    found.append(f"{name}: {link} has no such anchor")
        longest = max((len(x) for x in "".join(page.code).splitlines()), default=0)
        if longest > CODE_WIDTH:
            found.append(f"{name}: code of {longest} columns")
        if page.columns > TABLE_COLUMNS:
            found.append(f"{name}: a table of {page.columns} columns")
    return found


def main() -> int:
    """Prints what is wrong: 1 if anything is, else 0."""
    found = problems(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
    print(*found, sep="\n")
    print(f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
