"""Makes gdn_keras/datasets/embedded_digits.npz from the four MNIST files, and prints its sha256.

    python tools/embed_digits.py MNIST_DIRECTORY

It takes a second; with the same zlib the result is the same, byte for byte. The digits are those of
MNIST (LeCun et al. 1998, CC BY-SA 3.0).
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
    members = np.stack([np.flatnonzero(digits.y_train == label)[:500] for label in range(10)])
    rng = np.random.default_rng(0)
    # One column holds one digit of each class; each column gets an order of its own.
    train, test = (
        rng.permuted(part, axis=0).T.ravel() for part in (members[:, :400], members[:, 400:])
    )
    np.savez_compressed(
        TARGET,
        x_train=digits.x_train[train],
        y_train=digits.y_train[train],
        x_test=digits.x_train[test],
        y_test=digits.y_train[test],
    )
    content = TARGET.read_bytes()
    print(f"{TARGET}: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
