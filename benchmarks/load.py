"""Whether an exported network stands days of use: sustained inference, and a search for leaks.

    python benchmarks/load.py --minutes 10 --output load.json
    python benchmarks/load.py --leaks 20                       build, train and export in turns

Inference: threads call the endpoints of a SavedModel with batches of mixed sizes, without a pause.
Every answer is compared with one that was computed before, image by image. Fails (exit code 1) if
an answer is wrong, or if the resident memory grows by more than 5 % after the warm-up.

Leaks: one process builds, trains, exports, loads and calls a small network again and again, with
`keras.backend.clear_session` in between, as users do. Fails if layers stay alive, or operators in
the package's caches. The memory is only printed: on TensorFlow, the graphs of each `fit` stay
behind, whatever the layers. `--plain` does the same with a CNN of stock Keras layers.
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

SAVED_MODEL = Path(__file__).parents[1] / "saved_models" / "default_size2" / "saved_model"
ALLOWED_GROWTH = 0.05
TOLERANCE = 1e-4  # of the largest logit, as in gdn_keras.export
_IMAGES = 64
_WARM_UP = 0.2  # of the time or of the rounds


def main(arguments=None) -> int:
    options = _parser().parse_args(arguments)
    if options.leaks is not None:
        summary = find_leaks(options.leaks, options.plain)
    else:
        seconds = 60 * options.minutes
        summary = sustain(options.saved_model, seconds, options.threads, options.batches)
    if options.output:
        Path(options.output).write_text(json.dumps(summary, indent=1) + "\n")
    print(summary["summary"], flush=True)
    return 0 if summary["passed"] else 1


def _parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("saved_model", nargs="?", default=SAVED_MODEL, help="a folder")
    parser.add_argument("--minutes", type=_positive(float), default=10.0)
    parser.add_argument("--threads", type=_positive(int), default=4)
    parser.add_argument(
        "--batches", type=_positive(int), nargs="+", default=[1, 2, 5, 16, 50], metavar="N"
    )
    parser.add_argument("--leaks", type=_positive(int), metavar="ROUNDS")
    parser.add_argument("--plain", action="store_true", help="stock Keras layers, to compare with")
    parser.add_argument("--output", metavar="FILE", help="where to write all figures, as JSON")
    return parser


def _positive(kind):
    def number(text):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be positive. Received: {text}")
        return value

    return number


def sustain(folder: str | os.PathLike, seconds: float, threads: int, batches: list[int]) -> dict:
    """Calls a SavedModel for so long from so many threads, and watches answers and memory.

    Args:
        folder: What `gdn_keras.export.export_saved_model` wrote.
        seconds: Of them the first fifth is for warming up.
        threads: Each calls without a pause.
        batches: Sizes of the batches.

    Returns:
        Numbers of answers and of wrong ones, memory over time and its growth, images a second,
        `passed`, and a `summary` in words.
    """
    import tensorflow as tf

    endpoints = _Endpoints(tf.saved_model.load(os.fspath(folder)))
    began = time.monotonic()
    callers = [_Caller(endpoints, batches, seed, began + seconds) for seed in range(threads)]
    for caller in callers:
        caller.start()
    memory = _watch_memory(callers, seconds)
    for caller in callers:
        caller.join()
    for caller in callers:
        if caller.failure:
            raise caller.failure
    took = time.monotonic() - began
    calls, images, wrong = (sum(getattr(c, n) for c in callers) for n in ("calls", "images", "bad"))
    growth = _growth([bytes_ for _, bytes_ in memory])
    passed = bool(calls and not wrong and growth <= ALLOWED_GROWTH)
    return {
        "summary": f"{'passed' if passed else 'FAILED'}: {calls} calls, {images} images in "
        f"{took:.0f} s by {threads} threads, {wrong} wrong answers, memory {growth:+.1%} after "
        f"the warm-up (peak {max(b for _, b in memory) / 2**20:.0f} MB)",
        "passed": passed,
        "calls": calls,
        "images": images,
        "wrong_answers": wrong,
        "growth": growth,
        "seconds": took,
        "threads": threads,
        "batches": batches,
        "memory": memory,
    }


class _Endpoints:
    """The endpoints of a SavedModel, images for them and the right answers."""

    def __init__(self, served):
        self._served = served  # a method does not keep what it belongs to alive
        shape = served.signatures["serve"].structured_input_signature[1]["images"].shape
        rng = np.random.default_rng(0)
        noise = rng.uniform(-0.76, 0.76, (_IMAGES, *shape[1:])).astype("float32")
        self._images = {"serve": noise, "scales": noise}
        if "serve_uint8" in served.signatures:
            self._images["serve_uint8"] = rng.integers(0, 256, noise.shape).astype("uint8")
        self._answers = {}
        for name, images in self._images.items():
            single = [self._call(name, images[i : i + 1]) for i in range(_IMAGES)]
            self._answers[name] = {
                key: np.concatenate([answer[key] for answer in single]) for key in single[0]
            }

    def check(self, rng: np.random.Generator, batch: int) -> bool:
        """Whether a call of any endpoint, with a batch of any images, is answered rightly."""
        name = rng.choice(list(self._images))
        chosen = rng.integers(0, _IMAGES, batch)
        answers = self._call(name, self._images[name][chosen])
        expected = {key: values[chosen] for key, values in self._answers[name].items()}
        return answers.keys() == expected.keys() and all(
            _equal(key, answers, expected) for key in answers
        )

    def _call(self, name, images):
        answers = getattr(self._served, name)(images)
        # The name of the best class follows from the logits.
        return {key: y.numpy() for key, y in answers.items() if key != "class_name"}


def _equal(key, answers, expected) -> bool:
    ours, right = answers[key], expected[key]
    if ours.shape != right.shape:
        return False
    if key not in ("selected_scale", "relative_size"):
        return bool(np.all(np.abs(ours - right) <= TOLERANCE * max(1.0, np.abs(right).max())))
    # Rounding may turn the balance between two channels that are as good as each other.
    best = np.sort(expected["channel_logits"].max(axis=2), axis=1)
    close = best.shape[1] > 1 and best[:, -1] - best[:, -2] <= 2 * TOLERANCE * np.abs(best).max()
    return bool(np.all((ours == right) | close))


class _Caller(threading.Thread):
    """Calls until `end`, and counts."""

    def __init__(self, endpoints, batches, seed, end):
        super().__init__(daemon=True)
        self._endpoints, self._batches, self._end = endpoints, batches, end
        self._rng = np.random.default_rng(seed)
        self.calls = self.images = self.bad = 0
        self.failure = None

    def run(self):
        try:
            while time.monotonic() < self._end:
                batch = int(self._rng.choice(self._batches))
                self.bad += not self._endpoints.check(self._rng, batch)
                self.calls += 1
                self.images += batch
        except Exception as error:
            self.failure = error


def _watch_memory(callers, seconds) -> list[tuple[float, int]]:
    """(seconds, bytes) while the callers run, two hundred times, with lines of progress."""
    began, memory = time.monotonic(), []
    while any(caller.is_alive() for caller in callers):
        memory.append((time.monotonic() - began, resident_bytes()))
        if len(memory) % 20 == 0:
            calls, bad = sum(c.calls for c in callers), sum(c.bad for c in callers)
            print(
                f"{memory[-1][0]:6.0f} s  {calls} calls, {bad} wrong, "
                f"{memory[-1][1] / 2**20:.0f} MB",
                flush=True,
            )
        time.sleep(seconds / 200)
    return memory


def _growth(memory) -> float:
    """From the first tenth after the warm-up to the last tenth, by their medians."""
    settled = memory[int(len(memory) * _WARM_UP) :]
    tenth = max(1, len(settled) // 10)
    return float(np.median(settled[-tenth:]) / np.median(settled[:tenth]) - 1)


def resident_bytes() -> int:
    """Memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def find_leaks(rounds: int, plain: bool = False) -> dict:
    """Memory of this process over rounds of building, training, exporting and calling.

    Args:
        rounds: Of them the first fifth is for warming up.
        plain: Whether to use stock Keras layers.
    """
    import keras

    memory, alive = [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            _round(Path(folder) / "saved_model", plain)
        keras.backend.clear_session()
        gc.collect()
        memory.append(resident_bytes())
        alive.append(_alive())
        print(f"round {number + 1:3d}  {memory[-1] / 2**20:.1f} MB, {alive[-1]}", flush=True)
    settled = np.array(memory[int(rounds * _WARM_UP) :]) / 2**20
    slope = float(np.polyfit(np.arange(len(settled)), settled, 1)[0]) if len(settled) > 1 else 0.0
    growth = _growth(memory)
    passed = alive[-1] == alive[int(rounds * _WARM_UP)]
    return {
        "summary": f"{'passed' if passed else 'FAILED'}: {rounds} rounds of build, train, export "
        f"and call ({'stock layers' if plain else 'gdn_keras'}), in the end {alive[-1]}; "
        f"{slope:+.2f} MB a round after the warm-up, {growth:+.1%} in all",
        "passed": passed,
        "rounds": rounds,
        "plain": plain,
        "megabytes_a_round": slope,
        "growth": growth,
        "memory": memory,
        "alive": alive,
    }


def _alive() -> dict[str, int]:
    """What would pile up if this package kept it."""
    import keras

    from gdn_keras.scale_space.sampling_plan import smoothing_operator

    return {
        "layers": sum(issubclass(type(o), keras.layers.Layer) for o in gc.get_objects()),
        "operators": smoothing_operator.cache_info().currsize,
    }


def _round(folder, plain):
    import keras
    import tensorflow as tf

    model = _stock_network() if plain else _network()
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.BinaryCrossentropy(from_logits=True),
        jit_compile=False,
    )
    images = np.random.default_rng(0).normal(size=(20, 32, 32, 1)).astype("float32")
    model.fit(images, np.eye(10, dtype="float32")[np.arange(20) % 10], batch_size=10, verbose=0)
    if plain:
        model.export(folder, verbose=False)
    else:
        from gdn_keras.export import export_saved_model

        export_saved_model(model, folder)
    served = tf.saved_model.load(os.fspath(folder))  # a method does not keep it alive
    served.serve(images)


def _network():
    from gdn_keras.models import gaussian_derivative_network

    return gaussian_derivative_network((32, 32, 1), (8, 8), 10, (1.0, 2.0))


def _stock_network():
    import keras

    layers = keras.layers
    blocks = [
        layer
        for _ in range(2)
        for layer in (
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
        )
    ]
    last = [layers.GlobalMaxPooling2D(), layers.Dense(10)]
    return keras.Sequential([keras.Input((32, 32, 1)), *blocks, *last])


if __name__ == "__main__":
    sys.exit(main())
