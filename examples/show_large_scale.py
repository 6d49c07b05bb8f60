"""Draws MNIST Large Scale: some digits at sizes 1 to 4, and one of them at all 17 sizes.

    python examples/show_large_scale.py --output pictures

It takes five seconds and writes `sizes_1_to_4.png`, like the sample figure of the paper, and
`all_sizes.png`. The digits are the package's own, or MNIST's with `--mnist DIRECTORY`.
"""

import argparse
from pathlib import Path

from gdn_keras.analysis import draw_sizes
from gdn_keras.datasets import load_embedded_digits, load_mnist_directory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=Path("pictures"), help="directory to write to"
    )
    parser.add_argument("--mnist", help="directory with the four MNIST files")
    options = parser.parse_args()
    digits = load_mnist_directory(options.mnist) if options.mnist else load_embedded_digits()
    options.output.mkdir(parents=True, exist_ok=True)
    pictures = {
        "sizes_1_to_4.png": {
            "digits": digits.x_train[:4],
            "sizes": [2 ** (k / 4) for k in range(9)],
        },
        "all_sizes.png": {"digits": digits.x_train[1:2], "columns": 9},
    }
    for name, what in pictures.items():
        draw_sizes(path=options.output / name, **what)
        print(options.output / name)


if __name__ == "__main__":
    main()
