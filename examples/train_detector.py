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
import time
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="A run that was stopped goes on when the same command is given again.",
    )
    add = flags.add_argument
    add("--output", metavar="FOLDER", default="runs/detector", help="(runs/detector)")
    add("--mnist-dir", metavar="FOLDER", help="all of MNIST, instead of the package's digits")
    add("--background", default="empty", help="empty or clutter (empty)")
    add("--train-size", type=float, default=1.0, metavar="SIZE", help="(1)")
    add("--train-frame", type=int, default=96, metavar="PIXELS", help="(96)")
    add("--widths", type=int, nargs="+", default=[12, 16, 24, 32, 64], metavar="N")
    add("--batch-size", type=int, default=8, metavar="N", help="scenes in a batch (8)")
    add("--steps", type=int, default=100, metavar="N", help="batches in an epoch (100)")
    add("--epochs", type=int, default=36, metavar="N", help="(36)")
    add("--learning-rate", type=float, default=0.01, metavar="RATE", help="(0.01)")
    add("--seed", type=int, default=0, metavar="N", help="(0)")
    add("--test-scenes", type=int, default=120, metavar="N", help="(120)")
    return flags


def settings_of(options: argparse.Namespace):
    """The settings that the flags ask for."""
    from gdn_keras.detection.settings import DetectorSettings

    return DetectorSettings(
        widths=options.widths,
        # The channels of the training go along with its size.
        train_scales=[options.train_size * scale for scale in DetectorSettings.train_scales],
        train_sizes=[options.train_size],
        train_frame=options.train_frame,
        background=options.background,
        mnist_dir=options.mnist_dir,
        batch_size=options.batch_size,
        steps=options.steps,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        final_learning_rate=0.005 * options.learning_rate,
        seed=options.seed,
        test_scenes=options.test_scenes,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses, runs and prints; the exit code is that of examples/train_large_scale.py."""
    options = parser().parse_args(arguments)
    from gdn_keras.detection.job import FILES, TrainingStopped, run_detection, summary

    began = time.monotonic()
    try:
        results = run_detection(settings_of(options), options.output)
    except TrainingStopped as stop:
        print(f"\n{stop}", file=sys.stderr)
        return 130 if stop.interrupted else 1
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"\n{summary(results)} ({minutes} min {seconds} s)\n")
    for name, content in FILES.items():
        print(f"  {os.path.join(options.output, name)}: {content}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
