import os

import pytest

from gdn_keras.datasets import Digits, load_embedded_digits, load_mnist_directory


@pytest.fixture(scope="session")
def digits() -> Digits:
    return load_embedded_digits()


@pytest.fixture(scope="session")
def mnist() -> Digits:
    """All of MNIST, for the slow tests."""
    directory = os.environ.get("GDN_KERAS_MNIST_DIR")
    if not directory:
        pytest.skip("set GDN_KERAS_MNIST_DIR to a directory with the four MNIST files")
    return load_mnist_directory(directory)
