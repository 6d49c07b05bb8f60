"""Trains a detector on your own annotated pictures, or on digits.

    python examples/train_detector.py PICTURES --output runs/mine
    python examples/detect.py runs/mine/model.keras picture.png

PICTURES is a folder with boxes in Pascal VOC (.xml), COCO (.json) or YOLO (.txt) files, which are
found by themselves. Annotate at one magnification: the detector works at others too. Resolution,
scales and crops follow from the sizes of the boxes, and are printed with the sizes that the
detector will find. 15 % of the pictures are held out to test with, at half to twice their
magnification. 90 pictures with 9 000 boxes take about 10 minutes.

    --validation names.txt      hold these pictures out, or another share than 0.15
    --group '^[a-z]+_[0-9]+'    files with the same match belong together, and are not divided
    --size-range 32 48          learn from boxes of these sizes alone, and ignore others
    --turns, --no-mirror        what objects may look like
    --overlapping               objects may stand in front of one another

Without PICTURES it trains on digits of one size, which come with the package, and tests at sizes
from a half to eight: scenes of 96×96 pixels with 4 to 14 digits of size 1 on clutter, then the same
weights on scenes of 640×480. About 20 minutes on 2 cores.

    --mnist-dir MNIST --output runs/mnist               all of MNIST, as the shipped detector
    --background empty --output runs/empty              not on gradients, noise, textures, fragments
    --train-size 2 --train-frame 192 --output runs/size2   another training size

Everything is in the output folder, with report.md as its first page: average precision at each
magnification and size, pictures with boxes, model.keras and a SavedModel, both for
examples/detect.py. It needs `pip install gdn_keras[detection,plots]`.
"""

import argparse
import os
import sys
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.training import Task
from gdn_keras.training.command_line import recipe_of, recipe_parser, run_command
from gdn_keras.training.digit_detection import DigitDetection, DigitRecipe
from gdn_keras.training.picture_detection import PictureDetection, PictureRecipe


def parser(of_pictures: bool = False) -> argparse.ArgumentParser:
    """The flags of every training of a detector, and those of pictures or of digits."""
    recipe = PictureRecipe if of_pictures else DigitRecipe
    flags = recipe_parser(__doc__, "runs/detector", recipe)
    flags.usage = "%(prog)s [PICTURES] [flags]    (PICTURES --help: the flags for pictures)"
    if of_pictures:
        flags.add_argument("pictures", metavar="PICTURES", help="folder of pictures and boxes")
    else:
        text = "size of the digits in training (default: 1)"
        flags.add_argument("--train-size", type=float, default=1.0, metavar="SIZE", help=text)
    return flags


def tasks_of(options: argparse.Namespace) -> dict[str, Task]:
    """The task of the run."""
    if hasattr(options, "pictures"):
        task = PictureDetection(recipe_of(options, PictureRecipe), options.pictures)
        print(*task.notes(), sep="\n", flush=True)
        return {"": task}
    size = options.train_size
    changes = {"train_sizes": (size,)}
    if options.train_scales is None:  # the channels of the training go along with its size
        changes["train_scales"] = tuple(size * scale for scale in DigitRecipe.train_scales)
    return {"": DigitDetection(recipe_of(options, DigitRecipe, **changes))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, tests and says how to use the detector."""
    arguments = sys.argv[1:] if arguments is None else arguments
    flags = parser(of_pictures=bool(arguments) and not arguments[0].startswith("-"))
    code = run_command(flags, tasks_of, arguments)
    if code == 0:
        output = flags.parse_args(arguments).output
        print(f"python examples/detect.py {os.path.join(output, 'model.keras')} PICTURE")
    return code


if __name__ == "__main__":
    sys.exit(main())
