"""The training itself: a compiled model, taken up again where it was stopped."""

import contextlib
import importlib.util
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from gdn_keras.reporting import Reporter
from gdn_keras.training.callbacks import Checkpoints, ProgressLine
from gdn_keras.training.distribution import (
    OnCopy,
    agreed,
    copy_state,
    device_count,
    is_first,
    process_count,
    shared_out,
    training_strategy,
)
from gdn_keras.training.recipe import TrainingRecipe
from gdn_keras.training.run_folder import LOGS
from gdn_keras.training.task import Task


class TrainingStopped(RuntimeError):
    """A run that ended early; the message says why and how to go on.

    Attributes:
        interrupted: Whether the user stopped it.
    """

    def __init__(self, message: str, interrupted: bool = False):
        super().__init__(message)
        self.interrupted = interrupted


def build(task: Task) -> keras.Model:
    """The task's model with the seed's initial weights, compiled."""
    keras.utils.set_random_seed(task.recipe.seed)
    with _precision(task.recipe.precision):
        model = task.network()
    compile_model(model, task)
    return model


def compile_model(model: keras.Model, task: Task, epochs: int | None = None) -> None:
    """Compiles any model for a task: its loss, and Adam with a half cosine over all steps.

    Args:
        model: The task's own network or another one.
        task: Says how to train.
        epochs: Length of the schedule; that of the recipe by default.
    """
    recipe = task.recipe
    schedule = keras.optimizers.schedules.CosineDecay(
        recipe.learning_rate,
        task.steps * (epochs or recipe.epochs),
        alpha=recipe.final_learning_rate / recipe.learning_rate,
    )
    optimizer = keras.optimizers.Adam(schedule)
    if recipe.precision == "float16":
        # Keras would wrap it by itself, but not recognize it again when it loads the file.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    jit = recipe.jit or keras.backend.backend() == "jax"
    model.compile(optimizer=optimizer, jit_compile=jit, **task.loss())
    model.optimizer.build(model.trainable_variables)


def fit_arguments(task: Task, first_epoch: int = 0) -> dict[str, Any]:
    """Arguments of `fit` that show the training data from an epoch on, in their order."""
    return {
        "x": shared_out(task.batches(first_epoch), device_count(task.recipe)),
        "steps_per_epoch": task.steps,
        "initial_epoch": first_epoch,
        "shuffle": False,
    }


def train(model: keras.Model, task: Task, folder: Path, reporter: Reporter) -> None:
    """Trains in `folder`, from the beginning or from where a run of equal settings was stopped.

    After each epoch, last.keras holds weights and optimizer, best.keras the best epoch where the
    task has a score, and history.csv the history. Batches depend on the seed and the epoch only,
    so a run that was killed ends with the weights of one that was not.

    Args:
        model: From `build`. It is trained in place.
        task: What to train.
        folder: An existing folder.
        reporter: Told of the progress.

    Raises:
        TrainingStopped: By Ctrl-C, a full disk or a non-finite loss; a message for the user.
    """
    recipe = task.recipe
    _make_deterministic(recipe)
    checkpoints = Checkpoints(folder, reporter, task.score)
    done = int(agreed(checkpoints.restore(model)))
    if done:
        reporter.line(f"Going on after epoch {done} of {recipe.epochs}.")
    if done >= recipe.epochs:
        return
    if device_count(recipe) == 1:
        _fit(model, task, done, checkpoints, checkpoints)
        return
    with training_strategy(recipe).scope():
        shared = build(task)
        copy_state(model, shared)
        _fit(shared, task, done, checkpoints, OnCopy(model, [checkpoints]))
    model.set_weights(shared.get_weights())


def _fit(
    model: keras.Model,
    task: Task,
    done: int,
    checkpoints: Checkpoints,
    keeping: keras.callbacks.Callback,
) -> None:
    recipe, validation = task.recipe, task.validation()
    if validation is not None:
        validation = shared_out(validation, device_count(recipe))
    reporter = checkpoints.reporter
    progress = ProgressLine(recipe.epochs, task.steps, reporter, task.score)
    # Raises within a step, so that no checkpoint keeps broken weights.
    callbacks = [progress, keras.callbacks.TerminateOnNaN(raise_error=True)]
    if is_first():  # it keeps what is done; the others must not be late
        callbacks.append(keeping)
        if importlib.util.find_spec("tensorboard"):
            logs = os.fspath(checkpoints.folder / LOGS)
            callbacks.append(keras.callbacks.TensorBoard(logs, write_graph=False))
    with _explained(recipe, checkpoints, progress):
        model.fit(
            **fit_arguments(task, done),
            validation_data=validation,
            epochs=recipe.epochs,
            callbacks=callbacks,
            verbose=0,
        )


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


@contextlib.contextmanager
def _explained(
    recipe: TrainingRecipe, checkpoints: Checkpoints, progress: ProgressLine
) -> Iterator[None]:
    """Turns what may end a training into a `TrainingStopped` that says how to go on."""
    try:
        yield
        return
    except KeyboardInterrupt:
        reason, advice = "", "The same command goes on from there."
        interrupted, cause = True, None
    except Exception as error:
        interrupted, cause = False, error
        if isinstance(error, OSError):
            reason, advice = f": {error}", "Once that is mended, the same command goes on."
        elif not math.isfinite(progress.loss):
            reason = f" in epoch {len(checkpoints.rows) + 1} because the loss became "
            reason += f"{progress.loss}"
            advice = (
                f"Use a lower `learning_rate` (it was {recipe.learning_rate:g}) in a new folder, "
                "and check images and labels for NaN"
                + (", or train without half precision." if recipe.precision == "float16" else ".")
            )
        elif process_count() > 1:  # JAX has no one type for it
            reason = " because this process lost the others, or they lost it "
            reason += f"({str(error).partition(chr(10))[0]})"
            advice = "The same commands go on from there."
        else:
            raise
    kept = checkpoints.what_is_kept() if is_first() else "Process 0 keeps what was done."
    raise TrainingStopped(f"Stopped{reason}. {kept} {advice}", interrupted) from cause


@contextlib.contextmanager
def _precision(precision: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision if precision == "float32" else f"mixed_{precision}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
