"""Finds objects, or classes, in more pictures than one machine takes, on Apache Beam.

    python examples/detect_many.py 'pictures/*.png' --model runs/detector/model.keras --output found

Writes found/detections-*.jsonl, a line a picture as `examples/detect.py --json` prints it, and
found/errors-*.jsonl for pictures that cannot be used. With a classifier, found/classes-*.jsonl
holds lines as `examples/predict.py --json` prints them. The model is a .keras file or the folder of
a SavedModel. Two processes on this machine by default; further options are Beam's own, for Spark,
Flink or a cloud runner, whose workers must find the model at the path given:

    python examples/detect_many.py 'gs://bucket/*.jpg' --model /models/signs --output gs://… \
        --runner=DataflowRunner --project=… --region=…

It needs `pip install gdn_keras[beam,detection]`. A folder that holds results is left alone.
"""

import argparse
import os
import sys
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses and runs: 0, or 2 for a mistake."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pattern", help="image files")
    parser.add_argument("--model", required=True, help=".keras file or folder of a SavedModel")
    parser.add_argument("--output", required=True, metavar="FOLDER")
    parser.add_argument("--enlarge", type=int, default=1, metavar="N", help="see detect.py")
    parser.add_argument("--invert", action="store_true", help="dark becomes light")
    options, beam_options = parser.parse_known_args(arguments)
    try:
        from gdn_keras.serving.beam import predict_many

        reading = {"enlarge": options.enlarge, "invert": options.invert}
        predict_many(options.pattern, options.model, options.output, beam_options, **reading)
    except (OSError, ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
