"""Data sets of the tables in RESULTS.md; importing this registers them under their names.

python examples/train_folder.py GTSRB --plugin benchmarks/paper_data --data gtsrb
"""

from paper_data import cifar10, fashion_mnist, gtsrb, kth_tips, mnist_scale, stir_mnist

__all__ = ["cifar10", "fashion_mnist", "gtsrb", "kth_tips", "mnist_scale", "stir_mnist"]
