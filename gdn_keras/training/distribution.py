"""One training on several devices: those of one machine, or those of several machines.

On TensorFlow, `tf.distribute.MirroredStrategy` takes the devices of one machine. On JAX,
`keras.distribution.DataParallel` takes the devices of all processes that joined, one process on
each machine or each device. Every device gets an equal share of every batch, batch statistics and
gradients are those of the whole batch, and so are the weights that come out.

The first process's folder is the run's; the others keep what they write to themselves.
"""

import os
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from gdn_keras.checks import require
from gdn_keras.training.recipe import TrainingRecipe


def join(
    address: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Makes this process one of several that train together, before JAX computes anything.

    Args:
        address: "host:port" of the first process; `None` to find out everything from the
            environment of Slurm, Open MPI or Kubernetes, as `jax.distributed.initialize` does.
        processes: How many there are.
        process: Which of them this is, from 0 on.

    Raises:
        ValueError: If Keras does not run on JAX, or who takes part is wrong or unknown.
        OSError: If the others cannot be reached.
    """
    if (backend := keras.backend.backend()) != "jax":
        text = "Training on several machines needs JAX: set KERAS_BACKEND=jax."
        raise ValueError(f"{text} Received: {backend=}")
    known = process is not None and processes is not None and 0 <= process < processes
    if address is not None and not known:
        text = "`process` must lie from 0 to `processes` - 1."
        raise ValueError(f"{text} Received: {process=}, {processes=}")
    import jax

    try:
        jax.distributed.initialize(address, processes, process)
    except ValueError as error:
        raise ValueError(
            "Nothing in the environment tells the processes of this run; give the first one's "
            f"HOST:PORT, how many there are, and which of them this is ({error})"
        ) from error
    except RuntimeError as error:
        raise OSError(f"The processes of this run did not meet at {address}: {error}") from error


def leave() -> None:
    """Parts from the other processes, once all have come to this point."""
    if process_count() > 1:
        import jax

        jax.distributed.shutdown()


def abandon(code: int) -> int:
    """Ends a failed process at once where there are others, for which it would wait otherwise."""
    if code and process_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def process_count() -> int:
    """How many processes train together."""
    return _of_jax("process_count", 1)


def process_index() -> int:
    """Which of them this is; 0 is the first, whose folder is that of the run."""
    return _of_jax("process_index", 0)


def _of_jax(name: str, otherwise: int) -> int:
    if keras.backend.backend() != "jax":
        return otherwise
    import jax

    return getattr(jax, name)()


def prepare_together(prepare: Callable[[], Sequence[Any]]) -> list[Any]:
    """The runs that `prepare` makes, if it does so in all processes, with equal settings.

    A process that went on alone would wait for the others forever.
    """
    try:
        runs, failure = list(prepare()), None
    except Exception as error:
        runs, failure = [], error
    settings = zlib.crc32(repr([run.settings for run in runs]).encode())
    failed, fingerprints = _from_all([failure is not None, settings]).T
    if failure:
        raise failure
    if failed.any():
        raise ValueError(f"Process {failed.argmax()} could not begin; its own message says why")
    differing = fingerprints != fingerprints[0]
    if differing.any():
        text = "All processes of a run must be given the same settings."
        raise ValueError(f"{text} Received: others in process {differing.argmax()}")
    return runs


def _from_all(values: Sequence[int]) -> np.ndarray:
    """Whole numbers of all processes, [process, number]."""
    own = np.asarray(values, "uint32")
    if process_count() == 1:
        return own[None]
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(own))


def agreed(values: Any) -> Any:
    """`values`, a tree of numbers and arrays, as the first process has them."""
    if process_count() == 1:
        return values
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(values)


def copy_state(source: keras.Model, target: keras.Model) -> None:
    """Weights and optimizer of `source` in the first process, to `target` in all of them."""
    _assign(target, agreed(_values(source)))


class OnCopy(keras.callbacks.Callback):
    """Lets a callback see, after each epoch, a copy of the model, compiled, on one device.

    What is computed from distributed variables must be computed in all processes, and a file is
    written in one.
    """

    def __init__(self, copy: keras.Model, callback: keras.callbacks.Callback):
        super().__init__()
        self.copy, self.callback = copy, callback
        callback.set_model(copy)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        distributed = keras.distribution.distribution()
        keras.distribution.set_distribution(None)  # new variables are on one device
        try:
            _assign(self.copy, _values(self.model))
            self.callback.on_epoch_end(epoch, logs)
        finally:
            keras.distribution.set_distribution(distributed)


def _variables(model: keras.Model) -> list:
    return [*model.variables, *model.optimizer.variables]


def _values(model: keras.Model) -> list[np.ndarray]:
    return [np.asarray(variable) for variable in _variables(model)]


def _assign(model: keras.Model, values: Sequence[Any]) -> None:
    for variable, value in zip(_variables(model), values, strict=True):
        variable.assign(np.asarray(value))


def training_strategy() -> Any:
    """All devices together, as an object with a `scope`."""
    if keras.backend.backend() == "jax":
        return keras.distribution.DataParallel(auto_shard_dataset=False)
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def device_count(recipe: TrainingRecipe) -> int:
    """How many devices a batch of this recipe is shared out over, which must be even."""
    if not recipe.distribute:
        return 1
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        text = "Several devices need Keras on TensorFlow or JAX."
        raise ValueError(f"{text} Received: distribute=True, {backend=}")
    strategy = training_strategy()
    devices = strategy.num_model_replicas if backend == "jax" else strategy.num_replicas_in_sync
    text = f"be a multiple of the number of devices, {devices}"
    require(recipe.batch_size % devices == 0, "batch_size", text, recipe.batch_size)
    return devices


def shared_out(batches: Any, devices: int) -> Any:
    """This process's share of each batch of a `tf.data.Dataset`, the same for every device.

    A last batch that does not divide evenly is filled up with its own first images.
    """
    if batches is None or devices == 1:
        return batches
    import tensorflow as tf

    process, processes = process_index(), process_count()

    def share(*batch: Any) -> tuple:
        count = tf.shape(batch[0])[0]
        size = -(-count // devices) * devices // processes
        index = tf.range(process * size, (process + 1) * size) % count
        return tf.nest.map_structure(lambda part: tf.gather(part, index), batch)

    return batches.map(share)
