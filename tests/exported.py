"""A small network with logits of order one, and Python processes that lack some packages."""

import os
import subprocess
import sys

import keras
import numpy as np

from gdn_keras.models import gaussian_derivative_network

SHAPE = (44, 40, 1)
SCALES = (1.0, 2**0.5, 2.0)

_BLOCK = """
import sys
class Blocked:
    finders = list(sys.meta_path)
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ("gdn_keras", "keras"):
            specs = (finder.find_spec(name, path, target) for finder in self.finders)
            return next((spec for spec in specs if spec is not None), None)
sys.meta_path[:] = [Blocked()]
"""


def small_network(input_shape=SHAPE, seed=0, **options):
    """Random weights and statistics; larger weights where kernels are composed of them."""
    model = gaussian_derivative_network(input_shape, (4, 6), 10, SCALES, **options)
    rng = np.random.default_rng(seed)
    model.set_weights(
        [
            w + rng.uniform(-0.5, 0.5, w.shape) * (4 if w.ndim == 3 else 1)
            for w in model.get_weights()
        ]
    )
    return model


def random_images(count, shape=SHAPE, seed=0):
    """Blobs in the range of the data set, and so of all sizes, unlike white noise."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(-0.76, 0.76, (count, 7, 7, shape[-1]))
    return keras.ops.convert_to_numpy(keras.ops.image.resize(coarse, shape[:2])).astype("float32")


def run_without_keras(script, *arguments):
    """Runs `script` where neither gdn_keras nor keras can be imported."""
    return subprocess.run(
        [sys.executable, "-c", _BLOCK + script, *map(str, arguments)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
