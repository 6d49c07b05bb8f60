"""The rooms of the house: imports point downwards, and a file name occurs once."""

import ast
import collections
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "gdn_keras"
# From above to below; files beside the rooms are below all of them, but for the package itself.
ROOMS = (
    "tuning",
    "serving",
    "training",
    "detection",
    "export",
    "analysis",
    "datasets",
    "models",
    "layers",
    "scale_space",
)


def imported(file):
    """The rooms that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "gdn_keras":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gdn_keras."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (n.name.split(".")[1] for n in node.names if n.name.startswith("gdn_keras."))


def test_imports_point_downwards():
    against = [
        f"{file.relative_to(PACKAGE)} imports {other}"
        for room in ROOMS
        for file in (PACKAGE / room).rglob("*.py")
        for other in imported(file)
        if other in ROOMS and ROOMS.index(other) < ROOMS.index(room)
    ]
    assert not against


def test_every_room_is_listed():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)


def test_file_names_occur_once():
    names = collections.Counter(f.name for f in PACKAGE.rglob("*.py") if f.name != "__init__.py")
    assert not [name for name, count in names.items() if count > 1]
