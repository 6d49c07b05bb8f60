"""From the flags of a command to its results.

An example adds the flags of its data to `recipe_parser`, and says what they ask for.
"""

import argparse
import ast
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras.datasets import ImageData
from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.models.gaussian_derivative_network import READOUTS
from gdn_keras.reporting import Reporter
from gdn_keras.scale_space import DEFAULT_CONE, SAMPLINGS
from gdn_keras.training.distribution import abandon, is_first, join, leave, prepare_together
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.job import TrainingJob, prepare_training, run_training, train
from gdn_keras.training.recipe import LOSSES, NETWORKS, PRECISIONS, Recipe
from gdn_keras.training.report import summarize_run
from gdn_keras.training.run_folder import (
    ACCURACY,
    HISTORY,
    LOGS,
    MODEL,
    PICTURES,
    REPORT,
    SAVED_MODEL,
)

Run = tuple[Recipe, ImageData]

_FILES = {
    REPORT: "one page with everything on it",
    PICTURES: "its pictures",
    ACCURACY: "accuracy at each test size (accuracy.json: confusions and selected scales too)",
    MODEL: "the trained network (best.keras: the epoch of the best validation accuracy)",
    SAVED_MODEL: "the same for TensorFlow alone, without this package",
    HISTORY: "loss and accuracy over the epochs",
    LOGS: "the same for TensorBoard",
}
_CHANNELS = ("LOW", "HIGH", "N")


def recipe_parser(
    description: str, output: str, epochs: int, network: bool = True
) -> argparse.ArgumentParser:
    """The flags of every training command.

    Args:
        description: Shown above them.
        output: Where everything goes by default.
        epochs: How many there are by default.
        network: Whether the command lets its network be chosen.
    """
    parser = argparse.ArgumentParser(
        description=description,
        usage="%(prog)s [flags]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=30, width=100
        ),
        epilog="A run that was stopped goes on when the same command is given again.",
    )
    help_text = f"where everything goes (default: {output})"
    parser.add_argument("--output", metavar="FOLDER", default=output, help=help_text)
    parser.set_defaults(compare=[], network="default", widths=None, pooling="max")
    parser.set_defaults(scales=None, train_scales=None, cone=DEFAULT_CONE, readout="center")
    parser.set_defaults(order=2, zero_order=False, residual=False, scale_dropout=0.0, surround=0.0)
    flag = parser.add_argument_group("network").add_argument
    if network:
        names = ", ".join(NETWORKS)
        flag("--network", metavar="NAME", help=f"widths of the layers, one of {names} (default)")
        flag("--widths", type=int, nargs="+", metavar="N", help="feature channels instead of its")
        text = "N scale channels, sigma_0 from LOW to HIGH (default: 0.707 8 8)"
        flag("--scales", type=float, nargs=3, metavar=_CHANNELS, help=text)
        text = "scale channels in training, where they are to be others, such as fewer"
        flag("--train-scales", type=float, nargs=3, metavar=_CHANNELS, help=text)
        flag("--pooling", choices=POOLINGS, help="over scale channels")
        text = "share of the scale channels that are left out at random in training"
        flag("--scale-dropout", type=float, metavar="SHARE", help=text)
        text = "what is read of an image: its center (default), an object anywhere, or the average"
        flag("--readout", choices=tuple(READOUTS), help=text)
        text = "let layers see brightness itself too, not only its derivatives"
        flag("--zero-order", action="store_true", help=text)
        text = "highest order of differentiation (default: 2)"
        flag("--order", type=int, choices=(1, 2, 3), help=text)
        text = "make pairs of layers after the first residual blocks"
        flag("--residual", action="store_true", help=text)
        text = f"width of the receptive cone in standard deviations (default: {DEFAULT_CONE:g})"
        flag("--cone", type=float, metavar="WIDTH", help=text)
        text = "share by which the finished network continues images at their edges (default: 0)"
        flag("--surround", type=float, metavar="SHARE", help=text)
    text = "matched: each channel on a grid of its scale; dense: the paper to the letter"
    flag("--sampling", choices=SAMPLINGS, default="matched", help=text)
    _training_flags(parser, epochs)
    return parser


