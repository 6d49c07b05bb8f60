"""The training itself: a compiled model, taken up again where it was stopped."""

import contextlib
import datetime
import importlib.util
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import keras

from gdn_keras.reporting import Reporter
from gdn_keras.training import distribution
from gdn_keras.training.recipe import TrainingRecipe
from gdn_keras.training.run_folder import LOGS, Checkpoints
from gdn_keras.training.task import Task

_TIMED_STEPS = 8  # after which the time of a training is told


class TrainingStopped(RuntimeError):
    """A run that ended early, `interrupted` by the user or not; the message says how to go on."""

    def __init__(self, message: str, interrupted: bool = False):
        super().__init__(message)
        self.interrupted = interrupted


def build(task: Task) -> keras.Model:
    """The task's model with the seed's initial weights, compiled."""
    keras.utils.set_random_seed(task.recipe.seed)
    before, precision = keras.config.dtype_policy(), task.recipe.precision
    keras.config.set_dtype_policy(precision if precision == "float32" else f"mixed_{precision}")
    try:
        model = task.network()
    finally:
        keras.config.set_dtype_policy(before)
    compile_model(model, task)
    return model


def compile_model(model: keras.Model, task: Task) -> None:
    """Compiles any model for a task: its loss, and Adam with a half cosine over all steps."""
    recipe = task.recipe
    share, steps = recipe.final_learning_rate / recipe.learning_rate, task.steps * recipe.epochs
    schedule = keras.optimizers.schedules.CosineDecay(recipe.learning_rate, steps, alpha=share)
    optimizer = keras.optimizers.Adam(schedule)
    if recipe.precision == "float16":
        # Keras would wrap it by itself, but not recognize it again when it loads the file.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    jit = recipe.jit or keras.backend.backend() == "jax"
    model.compile(optimizer=optimizer, jit_compile=jit, **task.loss())
    model.optimizer.build(model.trainable_variables)


def fit_arguments(task: Task, first_epoch: int = 0) -> dict[str, Any]:
    """Arguments of `fit` that show the training data from an epoch on, in their order."""
    devices = distribution.device_count(task.recipe)
    return {
        "x": distribution.shared_out(task.batches(first_epoch), devices),
        "steps_per_epoch": task.steps,
        "initial_epoch": first_epoch,
        "shuffle": False,
    }


def train(model: keras.Model, task: Task, folder: Path, reporter: Reporter) -> None:
    """Trains in `folder`, from the beginning or from where a run of equal settings was stopped.

    Batches depend on the seed and the epoch only, so a run that was killed ends with the weights of
    one that was not. The model, from `build`, is trained in place.

    Raises:
        TrainingStopped: By Ctrl-C, a full disk or a non-finite loss.
    """
    recipe = task.recipe
    _make_deterministic(recipe)
    checkpoints = Checkpoints(folder, reporter, task.score)
    done = int(distribution.agreed(checkpoints.restore(model)))
    if done:
        reporter.line(f"Going on after epoch {done} of {recipe.epochs}.")
    if done >= recipe.epochs:
        return
    if not recipe.distribute:
        _fit(model, task, done, checkpoints, checkpoints)
        return
    with distribution.training_strategy().scope():
        shared = build(task)
        distribution.copy_state(model, shared)
        # The first process keeps what is done; the others must not be late.
        first = distribution.process_index() == 0
        keeping = distribution.OnCopy(model, checkpoints) if first else None
        _fit(shared, task, done, checkpoints, keeping)
    model.set_weights(shared.get_weights())


