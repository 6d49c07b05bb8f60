"""Kills trainings, damages their files, fills their disk, and starts them again.

    python -m tests.reliability.faults --kills 25

prints a table of the faults, of how often each was tried and of what was lost, in about ten minutes
on 2 cores, and ends with code 1 if anything was. The tests beside it are made of the same parts.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import resource
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "train_large_scale.py"
# Seconds, most of them for TensorFlow to trace; two chunks of images, six epochs of two steps.
TINY = (
    "--widths 2 --scales 1 1 1 --frame 20 --train-size 1 --test-sizes 1 --digits 600 "
    "--test-digits 20 --batch-size 300 --epochs 6"
)
_TEXTS = ("settings.json", "history.csv", "accuracy.csv", "accuracy.json", "report.md")
_NETWORKS = ("last.keras", "best.keras", "model.keras")

# Processes are forked from one that has imported everything, so that a kill at a random moment
# seldom falls into the import.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["gdn_keras.training.command_line", "gdn_keras.export", "matplotlib.pyplot"]
)


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended and what it said."""

    code: int
    said: str

    @property
    def sentence(self) -> str:
        """The last line, which tells the user why."""
        return self.said.strip().splitlines()[-1] if self.said.strip() else ""


class Training:
    """A tiny run of `examples/train_large_scale.py` in a folder, with a cache of its own."""

    def __init__(self, home: Path, arguments: str = TINY):
        self.folder, self.cache, self._log = home / "run", home / "cache", home / "log"
        self.arguments = [*arguments.split(), "--output", str(self.folder)]
        home.mkdir(parents=True, exist_ok=True)

    def start(self, file_size: int | None = None):
        """The process, begun; `file_size` limits that of each file that it may write."""
        environment = {"GDN_KERAS_CACHE": str(self.cache)}
        process = FORKS.Process(
            target=_run_script, args=(self.arguments, environment, str(self._log), file_size)
        )
        process.start()
        return process

    def run(self, file_size: int | None = None) -> Ended:
        """Runs to the end."""
        process = self.start(file_size)
        process.join()
        return self.ended(process)

    def ended(self, process) -> Ended:
        """How a process of this training ended."""
        return Ended(process.exitcode, self._log.read_text())

    def kill_when(self, moment: Callable[[], bool]) -> bool:
        """Starts and kills by SIGKILL as soon as `moment()`; whether it came in time."""
        process = self.start()
        while process.is_alive() and not moment():
            time.sleep(0.0005)
        process.kill()
        process.join()
        return process.exitcode == -9

    def outcome(self) -> dict[str, bytes]:
        """Everything that two runs of equal settings must have in common, byte by byte."""
        return {
            **{name: (self.folder / name).read_bytes() for name in _TEXTS},
            **{
                f"{file}/{name}": value
                for file in _NETWORKS
                for name, value in weights(self.folder / file).items()
            },
        }

    def stop_after(self, epochs: int) -> None:
        """Runs and kills it when the last checkpoint holds that many epochs."""
        assert self.kill_when(lambda: self.epochs() >= epochs), "it ended before"

    def epochs(self) -> int:
        """How many epochs the last checkpoint holds; raises if it is not whole."""
        file = self.folder / "last.keras"
        if not file.exists():
            return 0
        with zipfile.ZipFile(file) as archive:
            if archive.testzip() is not None:
                raise AssertionError(f"{file} is half-written")
            return len(json.loads(archive.read("history.json")))

    def leftovers(self) -> list[Path]:
        """Half-written files, under names that nothing reads."""
        folders = (self.folder, self.folder / "pictures", self.cache)
        return [path for folder in folders for path in folder.glob(".*")]

    def copy(self, home: Path) -> "Training":
        """The same in another place."""
        shutil.copytree(self.folder.parent, home)
        other = Training(home)
        other.arguments[:-1] = self.arguments[:-1]
        return other


def _run_script(arguments, environment, log, file_size):
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ.update(environment)
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    sys.argv = [str(SCRIPT), *arguments]
    runpy.run_path(str(SCRIPT), run_name="__main__")


def weights(file: Path) -> dict[str, bytes]:
    """All arrays of a .keras file, the optimiser's included, as bytes."""
    arrays = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            arrays[name] = np.asarray(item).tobytes()

    with (
        zipfile.ZipFile(file) as archive,
        archive.open("model.weights.h5") as stream,
        h5py.File(stream, "r") as content,
    ):
        content.visititems(keep)
    return arrays


