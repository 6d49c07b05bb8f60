"""Hooks of mkdocs: pages from the root of the repository, links, and formulas as MathML."""

import html
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Empty until there is a repository: pages then link to nothing outside of the site.
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"].get(
    "Repository", ""
)
PAGES = {
    "RESULTS.md": "results.md",
    "RELIABILITY.md": "reliability.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
_LINK = re.compile(
    r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)"  # a link, or
    r"|(!\[[^\]]*\]\()([^)\s]+)"  # a picture
)
_CODE = re.compile(r"(```.*?```|`[^`\n]*`|<!--.*?-->)", re.DOTALL)
_SPACE = re.compile(r"(?<=\d) (?=\d{3}\b|%)")  # of 20 536 and 5 %, which stay in one line
_SOURCE = re.compile(r'href="(?!\w+:|#)([^"#]+\.(?:md|ipynb))')
_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
_FORMULA = re.compile(r'(<(span|div) class="arithmatex">)\\([(\[])(.*?)\\[)\]]</\2>', re.DOTALL)


def on_config(config: Any) -> Any:
    """The repository's address stands in one place only."""
    if REPOSITORY:
        config.repo_url, config.repo_name = REPOSITORY, "Source"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that readers of the repository find at its root."""
    for source, page in PAGES.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links that work in the repository become links that work in the site; numbers stay whole."""
    here = page.file.src_uri
    origin = next((root for root, target in PAGES.items() if target == here), f"docs/{here}")

    def place(target: str) -> str | None:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if target not in PAGES and not target.startswith("docs/"):
            return REPOSITORY and f"{REPOSITORY}/blob/main/{target}"
        inside = PAGES.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(inside, posixpath.dirname(here) or ".")

    def replaced(match: re.Match) -> str:
        text, target, anchor, image, picture = match.groups()
        if image:
            return image + (picture if ":" in picture else place(picture) or picture)
        address = place(target)
        return f"[{text}]({address}{anchor or ''})" if address else text

    parts = _CODE.split(_LINK.sub(replaced, markdown))
    parts[::2] = [_SPACE.sub("\N{NO-BREAK SPACE}", text) for text in parts[::2]]
    return "".join(parts)


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Links of notebooks to sources become links to pages; nothing needs a script."""
    if page.file.src_uri.endswith(".ipynb"):
        content = _SCRIPT.sub("", content)  # of MathJax, RequireJS and Mermaid, from elsewhere

    def linked(match: re.Match) -> str:
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[1]))
        file = files.get_file_from_path(source)
        return f'href="{file.url_relative_to(page.file)}' if file else match[0]

    def drawn(match: re.Match) -> str:
        opening, tag, kind, formula = match.groups()
        display = "block" if kind == "[" else "inline"
        return f"{opening}{convert(html.unescape(formula), display=display)}</{tag}>"

    return _FORMULA.sub(drawn, _SOURCE.sub(linked, content))
