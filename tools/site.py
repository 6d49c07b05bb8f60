"""Hooks of mkdocs: pages from the root of the repository, and its address from pyproject.toml."""

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
PAGES = {
    "RESULTS.md": "results.md",
    "RELIABILITY.md": "reliability.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")


def on_config(config: Any) -> Any:
    """The repository's address stands in one place only."""
    config.repo_url = REPOSITORY
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that readers of the repository find at its root."""
    for source, page in PAGES.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they work in the repository, turned into links as they work in the site."""
    here = page.file.src_uri
    origin = next((root for root, target in PAGES.items() if target == here), f"docs/{here}")

    def replaced(match: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[1]))
        if target in PAGES:
            inside = PAGES[target]
        elif target.startswith("docs/"):
            inside = target.removeprefix("docs/")
        else:
            return f"]({REPOSITORY}/blob/main/{target}"
        return "](" + posixpath.relpath(inside, posixpath.dirname(here) or ".")

    return _LINK.sub(replaced, markdown)
