"""The flags of the training examples."""

import argparse

from gdn_keras.layers.scale_pooling import POOLINGS
from gdn_keras.scale_space import SAMPLINGS
from gdn_keras.training.settings import DATA, LOSSES, NETWORKS, PRECISIONS

_SAMPLING = "matched: each channel on a grid of its scale; dense: the paper to the letter"


def large_scale_parser(description: str) -> argparse.ArgumentParser:
    """Flags of the MNIST Large Scale experiment."""
    parser = _parser(description, "runs/large_scale")
    what = parser.add_argument_group("experiment")
    what.add_argument(
        "--paper",
        action="store_true",
        help="the paper's full setting: 50 000 digits (see --mnist-dir), 20 epochs, all 17 test "
        "sizes with 10 000 digits each; for a GPU",
    )
    what.add_argument(
        "--train-size",
        type=float,
        nargs="+",
        metavar="SIZE",
        default=[2.0],
        help="size to train on, or several (default: 2; the paper: 1, 2 or 4)",
    )
    what.add_argument(
        "--test-sizes",
        type=float,
        nargs="+",
        metavar="SIZE",
        help="sizes to test at (default: 17, from 1/2 to 8, a factor 2^(1/4) apart)",
    )
    what.add_argument(
        "--single-channel",
        action="store_true",
        help="the contrast network: one scale channel, sigma_0 = training size",
    )
    what.add_argument(
        "--with-single-channel",
        action="store_true",
        help="train that one too, in OUTPUT/single_channel, and draw its curve beside",
    )
    what.add_argument(
        "--compare",
        nargs="+",
        metavar="FOLDER",
        default=[],
        help="draw the curves of these finished runs beside this one's",
    )
    _network_flags(parser)
    _data_flags(parser)
    _training_flags(parser, epochs=10)
    return parser


def mnist_parser(description: str) -> argparse.ArgumentParser:
    """Flags of the experiment on the original MNIST."""
    parser = _parser(description, "runs/mnist")
    network = parser.add_argument_group("network")
    network.add_argument(
        "--sigma", type=float, default=0.9, help="sigma_0 of the one scale channel (default: 0.9)"
    )
    network.add_argument("--sampling", choices=SAMPLINGS, default="matched", help=_SAMPLING)
    _data_flags(parser, frames=False)
    _training_flags(parser, epochs=20)
    return parser


def _parser(description, output):
    parser = argparse.ArgumentParser(
        description=description,
        usage="%(prog)s [flags]",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, 30, width=100),
        epilog="A run that was stopped goes on when the same command is given again.",
    )
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        default=output,
        help=f"where everything goes (default: {output})",
    )
    return parser


def _network_flags(parser):
    group = parser.add_argument_group("network")
    names = ", ".join(NETWORKS)
    group.add_argument(
        "--network",
        metavar="NAME",
        default="default",
        help=f"widths of the layers, one of {names} (default: default)",
    )
    group.add_argument(
        "--widths", type=int, nargs="+", metavar="N", help="feature channels, other than its own"
    )
    group.add_argument(
        "--scales",
        type=float,
        nargs=3,
        metavar=("LOW", "HIGH", "N"),
        help="N scale channels, sigma_0 from LOW to HIGH (default: 0.707 8 8)",
    )
    group.add_argument(
        "--train-scales",
        type=float,
        nargs=3,
        metavar=("LOW", "HIGH", "N"),
        help="scale channels in training, where they are to be others, such as fewer",
    )
    group.add_argument("--pooling", choices=POOLINGS, default="max", help="over scale channels")
    group.add_argument("--sampling", choices=SAMPLINGS, default="matched", help=_SAMPLING)


def _data_flags(parser, frames=True):
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data",
        choices=DATA,
        help="embedded: 3 600 training and 1 000 test digits in the package (default); mnist: all "
        "of MNIST, from --mnist-dir; tfds: from TensorFlow Datasets"
        + ("; official: the published Large Scale files, from --mnist-dir" if frames else ""),
    )
    group.add_argument("--mnist-dir", metavar="FOLDER", help="folder of the MNIST files")
    group.add_argument("--digits", type=int, metavar="N", help="training digits (default: all)")
    group.add_argument("--test-digits", type=int, metavar="N", help="test digits (default: all)")
    if frames:
        group.add_argument(
            "--frame", type=int, default=112, metavar="PIXELS", help="height and width (112)"
        )
        group.add_argument(
            "--train-frame",
            type=int,
            metavar="PIXELS",
            help="height and width in training, where they are to be others, such as smaller",
        )


def _training_flags(parser, epochs):
    group = parser.add_argument_group("training")
    group.add_argument("--epochs", type=int, metavar="N", help=f"(default: {epochs})")
    parser.set_defaults(default_epochs=epochs, compare=[], with_single_channel=False)
    group.add_argument(
        "--augment",
        action=argparse.BooleanOptionalAction,
        help="rotate, shear and shift training images a little and cut some to smaller frames, "
        "sizes kept (default: with the digits in the package, which are few)",
    )
    group.add_argument("--batch-size", type=int, default=50, metavar="N", help="(default: 50)")
    group.add_argument(
        "--learning-rate",
        type=float,
        nargs="+",
        default=[0.01],
        metavar="RATE",
        help="of the first and, by a half cosine, of the last step (default: 0.01 0.00005)",
    )
    group.add_argument(
        "--loss",
        choices=LOSSES,
        default="binary",
        help="binary: cross-entropy of each class on its own, the paper's (default)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    machine = parser.add_argument_group("machine")
    machine.add_argument(
        "--mixed-precision",
        choices=PRECISIONS[1:],
        help="half precision where it does no harm, for GPUs that are faster with it",
    )
    machine.add_argument(
        "--distribute", action="store_true", help="train on all GPUs of this machine together"
    )
    machine.add_argument(
        "--cluster",
        nargs="*",
        metavar="HOST:PORT N I",
        help="train on several machines together, with KERAS_BACKEND=jax: where process 0 is, how "
        "many processes there are, and which of them this is, from 0 on; without values under "
        "Slurm and Open MPI (docs/cluster.md)",
    )
    machine.add_argument(
        "--jit", action="store_true", help="compile with XLA (GPUs; on CPUs it is slower)"
    )