def kill_moments(training: Training, duration: float, rng: np.random.Generator):
    """Functions that make a `moment` for `Training.kill_when`, by what is going on then."""

    def at_random():
        end = time.monotonic() + rng.uniform(0, duration)
        return lambda: time.monotonic() > end

    def writing(folder: Path, name: str):
        # Not always the first time, so that there is something to lose.
        seen, wanted = set(), rng.integers(1, 4)

        def moment():
            seen.update(path.name for path in folder.glob(f".{name}~*.part"))
            return len(seen) >= wanted

        return moment

    def making_data():
        shutil.rmtree(training.cache, ignore_errors=True)
        return lambda: any(training.cache.glob(".*.npy~*.part"))

    return {
        "making the data set": making_data,
        "writing last.keras": lambda: writing(training.folder, "last.keras"),
        "at a random moment": at_random,
        "writing the history": lambda: writing(training.folder, "history.csv"),
        "writing model.keras": lambda: _first(training.folder, ".model.keras~*.part"),
        "writing accuracy.json": lambda: _first(training.folder, ".accuracy.json~*.part"),
        "exporting": lambda: _first(training.folder, ".saved_model~*.part"),
        "drawing": lambda: _first(training.folder / "pictures", ".*.part"),
    }


def _first(folder: Path, pattern: str):
    return lambda: any(folder.glob(pattern))


def kill_repeatedly(
    home: Path, expected: dict[str, bytes], kills: int, duration: float, seed: int = 0
) -> list[tuple[str, bool]]:
    """Kills trainings `kills` times in all, and lets each of them end.

    Args:
        home: A folder for the trainings.
        expected: `Training.outcome` of one that was not killed.
        kills: How often.
        duration: Seconds that a training takes.
        seed: Of the random moments.

    Returns:
        For each kill, what was going on, and whether it left a half-written file behind.

    Raises:
        AssertionError: If anything was lost.
    """
    rng = np.random.default_rng(seed)
    done = []
    while len(done) < kills:
        training = Training(home / f"training {len(done)}")
        for name, make in kill_moments(training, duration, rng).items():
            for _ in range(2 if name == "at a random moment" else 1):
                if len(done) < kills:
                    before = training.epochs()
                    left = set(training.leftovers())
                    if training.kill_when(make()):
                        done.append((name, bool(set(training.leftovers()) - left)))
                    assert training.epochs() >= before, f"{name}: epochs were lost"
        ended = training.run()
        assert ended.code == 0, ended.said
        assert training.outcome() == expected, "the result is another than without kills"
        assert not training.leftovers(), training.leftovers()
    return done


def damage(file: Path, kind: str) -> None:
    """Cuts a file to a share of its length, or changes a byte in its middle."""
    content = bytearray(file.read_bytes())
    if kind == "changed":
        content[len(content) // 2] ^= 0xFF
    else:
        del content[int(len(content) * {"empty": 0, "half": 0.5, "nearly whole": 0.99}[kind]) :]
    file.write_bytes(content)


DAMAGES = ("empty", "half", "nearly whole", "changed")
IMAGES = "the images in the cache"
MENDED = ("model.keras", "accuracy.json", "saved_model/saved_model.pb", IMAGES)
# One changed pixel of thousands of images, or a changed byte of the SavedModel that changes none of
# its answers, is not found.
FINISHED_DAMAGES = [
    (name, kind)
    for name in MENDED
    for kind in DAMAGES
    if kind != "changed" or name in ("model.keras", "accuracy.json")
]


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def can_mount() -> bool:
    """Whether file systems can be mounted in a name space of one's own."""
    try:
        probe = subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
        )
    except OSError:
        return False
    return probe.returncode == 0


def run_on_small_disk(training: Training, size: str) -> Ended:
    """Runs with the folder of the run on a disk of `size`; what is on it then is copied back."""
    home = training.folder.parent
    training.folder.mkdir(exist_ok=True)
    return _run_mounted(
        training,
        'cp -a "$1/run" "$1/kept"; mount -t tmpfs -o size="$2" none "$1/run"; '
        'cp -a "$1/kept/." "$1/run"; shift 2; "$@"; code=$?; '
        'cp -a "$GDN_HOME/run/." "$GDN_HOME/kept"; exit $code',
        str(home),
        size,
        after=lambda: _replace_folder(home / "kept", training.folder),
    )


def run_read_only(training: Training, folder: Path) -> Ended:
    """Runs with a folder mounted read-only."""
    folder.mkdir(parents=True, exist_ok=True)
    script = 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"; shift; "$@"'
    return _run_mounted(training, script, str(folder))


