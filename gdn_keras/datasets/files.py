"""Directories that users name, and pictures in them."""

import os
from pathlib import Path


def require_directory(directory: str | os.PathLike | None, content: str) -> Path:
    """`directory`, which must be there; `content` says what should be in it."""
    if directory is None or not Path(directory).expanduser().is_dir():
        raise FileNotFoundError(
            f"`directory` must be a folder with {content}. Received: directory={directory!r}"
        )
    return Path(directory).expanduser()
