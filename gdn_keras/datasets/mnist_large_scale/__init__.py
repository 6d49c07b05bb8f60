"""The TFDS data set `mnist_large_scale`; importing this registers it.

>>> import tensorflow_datasets as tfds
>>> import gdn_keras.datasets.mnist_large_scale
>>> train = tfds.load("mnist_large_scale/size2", split="train")  # doctest: +SKIP
"""

from gdn_keras.datasets.digits import import_tfds

# First, hence E402: a missing package then is one line that says what to install.
import_tfds("The TFDS data set `mnist_large_scale`")

from gdn_keras.datasets.mnist_large_scale.mnist_large_scale_dataset_builder import (  # noqa: E402
    Builder,
    config_name,
)

__all__ = ["Builder", "config_name"]
