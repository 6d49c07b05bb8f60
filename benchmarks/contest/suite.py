"""What `benchmarks/run.py` measures, in which order."""

import datetime
import importlib.util
import os
import platform
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import product

from contest.processes import Process
from contest.progress import Progress
from contest.tasks import CONTESTANTS, MODES, WIDTHS, Task

SAMPLINGS = ("matched", "dense")


@dataclass(frozen=True)
class Settings:
    """What to measure.

    Attributes:
        nets: Names of networks in `widths`.
        contestants: Names in `CONTESTANTS`; those whose libraries are missing are left out.
        side: Height and width of the images.
        channels: Number of scale channels.
        rounds: Turns of each contestant.
        turn: Seconds of a turn (one step at least).
        literal_batch, dense_batch, batch: Images at a time, for the literal contestants, dense
            sampling, and the others.
        memory_batch: Images at a time, for everyone, where memory is measured.
        extras: Also measure memory, covariance and growth.
        sides, counts, batches: Where the growth is measured.
        dense_limit: Largest batch for dense sampling.
        truncation: Of the literal contestants' kernels.
        product_size: Side of the matrices whose product is the machine's limit.
        widths: Feature channels of the networks.
    """

    nets: tuple[str, ...] = ("large", "default")
    contestants: tuple[str, ...] = tuple(CONTESTANTS)
    side: int = 112
    channels: int = 8
    rounds: int = 5
    turn: float = 2.0
    literal_batch: int = 4
    dense_batch: int = 10
    batch: int = 50
    memory_batch: int = 8
    extras: bool = True
    sides: tuple[int, ...] = (56, 112, 224, 448)
    counts: tuple[int, ...] = (4, 6, 8, 10, 12, 16)
    batches: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    dense_limit: int = 20
    truncation: float = 1e-4
    product_size: int = 2048
    widths: dict = field(default_factory=lambda: WIDTHS)

    def task(self, contestant: str, mode: str, net: str, **changes) -> Task:
        """The contestant's task in the main table, or one that differs in some value."""
        batch = self.batch
        if contestant.startswith("literal"):
            batch = self.literal_batch
        elif contestant == "dense":
            batch = self.dense_batch
        widths = tuple(self.widths[net])
        task = Task(contestant, mode, widths, self.side, self.channels, batch, self.truncation)
        return replace(task, **changes)


def run_suite(settings: Settings, start=Process, save=lambda results: None) -> dict:
    """Measure everything; the result is what `benchmark.json` holds.

    Args:
        settings: What to measure.
        start: Function of a framework's name that starts a measuring process.
        save: Called with the results so far after each part.
    """
    present = tuple(name for name in settings.contestants if _installed(name))
    settings = replace(settings, contestants=present)
    results = {"machine": describe_machine(), "settings": asdict(settings)}
    results["load_before"] = _load()
    sections = _sections(settings)
    turns = settings.rounds * sum(map(len, sections.values()))
    if settings.extras:
        turns += len(present) + len(SAMPLINGS)
    progress = Progress(turns)
    with ExitStack() as stack:
        progress.say("starting one process for each contestant")
        processes = {name: stack.enter_context(start(CONTESTANTS[name][0])) for name in present}
        results["versions"] = {"python": platform.python_version()}
        for process in processes.values():
            results["versions"].update(process.ask("versions"))
        rates = _Rates(processes["matched"], settings.product_size)
        for name, tasks in sections.items():
            results[name] = alternate(processes, tasks, settings, progress, rates)
            results["matrix_products"] = rates.best
            save(results)
    if settings.extras:
        results["memory"] = measure_memory(settings, progress, start)
        save(results)
        results["covariance"] = measure_covariance(settings, progress, start)
    results["load_after"] = _load()
    progress.end()
    return results


def _sections(settings: Settings) -> dict[str, list[Task]]:
    """The tasks of the main table and of the growth curves, in the order of measuring."""
    sections = {}
    for net, mode in product(settings.nets, MODES):
        sections[f"{net} {mode}"] = [settings.task(c, mode, net) for c in settings.contestants]
    if settings.extras:
        for mode in MODES:
            sections[f"side {mode}"] = _by_side(settings, mode)
            sections[f"channels {mode}"] = _by_count(settings, mode)
            sections[f"batch {mode}"] = _by_batch(settings, mode)
    return sections


