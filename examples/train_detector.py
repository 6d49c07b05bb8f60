"""Trains a detector on digits of one size and tests it at sizes from a half to eight.

    python examples/train_detector.py

No network, no GPU, nothing to prepare: about 16 minutes on 2 cores, with digits that come with the
package. Scenes of 96×96 pixels with 4 to 14 digits of size 1, then the same weights on scenes of
640×480 with digits of 17 sizes, a quarter of an octave apart. Everything is in runs/detector, with
report.md as its first page: average precision at each size, its curves, pictures with boxes,
model.keras and a SavedModel, both for examples/detect.py. It needs
`pip install gdn_keras[detection,plots]`.

More of them, each after `python examples/train_detector.py`:

    --mnist-dir MNIST --output runs/mnist               all of MNIST, as the shipped detectors
    --background clutter --output runs/clutter          on gradients, noise, textures, fragments
    --train-size 2 --train-frame 192 --output runs/size2   another training size
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.training import Task
from gdn_keras.training.command_line import recipe_of, recipe_parser, run_command
from gdn_keras.training.detection_task import Detection, DetectorRecipe


def parser() -> argparse.ArgumentParser:
    """The flags of every training of a detector, and the size of its digits."""
    flags = recipe_parser(__doc__, "runs/detector", DetectorRecipe)
    text = "size of the digits in training (default: 1)"
    flags.add_argument("--train-size", type=float, default=1.0, metavar="SIZE", help=text)
    return flags


def tasks_of(options: argparse.Namespace) -> dict[str, Task]:
    """The task of the run."""
    size = options.train_size
    changes = {"train_sizes": (size,)}
    if options.train_scales is None:  # the channels of the training go along with its size
        changes["train_scales"] = tuple(size * scale for scale in DetectorRecipe.train_scales)
    return {"": Detection(recipe_of(options, DetectorRecipe, **changes))}


if __name__ == "__main__":
    sys.exit(run_command(parser(), tasks_of))
