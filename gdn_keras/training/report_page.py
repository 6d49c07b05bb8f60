"""One page about a run: text, tables and pictures, one below the other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gdn_keras.atomic_files import replacing
from gdn_keras.reporting import Reporter
from gdn_keras.training.run_folder import PICTURES, REPORT, write_text


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
    """Draws the pictures and writes report.md; the reporter is told if they are left out."""
    (folder / PICTURES).mkdir(exist_ok=True)
    parts, missing = [], ""
    for section in sections:
        if isinstance(section, str):
            parts.append(section.strip())
            continue
        try:
            with replacing(folder / PICTURES / section.name) as temporary:
                section.draw(temporary)
        except ImportError as error:
            missing = f"Pictures were left out. {error}"
        else:
            caption = section.caption
            parts.append(f"![{caption}]({PICTURES}/{section.name})\n\n*{caption}*")
    if missing:
        reporter.line(missing)
        parts.append(missing)
    write_text(folder / REPORT, "\n\n".join(parts) + "\n")


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
