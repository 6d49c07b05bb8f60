"""How long a training step waits for its data.

    python benchmarks/pipeline.py

It takes half a minute. A step of a known length (`--step`, in milliseconds; a sleep, so that what
is measured is the pipeline and not a network) takes batches of 50 from the cached images, and from
28×28 digits that are transformed on the fly. Printed are the time that the pipeline alone needs for
a batch and the share of a step that is spent waiting.
"""

import argparse
import tempfile
import time

from gdn_keras.datasets import (
    load_embedded_digits,
    load_large_scale,
    rescale_map,
    training_pipeline,
)


def wait_per_batch(pipeline, batches: int, step: float) -> float:
    """Mean time in seconds that `next` takes when every batch is followed by a step."""
    iterator = iter(pipeline)
    for _ in range(10):
        next(iterator)
    waited = 0.0
    for _ in range(batches):
        time.sleep(step)
        start = time.perf_counter()
        next(iterator)
        waited += time.perf_counter() - start
    return waited / batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=float, default=50, help="milliseconds")
    parser.add_argument("--batches", type=int, default=100)
    options = parser.parse_args()
    digits = load_embedded_digits()
    with tempfile.TemporaryDirectory() as directory:
        cached = load_large_scale("train", 2, cache_dir=directory, verbose=False)
        pipelines = {
            "cached": training_pipeline(*cached),
            "on the fly": training_pipeline(*digits[:2], transform=rescale_map(2)),
        }
        for name, pipeline in pipelines.items():
            alone = wait_per_batch(pipeline, options.batches, 0)
            waiting = wait_per_batch(pipeline, options.batches, options.step / 1e3)
            share = waiting / (options.step / 1e3 + waiting)
            print(
                f"{name:10}: {1e3 * alone:.1f} ms for a batch of 50; with a step of "
                f"{options.step:g} ms {1e3 * waiting:.2f} ms of waiting, {share:.1%}"
            )


if __name__ == "__main__":
    main()
