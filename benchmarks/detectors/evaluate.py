"""A trained detector on other test scenes than its training had, such as more of them.

    python benchmarks/detectors/evaluate.py saved_models/digit_detector/model.keras \
        --mnist-dir MNIST --scenes 480 --output results.json

Prints average precision and errors at each size, and writes them as JSON. A scene of 640×480 takes
half a second on 2 cores. The first scenes are those of examples/train_detector.py.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.datasets.scenes import BACKGROUNDS
from gdn_keras.detection import Detector
from gdn_keras.detection.precision import evaluate_detector
from gdn_keras.training.digit_detection import DigitRecipe
from gdn_keras.training.run_folder import load_network, write_text


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flag = parser.add_argument
    flag("model", type=Path, help="file of a detector of digits")
    flag("--output", type=Path, required=True, metavar="FILE", help="for the results")
    flag("--mnist-dir", metavar="FOLDER", help="of MNIST (default: digits of the package)")
    flag("--scenes", type=int, default=480, metavar="N", help="how many (default: 480)")
    flag("--background", choices=BACKGROUNDS, default="empty", help="(default: empty)")
    options = parser.parse_args(arguments)
    try:
        recipe = DigitRecipe(
            mnist_dir=options.mnist_dir,
            test_scenes=options.scenes,
            background=options.background,
        )
        detector = load_network(options.model)
        if not isinstance(detector, Detector):
            raise ValueError(f"`model` must be a detector. Received: {options.model}")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    (everything, *sizes), slope = evaluate_detector(detector, recipe.test_set(), recipe.test_sizes)
    results = {
        "model": options.model.name,
        "scenes": options.scenes,
        "background": options.background,
        "slope": slope,
        "all": everything._asdict(),
        "sizes": [result._asdict() for result in sizes],
    }
    write_text(options.output, json.dumps(results, indent=1) + "\n")
    for row in sizes:
        print(
            f"size {row.size:5.3g}: {row.objects} objects, average precision {row.ap50:.3f} at "
            f"IoU 0.5, {row.ap75:.3f} at 0.75"
        )


if __name__ == "__main__":
    main()
