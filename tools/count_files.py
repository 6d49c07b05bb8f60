"""Counts the files of the package whose functions run in a script, threads included.

    python tools/count_files.py examples/train_large_scale.py --epochs 1 --digits 60 --output runs/x

What runs while a module is imported does not count.
"""

import collections
import os
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parents[1] / "gdn_keras") + os.sep


def main(script: str, *arguments: str) -> None:
    """Runs a script and prints the names of the files and their number."""
    seen: set[str] = set()
    imports: collections.Counter[int] = collections.Counter()  # under way, by thread

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        thread = threading.get_ident()
        if code.co_name == "<module>":
            imports[thread] += 1 if event == "call" else -1
        elif event == "call" and not imports[thread]:
            seen.add(code.co_filename.removeprefix(PACKAGE))

    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        print(f"It ended with {end.code}.")
    finally:
        sys.setprofile(None)
        print(*sorted(seen), f"{len(seen)} files", sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
