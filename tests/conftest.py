"""Settings for all tests."""

import gc
import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: threads of their own would take turns. Before TensorFlow is imported.
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import pytest
from hypothesis import settings

# Deadlines measure the machine's load, not the code.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# Some tests compute in float64, which JAX leaves out by default.
os.environ.setdefault("JAX_ENABLE_X64", "1")


def pytest_collection(session):
    """Two devices, since none can be added once TensorFlow is in use."""
    if session.config.getoption("dist") != "no":
        return  # the process that hands out tests to others
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        devices = [tf.config.LogicalDeviceConfiguration()] * 2
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, devices)


def pytest_collection_finish():
    """Spares the garbage collector all that was imported, which it would search again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # making graphs makes many objects


@pytest.fixture
def eager():
    """Without graphs, which take longer to make than tiny networks to train."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def two_devices():
    """One strategy for all tests: in one process, several would take each other's messages."""
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2
    return strategy
