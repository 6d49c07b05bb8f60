"""Files and folders that are whole or not there, whatever happens while they are written."""

import contextlib
import glob
import os
import platform
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_ABANDONED_AFTER = 24 * 3600  # seconds after which a leftover belongs to no living process
# Tells this process from an earlier one of the same number, as containers have them.
_TOKEN = secrets.token_hex(4)


@contextlib.contextmanager
def replacing(path: Path, exclusive: bool = False) -> Iterator[Path]:
    """A temporary path of the same name; on success it takes the place of `path`.

    What is written there may be a file or a folder; the folder around it must exist. A file
    replaces the one before in one step. Any number of processes may write the same one at once: the
    last to end wins or, if it is `exclusive`, the first, and others raise FileExistsError. What a
    killed process left behind is removed by the next to write the same file.

    >>> with replacing(folder / "report.md") as temporary:  # doctest: +SKIP
    ...     temporary.write_text(text)
    """
    remove_leftovers(path)
    prefix = f".{path.name}~{platform.node()}~{os.getpid()}~{_TOKEN}~"
    try:
        with tempfile.TemporaryDirectory(".part", prefix, path.parent) as folder:
            new, old = Path(folder, path.name), Path(folder, "old")
            yield new
            for part in [new, *new.rglob("*")]:
                _flush(part)
            if exclusive:
                _put_first(new, path)
            elif path.is_dir() and new.is_dir():
                os.rename(path, old)  # a folder with files in it cannot be replaced in one step
                try:
                    os.rename(new, path)
                except BaseException:
                    os.rename(old, path)
                    raise
            else:
                os.replace(new, path)
            _flush(path.parent)
    except OSError as error:
        if error.errno is None:
            raise
        # Names the file, in place of a temporary one or of none.
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def _put_first(new: Path, path: Path) -> None:
    """Gives a complete file a name that no file has."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links; here the file is empty for a moment
        path.touch(exist_ok=False)
        os.replace(new, path)


def remove_leftovers(path: Path) -> None:
    """Removes what killed processes left of their writing of `path`."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}~*.part"):
        with contextlib.suppress(OSError, ValueError):
            host, process, token, _ = leftover.name.removeprefix(f".{path.name}~").split("~")
            age = time.time() - leftover.stat().st_mtime
            if _is_dead(host, int(process), token) or age > _ABANDONED_AFTER:
                if (leftover / "old").exists() and not path.exists():
                    os.rename(leftover / path.name, path)  # killed between its two renamings
                shutil.rmtree(leftover)


def _is_dead(host: str, process: int, token: str) -> bool:
    if host != platform.node():
        return False  # not for this machine to say
    if process == os.getpid():
        return token != _TOKEN
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def _flush(path: Path) -> None:
    """To the disk itself, so that a loss of power does not leave an empty file under the name."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
