"""Trains a network on your own pictures: a folder with one sub-folder for each class.

    python examples/train_folder.py PICTURES --output runs/mine
    python examples/predict.py runs/mine/saved_model picture.png

180 photographs of traffic signs in three classes take under a minute on 2 cores, with report and
export. A fifth of the pictures is held out; the network is tested on them at sizes that it was not
trained on. Everything is in the output folder, with report.md as its first page.

Options of the data set, and other data sets, those that a module of yours registers included:

    python examples/train_folder.py PICTURES --option frame=96 --option color=False
    python examples/train_folder.py MNIST --data mnist_large_scale --output runs/mnist
    python examples/train_folder.py GTSRB --plugin benchmarks/paper_data --data gtsrb
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from gdn_keras.datasets import (
    ImageData,
    dataset_names,
    load_dataset,
    picture_heights,
    suggest_scales,
)
from gdn_keras.training import Classification, Recipe, Task
from gdn_keras.training.command_line import (
    data_flag,
    data_options,
    recipe_of,
    recipe_parser,
    run_command,
)


def parser() -> argparse.ArgumentParser:
    """The flags of every training, and those of the data."""
    flags = recipe_parser(__doc__, "runs/folder", Recipe, epochs=20, batch_size=20)
    flags.usage = "%(prog)s PATH [flags]"
    flags.add_argument("path", metavar="PATH", help="folder of the pictures, or of the data set")
    flag = flags.add_argument_group("data").add_argument
    flag("--data", default="folder", metavar="NAME", help=f"one of {', '.join(dataset_names())}")
    text = "module or package to import first, which registers further data sets"
    flag("--plugin", type=Path, metavar="PATH", help=text)
    data_flag(flag)
    return flags


def load(options: argparse.Namespace) -> ImageData:
    """The images that the flags ask for."""
    given = data_options(options)
    if options.plugin:
        sys.path.insert(0, str(options.plugin.resolve().parent))
        importlib.import_module(options.plugin.stem)
    try:
        return load_dataset(options.data, options.path, **given)
    except TypeError as error:  # an option that the data set does not have
        raise ValueError(
            f"`option` must be one of the data set {options.data!r}: {error}"
        ) from None


def tasks_of(options: argparse.Namespace) -> dict[str, Task]:
    """The task of the run; scale channels follow from the heights of the pictures."""
    data, changes = load(options), {}
    if options.data == "folder":
        frame = max(data.train.images.shape[1:3])
        heights = picture_heights(options.path, frame)
        if options.scales is None:
            if options.train_scales is None:
                changes["train_scales"] = suggest_scales(heights)
            sizes = [1.0, *data.test_sizes]
            reach = [heights.min() * min(sizes), heights.max() * max(sizes)]
            changes["scales"] = suggest_scales(np.minimum(reach, frame))
        if options.augment is not False:
            changes["augment"] = (float(np.median(heights)), float(frame))
    elif options.augment:
        frame = float(max(data.train.images.shape[1:3]))
        changes["augment"] = (data.extent or frame, frame)
    return {"": Classification(recipe_of(options, Recipe, **changes), data)}


if __name__ == "__main__":
    sys.exit(run_command(parser(), tasks_of))