def _fit(
    model: keras.Model,
    task: Task,
    done: int,
    checkpoints: Checkpoints,
    keeping: keras.callbacks.Callback | None,
) -> None:
    recipe, devices = task.recipe, distribution.device_count(task.recipe)
    progress = ProgressLine(recipe.epochs, task.steps, checkpoints.reporter, task.score)
    # Raises within a step, so that no checkpoint keeps broken weights.
    callbacks = [progress, keras.callbacks.TerminateOnNaN(raise_error=True)]
    if keeping:
        callbacks.append(keeping)
        if importlib.util.find_spec("tensorboard"):
            logs = os.fspath(checkpoints.folder / LOGS)
            callbacks.append(keras.callbacks.TensorBoard(logs, write_graph=False))
    try:
        model.fit(
            **fit_arguments(task, done),
            validation_data=distribution.shared_out(task.validation(), devices),
            epochs=recipe.epochs,
            callbacks=callbacks,
            verbose=0,
        )
    except (KeyboardInterrupt, Exception) as error:
        known = _reason_and_advice(error, recipe, progress.loss)
        if known is None:
            raise
        kept = checkpoints.what_is_kept() if keeping else "Process 0 keeps what was done."
        text = f"Stopped{known[0]}. {kept} {known[1]}"
        raise TrainingStopped(text, isinstance(error, KeyboardInterrupt)) from error


def _reason_and_advice(
    error: BaseException, recipe: TrainingRecipe, loss: float
) -> tuple[str, str] | None:
    """Why a training ended and what to do about it, if that is known."""
    if isinstance(error, KeyboardInterrupt):
        return "", "The same command goes on from there."
    if isinstance(error, OSError):
        return f": {error}", "Once that is mended, the same command goes on."
    if not math.isfinite(loss):
        half = ", or train without half precision" * (recipe.precision == "float16")
        advice = f"Use a lower `learning_rate` (it was {recipe.learning_rate:g}) in a new folder, "
        advice += f"and check images and labels for NaN{half}."
        return f" because the loss became {loss}", advice
    if recipe.distribute and distribution.process_count() > 1:  # JAX has no one type for it
        said = str(error).partition("\n")[0]
        text = f" because this process lost the others, or they lost it ({said})"
        return text, "The same commands go on from there."
    return None


def _make_deterministic(recipe: TrainingRecipe) -> None:
    """Equal weights from equal settings on GPUs too; on CPUs they are equal anyway.

    XLA rejects this mode; its own sums are deterministic.
    """
    import tensorflow as tf

    if keras.backend.backend() != "tensorflow":
        # TensorFlow only reads the images then, and would take the GPUs' memory.
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices([], "GPU")
    elif tf.config.list_physical_devices("GPU") and not recipe.jit:
        tf.config.experimental.enable_op_determinism()


class ProgressLine(keras.callbacks.Callback):
    """One line for the whole training, with the time left; in a log file, one line an epoch."""

    def __init__(self, epochs: int, steps: int, reporter: Reporter, score: str | None = None):
        super().__init__()
        self.epochs, self.steps, self.reporter, self.score = epochs, steps, reporter, score
        self.loss, self._done, self._shown = 0.0, 0, -math.inf
        self._first: tuple[int, float] | None = None  # steps after the first one, and its end

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._done = epoch * self.steps

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        self._done += 1
        self.loss = float(logs["loss"])
        now = time.monotonic()
        # The first step includes the tracing of the network, which happens once.
        self._first = self._first or (self._done, now)
        if self._done == self._first[0] + _TIMED_STEPS:
            memory = peak_memory()
            text = f" and {memory / 2**30:.1f} GB of memory." if memory else "."
            self.reporter.line(f"The training will take about {self._left(now)}{text}")
        if now - self._shown > 0.5:
            self._shown = now
            self.reporter.update(self._line(now))

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        self.loss = float(logs["loss"])
        score = f"  validation {logs[self.score]:.2%}" if self.score in logs else ""
        self.reporter.line(self._line(time.monotonic()) + score)

    def _left(self, now: float) -> str:
        before, began = self._first or (self._done, now)
        if self._done == before:
            return "-:--:--"
        seconds = (now - began) / (self._done - before) * (self.steps * self.epochs - self._done)
        return str(datetime.timedelta(seconds=round(seconds)))

    def _line(self, now: float) -> str:
        share, epoch = self._done / (self.steps * self.epochs), -(-self._done // self.steps)
        return (
            f"epoch {epoch:>{len(str(self.epochs))}}/{self.epochs} [{'=' * int(20 * share):<20}] "
            f"{share:4.0%}  ETA {self._left(now)}  loss {self.loss:.4f}"
        )


def peak_memory() -> int | None:
    """Bytes that this process has held at most, where the system tells."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
