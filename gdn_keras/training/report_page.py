"""One page about a run: text, tables and pictures, one below the other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gdn_keras.reporting import Reporter
from gdn_keras.training.run_folder import PICTURES, REPORT, replacing, write_text


class Picture(NamedTuple):
    """A picture of a report.

    Attributes:
        name: Its file in the folder of pictures.
        caption: The line below it.
        draw: Function that writes it to a path. It is left out where this raises `ImportError`.
    """

    name: str
    caption: str
    draw: Callable[[Path], Any]


Section = str | Picture  # Markdown, or a picture


def write_page(folder: Path, sections: Sequence[Section], reporter: Reporter) -> None:
    """Draws the pictures and writes report.md.

    Args:
        folder: The folder of the run.
        sections: From top to bottom.
        reporter: Told if pictures have to be left out.
    """
    (folder / PICTURES).mkdir(exist_ok=True)
    parts = []
    for section in sections:
        if isinstance(section, Picture):
            section = _drawn(folder, section)
        if section not in parts:  # one note is enough
            parts.append(section)
            if section.startswith(_LEFT_OUT):
                reporter.line(section)
    write_text(folder / REPORT, "\n\n".join(part.strip() for part in parts) + "\n")


_LEFT_OUT = "Pictures were left out."


def _drawn(folder: Path, picture: Picture) -> str:
    try:
        with replacing(folder / PICTURES / picture.name) as temporary:
            picture.draw(temporary)
    except ImportError as error:
        return f"{_LEFT_OUT} {error}"
    return f"![{picture.caption}]({PICTURES}/{picture.name})\n\n*{picture.caption}*"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def settings_table(settings: dict[str, Any]) -> str:
    """Settings that are not `None`, one a row."""
    rows = [(name, shown(value)) for name, value in settings.items() if value is not None]
    return markdown_table(("setting", "value"), rows)


def shown(value: Any) -> str:
    """A value or a list of values as a report prints it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
