"""Average precision of the shipped `nuclei` in bfloat16, beside single precision.

    python benchmarks/detectors/bfloat16.py NUCLEI --output FILE

On the pictures that its training held out, at half to twice their magnification. Layers compute in
bfloat16 up to the last ReLU; scores, boxes and decoding stay in single precision, as they do in a
network of dtype="mixed_bfloat16". 3 minutes on one core. Writes a CSV file.
"""

import argparse
import csv
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

from gdn_keras.detection import Detector
from gdn_keras.models import scale_channels_of
from gdn_keras.training.picture_detection import PictureDetection, PictureRecipe
from gdn_keras.training.picture_precision import answers, measure

RECIPE = {"split": "696x520"}  # what the training of `nuclei` held out follows from this
COLUMNS = "objects", "ap50", "ap75", "ap", "precision", "recall", "counted", "size_error"


def to_bfloat16(detector: Detector) -> None:
    """Has the layers of a detector compute in bfloat16, up to its last ReLU."""
    channels = scale_channels_of(detector)
    layers = channels.shared_layers
    last = max(k for k, layer in enumerate(layers) if isinstance(layer, keras.layers.ReLU))
    for layer in (channels, *layers[: last + 1]):
        layer.dtype_policy = keras.DTypePolicy("mixed_bfloat16")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", metavar="NUCLEI", help="folder of pictures and boxes")
    parser.add_argument("--output", type=Path, metavar="FILE", help="CSV file for the results")
    options = parser.parse_args(arguments)
    task, rows = PictureDetection(PictureRecipe(**RECIPE), options.pictures), []
    for precision in ("float32", "bfloat16"):
        detector = Detector.from_preset("nuclei")
        if precision == "bfloat16":
            to_bfloat16(detector)
        found = answers(detector, task.held_out)
        measured = measure(found, detector.class_names, detector.confidence_threshold)
        for row in measured["magnifications"]:
            values = {name: f"{row[name]:.4g}" for name in COLUMNS}
            name, size = f"nuclei in {precision}", f"{row['magnification']:.3g}"
            rows.append({"name": name, "seed": 0, "size": size, **values})
            print(f"{name}, magnification {size}: {values}", flush=True)
    if options.output:
        with options.output.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
