"""Trains on digits of one size and tests at sizes from a half to eight: scale generalization.

    python examples/train_large_scale.py

No network, no GPU, nothing to prepare: about 2 minutes on 2 cores, with digits that come with the
package. Trained on size 2 only, the network recognizes at least 98 % of the test digits at every
size from 0.71 to 4. Everything is in runs/large_scale, with report.md as its first page.

More of them, each after `python examples/train_large_scale.py`:

    --with-single-channel                               the contrast too, 2 minutes more
    --train-size 1 --output runs/size1                  another training size
    --train-size 1 --train-frame 56 --train-scales 0.7071 2.8284 5 --output runs/small
                                                        train small, use large
    --paper --network large --mnist-dir MNIST --output runs/paper
                                                        the paper's experiment, for a GPU
"""

import argparse
import dataclasses
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.datasets import TEST_SIZES, ImageData, load_dataset
from gdn_keras.training import Classification, Recipe, Task
from gdn_keras.training.command_line import recipe_of, recipe_parser, run_command

DATA = "mnist_large_scale"
PIXELS = 28  # of a digit of size 1


def parser() -> argparse.ArgumentParser:
    """The flags of every training, and those of this data set."""
    flags = recipe_parser(__doc__, "runs/large_scale", Recipe)
    flag = flags.add_argument_group("experiment").add_argument
    flag(
        "--paper",
        action="store_true",
        help="the paper's full setting: 50 000 digits (see --mnist-dir), 20 epochs, all 17 test "
        "sizes with 10 000 digits each; for a GPU",
    )
    text = "size to train on, or several (default: 2; the paper: 1, 2 or 4)"
    flag("--train-size", type=float, nargs="+", metavar="SIZE", default=[2.0], help=text)
    text = "sizes to test at (default: 17, from 1/2 to 8, a factor 2^(1/4) apart)"
    flag("--test-sizes", type=float, nargs="+", metavar="SIZE", default=TEST_SIZES, help=text)
    text = "the contrast network: one scale channel, sigma_0 = training size"
    flag("--single-channel", action="store_true", help=text)
    text = "train that one too, in OUTPUT/single_channel, and draw its curve beside"
    flag("--with-single-channel", action="store_true", help=text)
    text = "draw the curves of these finished runs beside this one's"
    flag("--compare", nargs="+", metavar="FOLDER", default=[], help=text)
    flag = flags.add_argument_group("data").add_argument
    flag(
        "--data",
        choices=("embedded", "mnist", "tfds", "official"),
        help="embedded: training and test digits in the package (default); mnist: all of MNIST, "
        "from --mnist-dir; tfds: from TensorFlow Datasets; official: the published Large Scale "
        "files, from --mnist-dir",
    )
    flag("--mnist-dir", metavar="FOLDER", help="folder of the MNIST files")
    flag("--digits", type=int, metavar="N", help="training digits (default: all)")
    flag("--test-digits", type=int, metavar="N", help="test digits (default: all)")
    flag("--frame", type=int, default=112, metavar="PIXELS", help="height and width (112)")
    text = "height and width in training, where they are to be others, such as smaller"
    flag("--train-frame", type=int, metavar="PIXELS", help=text)
    return flags


def load(options: argparse.Namespace, embedded: bool) -> ImageData:
    """The images that the flags ask for."""
    if embedded and options.mnist_dir:
        raise ValueError("`data` is in the package and `mnist_dir` elsewhere: leave out one")
    source = None if options.data == "mnist" else options.data
    return load_dataset(
        DATA,
        options.mnist_dir,
        source="embedded" if embedded else source or "idx",
        train_sizes=options.train_size,
        test_sizes=options.test_sizes,
        frame=options.frame,
        train_frame=options.train_frame,
        count=options.digits,
        test_count=options.test_digits,
    )


def tasks_of(options: argparse.Namespace) -> dict[str, Task]:
    """The task of the run, and of its contrast where the flags ask for it."""
    embedded = options.data == "embedded" or not (options.data or options.mnist_dir)
    if options.paper and embedded:
        raise ValueError("`paper` needs all of MNIST: give `mnist_dir`, or tfds as `data`")
    changes = {"epochs": 20} if options.paper and options.epochs is None else {}
    if embedded if options.augment is None else options.augment:
        changes["augment"] = tuple(PIXELS * f(options.train_size) for f in (min, max))
    recipe, data = recipe_of(options, Recipe, **changes), load(options, embedded)
    task = Classification(recipe, data)
    if not (options.single_channel or options.with_single_channel):
        return {"": task}
    if len(data.train_sizes) > 1:
        raise ValueError("The single-channel network needs one training size, its sigma_0")
    single = dataclasses.replace(recipe, scales=data.train_sizes, train_scales=None)
    if options.single_channel:
        return {"": Classification(single, data)}
    return {"single channel": Classification(single, data), "": task}


if __name__ == "__main__":
    sys.exit(run_command(parser(), tasks_of))
