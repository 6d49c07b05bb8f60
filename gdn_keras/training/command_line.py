"""From the flags of a command to its results.

An example adds the flags of its data to `recipe_parser`, and says what they ask for.
"""

import argparse
import ast
import contextlib
import dataclasses
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gdn_keras.reporting import Reporter
from gdn_keras.training import distribution
from gdn_keras.training.engine import Run
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.recipe import TrainingRecipe
from gdn_keras.training.run_folder import shown
from gdn_keras.training.task import Task

_GROUPS = ("network", "training", "machine", "data")

SomeRecipe = TypeVar("SomeRecipe", bound=TrainingRecipe)


def help_formatter(prog: str) -> argparse.HelpFormatter:
    """Help of commands: descriptions as they are written, and short columns of flags."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=100)


def recipe_parser(
    description: str | None, output: str, recipe: type[TrainingRecipe], **defaults: Any
) -> argparse.ArgumentParser:
    """The flags of a training command, from the fields of its recipe, with these `defaults`."""
    parser = argparse.ArgumentParser(
        description=description,
        usage="%(prog)s [flags]",
        formatter_class=help_formatter,
        epilog="A run that was stopped goes on when the same command is given again.",
    )
    text = f"where everything goes (default: {output})"
    parser.add_argument("--output", metavar="FOLDER", default=output, help=text)
    parser.set_defaults(compare=[])
    groups = {name: parser.add_argument_group(name) for name in _GROUPS}
    for field in dataclasses.fields(recipe):
        about = field.metadata
        if about["flag"] is None:
            continue
        flag = about["flag"] or f"--{field.name.replace('_', '-')}"
        default = defaults.get(field.name, field.default)
        text = recipe.texts[field.name] + (f" (default: {shown(default)})" if default else "")
        own = {"action": "store_true"} if field.default is False else about["argument"]
        own = {"help": text, **own, "dest": field.name, "default": defaults.get(field.name)}
        groups[about["group"]].add_argument(flag, **own)
    text = (
        "train on several machines together, with KERAS_BACKEND=jax: where process 0 is, how many "
        "processes there are, and which of them this is, from 0 on; without values under Slurm and "
        "Open MPI (docs/cluster.md)"
    )
    groups["machine"].add_argument("--cluster", nargs="*", metavar="HOST:PORT N I", help=text)
    return parser


def recipe_of(options: argparse.Namespace, recipe: type[SomeRecipe], **changes: Any) -> SomeRecipe:
    """The recipe that parsed flags ask for; `changes` are fields that a command decides itself."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(recipe):
        value, parse = getattr(options, field.name, None), field.metadata["parse"]
        if field.metadata["flag"] is not None and value is not None:
            values[field.name] = parse(field.name, value) if parse else value
    if options.cluster is not None:
        values["distribute"] = True
    return recipe(**{**values, **changes})


def data_flag(flag: Callable[..., Any]) -> None:
    """Adds, by an `add_argument`, the flag of options of a data set, for `data_options`."""
    text = "an option of the data set, such as frame=96; may be repeated"
    flag("--option", action="append", default=[], metavar="NAME=VALUE", help=text)


def data_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of the data set, by name."""
    given: dict[str, Any] = {}
    for option in options.option:
        name, equals, value = option.partition("=")
        if not equals:
            raise ValueError(f"`option` must be NAME=VALUE. Received: {option}")
        given[name] = value
        with contextlib.suppress(ValueError, SyntaxError):
            given[name] = ast.literal_eval(value)
    return given


def run_command(
    parser: argparse.ArgumentParser,
    tasks_of: Callable[[argparse.Namespace], dict[str, Task]],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parses, runs and reports; the exit code is that of `exit_code`.

    Args:
        parser: As from `recipe_parser`, with further flags.
        tasks_of: Function from the parsed flags to the task of each run, by the name of its folder
            below the output folder; the last one, "", has it all and is drawn beside the others.
        arguments: The command line; that of the process if `None`.
    """
    options, reporter = parser.parse_args(arguments), Reporter()
    cluster = options.cluster is not None

    def make() -> list[Run]:
        if cluster and distribution.process_index() > 0:  # the first one keeps the run, and speaks
            output = Path(tempfile.mkdtemp(prefix="gdn_keras-"))
            return _runs(tasks_of(options), output, [], Reporter(io.StringIO()))
        return _runs(tasks_of(options), Path(options.output), options.compare, reporter)

    def prepare() -> list[Run]:
        if not cluster:
            return make()
        _join(options.cluster)
        return distribution.prepare_together(make)

    def work(runs: list[Run]) -> None:
        began = time.monotonic()
        for run in runs:
            _announce(run)
            if cluster:
                run.train()
            else:
                began = _complete(run, began)
        if cluster:
            distribution.leave()  # the first process needs no other for the rest
            for run in runs if distribution.process_index() == 0 else ():
                began = _complete(run, began)

    return distribution.abandon(exit_code(prepare, work, reporter))


def exit_code(
    prepare: Callable[[], Any], work: Callable[[Any], None], reporter: Reporter | None = None
) -> int:
    """Does `work(prepare())`, with errors told in one sentence.

    Returns:
        0, or 2 for a mistake in the command, 130 after Ctrl-C, 1 for a run that had to end.
    """
    reporter = reporter or Reporter()
    try:
        runs = prepare()
    except (ValueError, OSError, ImportError) as error:
        reporter.error(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        work(runs)
    except TrainingStopped as stop:
        reporter.error(f"\n{stop}")
        return 130 if stop.interrupted else 1
    except OSError as error:
        reporter.error(f"\nerror: {error}")
        return 1
    return 0


def _join(values: Sequence[str]) -> None:
    try:
        address, processes, process = values or (None, None, None)
        numbers = [None if n is None else int(n) for n in (processes, process)]
    except ValueError:
        raise ValueError(
            "`cluster` must be HOST:PORT, the number of processes and the number of this one, or "
            f"nothing. Received: {' '.join(values)}"
        ) from None
    distribution.join(address, *numbers)


def _runs(
    tasks: dict[str, Task], output: Path, folders: Sequence[str], reporter: Reporter
) -> list[Run]:
    """The runs of a command, all checked before the first begins."""
    names = [Path(folder).resolve().name for folder in folders]
    compare = {
        name if names.count(name) == 1 else folder: folder
        for name, folder in zip(names, folders, strict=True)
    }
    runs = {
        name: Run(task, output / name.replace(" ", "_"), None if name else compare, reporter)
        for name, task in tasks.items()
    }
    # Results of this command are not there before it has run.
    own = {name: run.folder for name, run in runs.items() if name}
    runs[""].compare = own | runs[""].compare
    return list(runs.values())


def _announce(run: Run) -> None:
    if run.finished:
        run.reporter.line(
            f"The run in {run.folder} was finished before. Its pictures and report are drawn "
            "again; to train anew, give another folder or remove this one."
        )
    else:
        epochs = run.task.recipe.epochs
        run.reporter.line(f"{run.folder}: {run.task.description}, {epochs} epochs.")


def _complete(run: Run, began: float) -> float:
    results, now = run.complete(), time.monotonic()
    minutes, seconds = divmod(round(now - began), 60)
    run.reporter.line(f"\n{run.task.summary(results)} ({minutes} min {seconds} s)\n")
    for path, content in run.files().items():
        run.reporter.line(f"  {path}: {content}")
    run.reporter.line()
    return now
