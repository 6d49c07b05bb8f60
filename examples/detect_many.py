"""Finds objects in more pictures than one machine takes, on Apache Beam.

    python examples/detect_many.py 'pictures/*.png' --model runs/detector/model.keras --output found

Writes found/detections-*.jsonl, a line a picture as `examples/detect.py --json` prints it, and
found/errors-*.jsonl for pictures that cannot be used. Two processes on this machine by default;
further options are Beam's own, for Spark, Flink or a cloud runner:

    python examples/detect_many.py 'gs://bucket/*.jpg' --model gs://… --output gs://… \
        --runner=DataflowRunner --project=… --region=…

It needs `pip install gdn_keras[beam,detection]`. A folder that holds detections is left alone.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses and runs: 0, or 2 for a mistake."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pattern", help="PNG or JPEG files")
    parser.add_argument("--model", required=True, help=".keras file or folder of a SavedModel")
    parser.add_argument("--output", required=True, metavar="FOLDER")
    options, beam_options = parser.parse_known_args(arguments)
    try:
        from gdn_keras.detection.beam import DETECTIONS, detect_many

        if any(Path(options.output).glob(f"{DETECTIONS}-*")):
            raise OSError(f"{options.output} holds detections; give another folder with --output")
        detect_many(options.pattern, options.model, options.output, beam_options)
    except (OSError, ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