def _run_mounted(training, script, *arguments, after=lambda: None) -> Ended:
    command = ["unshare", "-rm", "sh", "-c", script, "sh", *arguments]
    command += [sys.executable, str(SCRIPT), *training.arguments]
    environment = {
        **os.environ,
        "GDN_KERAS_CACHE": str(training.cache),
        "GDN_HOME": str(training.folder.parent),
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    after()
    return Ended(done.returncode, done.stdout)


def _replace_folder(source: Path, target: Path) -> None:
    shutil.rmtree(target)
    source.rename(target)


def damage_finished(
    finished: Training, home: Path, expected: dict[str, bytes], names: Iterable[str], kind: str
) -> None:
    """Damages files of a finished run and runs it again: all of it is mended."""
    training = finished.copy(home)
    (images,) = training.cache.glob("*.npy")
    files = [images if name == IMAGES else training.folder / name for name in names]
    for file in files:
        damage(file, kind)
    damaged = [file.read_bytes() for file in files]
    ended = training.run()
    assert ended.code == 0, ended.said
    assert training.outcome() == expected, f"{names}, {kind}: another result"
    for file, content in zip(files, damaged, strict=True):
        assert file.read_bytes() != content, f"{file}, {kind}: still damaged"


def damage_stopped(stopped: Training, home: Path, expected: dict[str, bytes], kinds=DAMAGES):
    """Damages the checkpoints of a run that was killed, and runs again.

    With one damaged, it goes on from the other; with both, it says so and touches nothing. The
    history is written anew.

    Yields:
        What was damaged and how, after each.
    """
    for kind in kinds:
        training = stopped.copy(home / f"last {kind}")
        damage(training.folder / "last.keras", kind)
        ended = training.run()
        assert ended.code == 0 and "takes its place" in ended.said, ended.said
        assert training.outcome() == expected, f"last.keras, {kind}: another result"
        yield "last.keras", kind
    training = stopped.copy(home / "history damaged")
    damage(training.folder / "history.csv", "half")
    ended = training.run()
    assert ended.code == 0, ended.said
    assert training.outcome() == expected, "history.csv: another result"
    yield "history.csv", "half"
    for names in (("last.keras", "best.keras"), ("settings.json",)):
        training = stopped.copy(home / f"{' and '.join(names)} damaged")
        for name in names:
            damage(training.folder / name, "half")
        require_refusal(training, training.run(), snapshot(training.folder), names[0])
        yield " and ".join(names), "half"


def require_refusal(training: Training, ended: Ended, before: dict[str, bytes], named: str):
    """Asserts that a run ended with a sentence that names the cause, and changed nothing."""
    assert ended.code in (1, 2), ended.said
    assert "Traceback" not in ended.said and named in ended.sentence, ended.said
    after = snapshot(training.folder)
    assert {k: v for k, v in after.items() if not k.startswith("logs")} == {
        k: v for k, v in before.items() if not k.startswith("logs")
    }, "files were changed"


DISKS = tuple(f"{size}k" for size in range(20, 260, 40))


def fill_disk(stopped: Training, home: Path, expected: dict[str, bytes], sizes: Iterable[str]):
    """Runs on disks that become full; then, with the same files, on one that has room.

    Yields:
        The size and the sentence of the run that met the full disk.
    """
    for size in sizes:
        training = stopped.copy(home / size)
        shutil.rmtree(training.folder)
        ended = run_on_small_disk(training, size)
        assert ended.code in (1, 2), ended.said
        assert "Traceback" not in ended.said and "space" in ended.sentence, ended.said
        assert training.run().code == 0
        assert training.outcome() == expected
        assert not training.leftovers(), training.leftovers()
        yield size, ended.sentence


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for line in table(Path(home), options.kills, options.seed):
            print(line, flush=True)
    return 0


def table(home: Path, kills: int, seed: int) -> Iterable[str]:
    """The lines of a table in Markdown: what was done, how often, what came of it."""
    yield "| fault | tried | left half-written files | lost |"
    yield "|---|---|---|---|"
    finished, stopped = Training(home / "finished"), Training(home / "stopped")
    began = time.monotonic()
    assert finished.run().code == 0
    duration, expected = time.monotonic() - began, finished.outcome()
    done = kill_repeatedly(home / "kills", expected, kills, duration, seed)
    for name in dict.fromkeys(name for name, _ in done):
        left = [half for other, half in done if other == name]
        yield f"| killed {name} | {len(left)} | {sum(left)} | nothing |"
    for i, (name, kind) in enumerate(FINISHED_DAMAGES):
        damage_finished(finished, home / f"damaged {i}", expected, [name], kind)
    yield f"| a damaged file of a finished run | {len(FINISHED_DAMAGES)} | | nothing |"
    stopped.stop_after(3)
    trials = list(damage_stopped(stopped, home / "checkpoints", expected))
    yield f"| a damaged file of a stopped run | {len(trials)} | | nothing |"
    if can_mount():
        for size, sentence in fill_disk(stopped, home / "disk", expected, DISKS):
            yield f"| a disk of {size}, full | 1 | | nothing: {sentence} |"


if __name__ == "__main__":
    sys.exit(main())
