"""Trains on digits of one size and tests at sizes from a half to eight: scale generalisation.

    python examples/train_large_scale.py

No network, no GPU, nothing to prepare: under 10 minutes on 2 cores, with digits that come with the
package. Trained on size 2 only, the network recognises at least 98 % of the test digits at every
size from 0.71 to 4. Everything is in runs/large_scale, with report.md as its first page.

More of them, each after `python examples/train_large_scale.py`:

    --with-single-channel                               the contrast too, 2 minutes more
    --train-size 1 --output runs/size1                  another training size
    --train-size 1 --train-frame 56 --train-scales 0.7071 2.8284 5 --output runs/small
                                                        train small, use large
    --paper --network large --mnist-dir MNIST --output runs/paper
                                                        the paper's experiment, for a GPU
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from gdn_keras.training.command_line import large_scale_settings, run_command
from gdn_keras.training.flags import large_scale_parser

if __name__ == "__main__":
    sys.exit(run_command(large_scale_parser(__doc__), large_scale_settings))
