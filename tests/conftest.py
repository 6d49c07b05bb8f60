"""Settings for all tests."""

import gc
import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: threads of their own would take turns. Before TensorFlow is imported.
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")

from hypothesis import settings

# Deadlines measure the machine's load, not the code.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# Some tests compute in float64, which JAX leaves out by default.
os.environ.setdefault("JAX_ENABLE_X64", "1")


def pytest_collection_finish():
    """Spares the garbage collector all that was imported, which it would search again and again."""
    gc.collect()
    gc.freeze()
