"""Trains one scale channel (sigma_0 = 0.9) on the original 28x28 MNIST: section 5 of the paper.

    python examples/train_mnist.py

It takes about 3 minutes on 2 cores with the 3 600 training digits in the package, and recognises
98.5 % of its 1 000 test digits. All of MNIST, as in the paper:

    python examples/train_mnist.py --mnist-dir MNIST --epochs 40 --output runs/mnist_paper
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.training.command_line import mnist_settings, run_command
from gdn_keras.training.flags import mnist_parser

if __name__ == "__main__":
    sys.exit(run_command(mnist_parser(__doc__), mnist_settings))