def _by_side(settings: Settings, mode: str) -> list[Task]:
    """Image sides; the larger the side, the smaller the batch, since memory ends."""
    tasks = []
    for name, side in product(SAMPLINGS, settings.sides):
        task = settings.task(name, mode, settings.nets[0])
        batch = round(task.batch * settings.side / side)
        tasks.append(replace(task, side=side, batch=min(max(batch, 1), task.batch)))
    return tasks


def _by_count(settings: Settings, mode: str) -> list[Task]:
    """Numbers of scale channels, coarser ones added."""
    return [
        settings.task(name, mode, settings.nets[0], channels=count)
        for name, count in product(SAMPLINGS, settings.counts)
    ]


def _by_batch(settings: Settings, mode: str) -> list[Task]:
    return [
        settings.task(name, mode, settings.nets[0], batch=batch)
        for name, batch in product(SAMPLINGS, settings.batches)
        if name == "matched" or batch <= settings.dense_limit
    ]


class _Rates:
    """The highest rate of large matrix products seen, measured again before every round."""

    def __init__(self, process: Process, size: int):
        self._process, self._size = process, size
        self.best = {}

    def update(self) -> None:
        for name, rate in self._process.ask("matrix_product_rate", size=self._size).items():
            self.best[name] = max(rate, self.best.get(name, 0.0))


def alternate(processes, tasks, settings, progress, rates) -> list[dict]:
    """Shortest time an image of each task, the tasks taking turns."""
    rows = [{**asdict(task), "seconds": float("inf")} for task in tasks]
    for number in range(settings.rounds):
        rates.update()
        for task, row in zip(tasks, rows, strict=True):
            progress.say(f"round {number + 1} of {settings.rounds}: {describe(task)}")
            answer = processes[task.contestant].ask(
                "measure", task=asdict(task), seconds=settings.turn
            )
            row["seconds"] = min(row["seconds"], answer["seconds"])
            row["flops"] = answer["flops"]
            progress.advance(f"{1e3 * row['seconds']:.4g} ms an image")
    for process in processes.values():
        process.ask("clear")
    return rows


def describe(task: Task) -> str:
    name = CONTESTANTS[task.contestant][1]
    size = f"{task.batch} of {task.side}×{task.side}, {task.channels} channels"
    return f"{name}, {'-'.join(map(str, task.widths))}, {task.mode}, {size}"


def measure_memory(settings: Settings, progress: Progress, start=Process) -> dict:
    """Peak memory of a training step, each contestant in a fresh process."""
    found = {}
    for name in settings.contestants:
        task = settings.task(name, "training", settings.nets[0], batch=settings.memory_batch)
        progress.say(f"peak memory: {describe(task)}")
        with start(CONTESTANTS[name][0]) as process:
            process.ask("versions")
            found[name] = process.ask("memory", task=asdict(task))
        progress.advance(f"{found[name]['per_image'] / 1e6:.4g} MB an image")
    return found


def measure_covariance(settings: Settings, progress: Progress, start=Process) -> dict:
    """Covariance errors of both samplings."""
    found = {}
    with start("tensorflow") as process:
        for name in SAMPLINGS:
            task = settings.task(name, "forward", settings.nets[0])
            progress.say(f"covariance errors: {describe(task)}")
            found[name] = process.ask("covariance_errors", task=asdict(task))
            worst = max(error for errors in found[name].values() for error in errors.values())
            progress.advance(f"at most {worst:.2%}")
    return found


def describe_machine() -> dict:
    """Processor, cores, memory, system and date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _load() -> float:
    """Processes that wanted to run during the last minute, on average."""
    return round(os.getloadavg()[0], 2)


def _installed(contestant: str) -> bool:
    libraries = ("torch", "pyscsp") if CONTESTANTS[contestant][0] == "torch" else ("tensorflow",)
    return all(importlib.util.find_spec(library) for library in libraries)
