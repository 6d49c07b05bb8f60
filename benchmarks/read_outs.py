"""What it costs to read a network in several ways, and how that grows with the image.

    python benchmarks/read_outs.py                   about 5 minutes, alone on the machine
    python benchmarks/read_outs.py --sides 64        one size only
    python benchmarks/read_outs.py --sides 224 640x480 --channels 8 --ways points pyramid

Each way runs in a process of its own, one after the other: milliseconds per image forward and in a
training step (best of several), and how much memory the process took beyond its start. "map, then
max" is a map on pixels with Keras's global maximum after it, which "anywhere" is to replace;
"pyramid" is a plain CNN of the same widths, with points too, on an image pyramid of these scales.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

WAYS = ("center", "anywhere", "map, then max", "points", "pyramid")
WIDTHS = (12, 16, 24, 32, 64)
CLASSES = 10


def measure(way: str, height: int, width: int, channels: int, batch: int) -> dict[str, float]:
    """Times and memory of one way, in this process."""
    import keras
    import numpy as np
    import tensorflow as tf

    network = make_network(way, (height, width, 1), channels)
    images = tf.constant(np.random.default_rng(0).normal(size=(batch, height, width, 1)), "float32")
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(network.trainable_variables)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @tf.function
    def forward() -> Any:
        return tf.reduce_sum(network(images, training=False))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(network(images, training=True)))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply(gradients, network.trainable_variables)
        return loss

    result = {"forward": best(forward) / batch, "training": best(step) / batch}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**result, "memory": (peak - start) / 1024}


def make_network(way: str, shape: tuple[int, int, int], channels: int) -> Any:
    """The network that is read in this way."""
    import keras

    from gdn_keras.models import gaussian_derivative_network

    scales = [2 ** (i / 2) for i in range(-1, channels - 1)]
    if way == "pyramid":
        from detectors.networks import PyramidPoints

        images = keras.Input(shape)
        return keras.Model(images, PyramidPoints(WIDTHS, CLASSES, CLASSES, tuple(scales))(images))
    readout = "map" if way == "map, then max" else way
    network = gaussian_derivative_network(shape, WIDTHS, CLASSES, scales, readout=readout)
    if way == "map, then max":
        pooled = keras.layers.GlobalMaxPooling2D()(network.output)
        network = keras.Model(network.input, pooled)
    return network


def size(text: str) -> tuple[int, int]:
    """Width and height, from "640x480", or "64" for a square."""
    try:
        width, height = map(int, text.split("x")) if "x" in text else (int(text),) * 2
    except ValueError:
        width = height = 0
    if min(width, height) < 1:
        raise argparse.ArgumentTypeError(f"must be such as 224 or 640x480. Received: {text}")
    return width, height


def best(run: Callable[[], Any], seconds: float = 4.0) -> float:
    """Milliseconds of the fastest of several runs."""
    run().numpy()
    found, began = [], time.perf_counter()
    while len(found) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run().numpy()
        found.append(time.perf_counter() - start)
    return 1000 * min(found)


def main(arguments: list[str] | None = None) -> None:
    """Measures all ways, each in its own process, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    squares = [(side, side) for side in (64, 112, 224, 448)]
    parser.add_argument("--sides", type=size, nargs="+", default=squares, metavar="SIZE")
    parser.add_argument("--channels", type=int, default=6, help="scale channels from 0.71 on (6)")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        print(json.dumps(measure(**json.loads(options.case))))
        return
    print("| read-out | image | forward, ms | training, ms | memory, MB |\n|---|---|---|---|---|")
    for width, height in options.sides:
        for way in options.ways:
            batch = max(1, 8 * 64 * 64 // (width * height))
            case = {"way": way, "height": height, "width": width, "batch": batch}
            case = json.dumps({**case, "channels": options.channels})
            command = [sys.executable, __file__, "--case", case]
            done = subprocess.run(command, capture_output=True, text=True)
            start = f"| {way} | {width}×{height} |"
            if done.returncode:
                print(f"{start} failed: {done.stderr.strip()[-200:]} | | |")
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            times = f"{found['forward']:.2f} | {found['training']:.2f}"
            print(f"{start} {times} | {found['memory']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
