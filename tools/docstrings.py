"""An extension of griffe: docstrings as `help` shows them, turned into Markdown for the site."""

import re
from typing import Any

import griffe

_PARAMETERS = re.compile(r"^    (\*{0,2}\w+(?:,\s+\*{0,2}\w+)+):(.*(?:\n {8}.*)*)", re.MULTILINE)
_CALL = re.compile(r"^Call arguments:\n(?: {4}.*\n?)+", re.MULTILINE)
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_DIRECTIVE = re.compile(r"\s*# doctest: .*")
# A paragraph of its own that is a formula: a symbol, perhaps with arguments, and "=".
_FORMULA = re.compile(
    r"(?<=\n\n)([A-Za-z]\w*(?:_\{[^}]*\})?\([^)]*\) +=.*(?:\n +.*)*)(?=\n\n)",
)


class Markdown(griffe.Extension):
    """Fences examples and formulas, lists call arguments, and gives each of "a, b:" its text."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring whose examples and formulas are code blocks, and whose call arguments a list."""
    text = _FORMULA.sub(lambda match: f"```text\n{match[1]}\n```", text)
    text = _EXAMPLE.sub(lambda m: f"```pycon\n{_DIRECTIVE.sub('', m[0])}\n```", text)
    text = _CALL.sub(lambda match: _ARGUMENT.sub(r"    - `\1`: ", match[0]), text)
    return _PARAMETERS.sub(_separate, text)


def _separate(match: re.Match) -> str:
    return "\n".join(f"    {name}:{match[2]}" for name in re.split(r",\s+", match[1]))
