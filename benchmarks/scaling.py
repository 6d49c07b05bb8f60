"""Time of a training step of one batch, shared out over more and more processes.

    python benchmarks/scaling.py                       1 and 2 processes, one core each

Processes on this machine train together as machines would (docs/cluster.md), each on a core of its
own, with JAX. The batch stays the same, so that two processes would at best take half the time.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--network", default="default")
    parser.add_argument("--batch", type=int, default=48, help="images, over all processes")
    parser.add_argument("--side", type=int, default=112)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        work(options)
        return
    alone = None
    print("| processes | ms a step | times faster |\n|---|---|---|", flush=True)
    for count in options.processes:
        seconds = step_time(options, count)
        alone = alone or seconds
        print(f"| {count} | {1000 * seconds:.0f} | {alone / seconds:.2f} |", flush=True)


def step_time(options: argparse.Namespace, count: int) -> float:
    """Seconds that a step takes in `count` processes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
    flags = [
        item
        for name in ("network", "batch", "side", "steps")
        for item in (f"--{name}", str(getattr(options, name)))
    ]
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, *flags, "--worker", address, str(count), str(i)],
            env={**os.environ, "KERAS_BACKEND": "jax"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(count)
    ]
    outputs = [worker.communicate() for worker in workers]
    for worker, (_, errors) in zip(workers, outputs, strict=True):
        if worker.returncode:
            sys.exit(errors)
    return json.loads(outputs[0][0].splitlines()[-1])


def work(options: argparse.Namespace) -> None:
    """One of the processes; the first prints the median time of a step."""
    address, count, index = options.worker[0], int(options.worker[1]), int(options.worker[2])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[index % len(cores)]})
    import keras
    import numpy as np

    from gdn_keras.datasets import ImageData, LabelledImages, training_pipeline
    from gdn_keras.training import Classification, Recipe, distribution
    from gdn_keras.training.fitting import build

    distribution.join(address, count, index)
    recipe = Recipe(network=options.network, batch_size=options.batch, distribute=True)
    images = np.random.default_rng(0).normal(size=(options.batch, options.side, options.side, 1))
    labels = np.arange(options.batch) % 10
    part = LabelledImages(images, labels)
    data = ImageData("noise", part, part, lambda size: part, (), tuple("0123456789"))
    ends = []

    def note(_, logs):
        float(logs["loss"])  # waits for the step
        ends.append(time.monotonic())

    with distribution.training_strategy().scope():
        model = build(Classification(recipe, data))
        batches = training_pipeline(images, labels, batch_size=options.batch)
        model.fit(
            distribution.shared_out(batches, distribution.device_count(recipe)),
            steps_per_epoch=options.steps + 2,
            callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=note)],
            shuffle=False,
            verbose=0,
        )
    distribution.leave()
    if index == 0:
        # The first step holds the compilation.
        print(json.dumps(statistics.median(np.diff(ends[1:]).tolist())))


if __name__ == "__main__":
    main()
