"""Makes gdn_keras/datasets/embedded_digits.npz from the four MNIST files, and prints its sha256.

    python tools/embed_digits.py MNIST_DIRECTORY

The training digits come from MNIST's training files, the test digits from its test files. It takes
a second; with the same zlib the result is the same, byte for byte. The digits are those of MNIST
(LeCun et al. 1998, CC BY-SA 3.0).
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np

from gdn_keras.datasets import load_mnist_directory

TARGET = Path(__file__).parents[1] / "gdn_keras" / "datasets" / "embedded_digits.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mnist", help="directory with the four MNIST files")
    digits = load_mnist_directory(parser.parse_args().mnist)
    rng = np.random.default_rng(0)
    train = first_of_each_class(digits.y_train, 400, rng)
    test = first_of_each_class(digits.y_test, 100, rng)
    np.savez_compressed(
        TARGET,
        x_train=digits.x_train[train],
        y_train=digits.y_train[train],
        x_test=digits.x_test[test],
        y_test=digits.y_test[test],
    )
    content = TARGET.read_bytes()
    print(f"{TARGET}: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


def first_of_each_class(labels: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Indices, ten by ten: each ten are one of each class, in an order of their own."""
    members = np.stack([np.flatnonzero(labels == label)[:count] for label in range(10)])
    return rng.permuted(members, axis=0).T.ravel()


if __name__ == "__main__":
    main()