def _training_flags(parser: argparse.ArgumentParser, epochs: int) -> None:
    flag = parser.add_argument_group("training").add_argument
    flag("--epochs", type=int, default=epochs, metavar="N", help=f"(default: {epochs})")
    flag(
        "--augment",
        action=argparse.BooleanOptionalAction,
        help="rotate, shear and shift training images a little, sizes kept",
    )
    text = "change the contrast of training images at random, by up to this factor"
    flag("--contrast", type=float, metavar="FACTOR", help=text)
    flag("--batch-size", type=int, default=50, metavar="N", help="(default: 50)")
    flag(
        "--learning-rate",
        type=float,
        nargs="+",
        default=[0.01],
        metavar="RATE",
        help="of the first and, by a half cosine, of the last step (default: 0.01 0.00005)",
    )
    text = "binary: cross-entropy of each class on its own, the paper's (default)"
    flag("--loss", choices=LOSSES, default="binary", help=text)
    flag("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    flag = parser.add_argument_group("machine").add_argument
    text = "half precision where it does no harm, for GPUs that are faster with it"
    flag("--mixed-precision", choices=PRECISIONS[1:], help=text)
    text = "train on all GPUs of this machine together"
    flag("--distribute", action="store_true", help=text)
    flag(
        "--cluster",
        nargs="*",
        metavar="HOST:PORT N I",
        help="train on several machines together, with KERAS_BACKEND=jax: where process 0 is, how "
        "many processes there are, and which of them this is, from 0 on; without values under "
        "Slurm and Open MPI (docs/cluster.md)",
    )
    flag("--jit", action="store_true", help="compile with XLA (GPUs; on CPUs it is slower)")


def recipe_of(options: argparse.Namespace, **changes: Any) -> Recipe:
    """The recipe that the flags ask for.

    Args:
        options: The parsed flags.
        **changes: Attributes of the recipe that a command decides itself.
    """
    first, *last = options.learning_rate
    if len(last) > 1:
        raise ValueError("`learning_rate` must be one or two values")
    values = {
        "network": options.network,
        "widths": options.widths,
        "train_scales": scales_between(options.train_scales, "train_scales"),
        "pooling": options.pooling,
        "scale_dropout": options.scale_dropout,
        "sampling": options.sampling,
        "cone": options.cone,
        "readout": options.readout,
        "surround": options.surround,
        "order": options.order,
        "zero_order": options.zero_order,
        "residual": options.residual,
        "contrast": options.contrast,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "learning_rate": first,
        "final_learning_rate": last[0] if last else 0.005 * first,
        "loss": options.loss,
        "seed": options.seed,
        "precision": options.mixed_precision or "float32",
        "distribute": options.distribute or options.cluster is not None,
        "jit": options.jit,
    }
    if options.scales:
        values["scales"] = scales_between(options.scales, "scales")
    return Recipe(**{**values, **changes})


def scales_between(values: Sequence[float] | None, name: str) -> tuple[float, ...] | None:
    """sigma_0 of scale channels from LOW, HIGH and their number."""
    if values is None:
        return None
    low, high, count = values
    if not 0 < low <= high or count != int(count) or count < 1:
        raise ValueError(
            f"`{name}` must be LOW HIGH N, with 0 < LOW <= HIGH and a whole number N of channels. "
            f"Received: {low:g} {high:g} {count:g}"
        )
    return tuple(np.geomspace(low, high, int(count)).tolist())


def data_flag(flag: Callable[..., Any]) -> None:
    """Adds the flag of options of a data set, for `data_options`.

    Args:
        flag: `add_argument` of a parser or of a group.
    """
    text = "an option of the data set, such as frame=96; may be repeated"
    flag("--option", action="append", default=[], metavar="NAME=VALUE", help=text)


def data_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of the data set, by name."""
    given = {}
    for option in options.option:
        name, equals, value = option.partition("=")
        if not equals:
            raise ValueError(f"`option` must be NAME=VALUE. Received: {option}")
        try:
            given[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            given[name] = value
    return given


def run_command(
    parser: argparse.ArgumentParser,
    runs_of: Callable[[argparse.Namespace], dict[str, Run]],
    arguments: Sequence[str] | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Parses, runs and reports.

    Args:
        parser: As from `recipe_parser`, with further flags.
        runs_of: Function from the parsed flags to recipe and data of each run, by the name of its
            folder below the output folder; the last one, "", has it all and is drawn beside the
            others.
        arguments: The command line; that of the process if `None`.
        reporter: What the runs speak through; to standard output by default.

    Returns:
        The exit code, see `exit_code`.
    """
    options = parser.parse_args(arguments)
    reporter = reporter or Reporter()

    def prepare() -> list[TrainingJob]:
        if options.cluster is not None:
            _join(options.cluster)
        return prepare_together(lambda: _prepare(options, runs_of(options), reporter))

    def run(jobs: list[TrainingJob]) -> None:
        if options.cluster is not None:
            _run_together(jobs)
            return
        for job in jobs:
            _announce(job)
            _run_and_report(job, time.monotonic())

    return abandon(exit_code(prepare, run, reporter))


def exit_code(
    prepare: Callable[[], Any], run: Callable[[Any], None], reporter: Reporter | None = None
) -> int:
    """The exit code of what a command does: `run(prepare())`, errors told in one sentence.

    Returns:
        0, or 2 for a mistake in the command, 130 after Ctrl-C, 1 for a run that had to end.
    """
    reporter = reporter or Reporter()
    try:
        jobs = prepare()
    except (ValueError, OSError, ImportError) as error:
        reporter.error(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        run(jobs)
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
    join(address, *numbers)


def _prepare(
    options: argparse.Namespace, runs: dict[str, Run], reporter: Reporter
) -> list[TrainingJob]:
    """The jobs of a command, all checked before the first begins."""
    output, folders = Path(options.output), options.compare
    if not is_first():  # the first process keeps the run, and speaks
        output, folders = Path(tempfile.mkdtemp(prefix="gdn_keras-")), []
        reporter = Reporter(io.StringIO())
    names = [Path(folder).resolve().name for folder in folders]
    compare = {
        name if names.count(name) == 1 else folder: folder
        for name, folder in zip(names, folders, strict=True)
    }
    jobs = []
    for name, (recipe, data) in runs.items():
        folder = output / name.replace(" ", "_") if name else output
        beside = {} if name else compare
        jobs.append(prepare_training(recipe, data, folder, beside, reporter))
    beside = {name: job.folder for name, job in zip(runs, jobs, strict=True) if name}
    return [*jobs[:-1], jobs[-1]._replace(compare={**beside, **jobs[-1].compare})]


def _run_together(jobs: list[TrainingJob]) -> None:
    """All processes train; the first one does the rest, for which it needs no other."""
    began = time.monotonic()
    for job in jobs:
        _announce(job)
        train(job)
    leave()
    if is_first():
        for job in jobs:
            _run_and_report(job, began)


def _announce(job: TrainingJob) -> None:
    recipe, data = job.recipe, job.data
    if job.finished:
        job.reporter.line(
            f"The run in {job.folder} was finished before. Its pictures and report are drawn "
            "again; to train anew, give another folder or remove this one."
        )
        return
    sizes = ", ".join(f"{size:g}" for size in data.train_sizes)
    job.reporter.line(
        f"{job.folder}: the {recipe.network} network with {len(recipe.training_scales)} scale "
        f"channel{'s' * (len(recipe.training_scales) > 1)}, on {len(data.train.labels)} images of "
        f"{len(data.class_names)} classes{f' at size {sizes}' if sizes else ''}, {recipe.epochs} "
        "epochs."
    )


def _run_and_report(job: TrainingJob, began: float) -> None:
    results = run_training(job)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    job.reporter.line(f"\n{summarize_run(results)} ({minutes} min {seconds} s)\n")
    for name, content in _FILES.items():
        if (job.folder / name).exists():
            job.reporter.line(f"  {job.folder / name}: {content}")
    job.reporter.line()
