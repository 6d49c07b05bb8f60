"""The training itself: the paper's loss and schedule, taken up again where it was stopped."""

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras

from gdn_keras.datasets import (
    ImageData,
    evaluation_pipeline,
    random_affine,
    random_contrast,
    random_frame,
    steps_per_epoch,
    training_pipeline,
)
from gdn_keras.models import Classifier, from_preset, retarget
from gdn_keras.reporting import Reporter
from gdn_keras.training.callbacks import (
    Checkpoints,
    NonFiniteLoss,
    ProgressLine,
    StopWhenNotFinite,
)
from gdn_keras.training.distribution import (
    OnCopy,
    agreed,
    copy_state,
    device_count,
    process_count,
    process_index,
    shared_out,
    training_strategy,
)
from gdn_keras.training.recipe import Recipe
from gdn_keras.training.run_folder import LAST, LOGS

_DIGIT = 28  # pixels of the digits that the augmentation is given in units of


class TrainingStopped(RuntimeError):
    """A run that ended before its time; the message says why and how to go on.

    Attributes:
        interrupted: Whether the user wanted it so.
    """

    def __init__(self, message: str, interrupted: bool = False):
        super().__init__(message)
        self.interrupted = interrupted


def build_network(recipe: Recipe, data: ImageData) -> keras.Model:
    """The network for the training images, with the seed's initial weights."""
    keras.utils.set_random_seed(recipe.seed)
    changes = {"widths": recipe.widths} if recipe.widths else {}
    with _precision(recipe.precision):
        network = from_preset(
            recipe.network,
            load_weights=False,
            input_shape=data.train.images.shape[1:],
            num_classes=len(data.class_names),
            scales=recipe.training_scales,
            pooling=recipe.pooling,
            scale_dropout=recipe.scale_dropout,
            sampling=recipe.sampling,
            cone=recipe.cone,
            readout=recipe.readout,
            order=recipe.order,
            zero_order=recipe.zero_order,
            residual=recipe.residual,
            **changes,
        )
    return Classifier(network, data.class_names, data.preprocessor)


def augmentation(recipe: Recipe, frame: int, pixels: bool = False) -> Callable | None:
    """What is done to each batch of training images, or `None`.

    Args:
        recipe: Says what.
        frame: Height and width of the images.
        pixels: Whether they are pixels, which then stay in 0 to 255.
    """
    changes = []
    if recipe.augment is not None:
        smallest, largest = (extent / _DIGIT for extent in recipe.augment)
        changes.append(random_affine(smallest))
        if recipe.augment[1] < frame:  # there is something around the objects to cut off
            changes.append(random_frame(largest))
    if recipe.contrast is not None:
        changes.append(random_contrast(recipe.contrast))
    if not changes:
        return None

    def apply(images: Any, seed: Any) -> Any:
        for n, change in enumerate(changes):
            images = change(images, seed + n)
        if not pixels:
            return images
        import tensorflow as tf

        return tf.clip_by_value(images, 0.0, 255.0)  # as a sensor does with too much light

    return apply


def compile_network(model: keras.Model, recipe: Recipe, steps: int) -> None:
    """Loss, optimiser and schedule: a half cosine over all steps of the training.

    Args:
        steps: Steps in the whole training.
    """
    schedule = keras.optimizers.schedules.CosineDecay(
        recipe.learning_rate, steps, alpha=recipe.final_learning_rate / recipe.learning_rate
    )
    optimizer = keras.optimizers.Adam(schedule)
    if recipe.precision == "float16":
        # Keras would wrap it by itself, but then not know it again when it loads the file.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    losses = {
        "binary": keras.losses.BinaryCrossentropy,
        "softmax": keras.losses.CategoricalCrossentropy,
    }
    model.compile(
        optimizer=optimizer,
        loss=losses[recipe.loss](from_logits=True),
        metrics=[keras.metrics.CategoricalAccuracy(name="accuracy")],
        jit_compile=recipe.jit or keras.backend.backend() == "jax",
    )


def train_network(
    network: keras.Model, recipe: Recipe, data: ImageData, folder: Path, reporter: Reporter
) -> keras.Model:
    """Trains in `folder`, from the beginning or from where a run of equal settings was stopped.

    After each epoch, last.keras holds the weights and the optimiser, best.keras the weights of the
    highest validation accuracy, and history.csv the history. The order of the images depends on
    the seed and the epoch only, so that a run that was killed ends with the weights of one that
    was not.

    Args:
        network: As from `build_network`; it stays as it is.

    Returns:
        The trained network, for training images.

    Raises:
        TrainingStopped: By Ctrl-C, a full disk or a non-finite loss; a message for the user.
    """
    make_deterministic(recipe)
    checkpoints = Checkpoints(
        folder, steps_per_epoch(len(data.train.labels), recipe.batch_size), reporter
    )
    model = _compiled_copy(network, recipe, checkpoints.steps)
    done = int(agreed(checkpoints.restore(model)))
    if done:
        reporter.line(f"Going on after epoch {done} of {recipe.epochs}.")
    if done < recipe.epochs and device_count(recipe) == 1:
        with _explained(recipe, checkpoints):
            _fit(model, recipe, data, done, _callbacks(recipe, checkpoints, checkpoints))
    elif done < recipe.epochs:
        with training_strategy(recipe).scope():
            shared = _compiled_copy(network, recipe, checkpoints.steps)
            copy_state(model, shared)
            on_copy = OnCopy(model, [checkpoints])
            with _explained(recipe, checkpoints):
                _fit(shared, recipe, data, done, _callbacks(recipe, checkpoints, on_copy))
        model.set_weights(shared.get_weights())
    return model


def make_deterministic(recipe: Recipe) -> None:
    """Equal weights from equal settings on GPUs too; on CPUs they are equal anyway.

    XLA does not know this mode; it has deterministic sums of its own.
    """
    import tensorflow as tf

    if keras.backend.backend() != "tensorflow":
        # TensorFlow only reads the images then, and would take the GPUs' memory.
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices([], "GPU")
    elif tf.config.list_physical_devices("GPU") and not recipe.jit:
        tf.config.experimental.enable_op_determinism()


def fit_options(recipe: Recipe, data: ImageData, done: int = 0) -> dict:
    """Arguments of `fit` that show the training images from an epoch on, in their order."""
    batches = training_pipeline(
        *data.train,
        batch_size=recipe.batch_size,
        num_classes=len(data.class_names),
        seed=recipe.seed,
        initial_epoch=done,
        augment=augmentation(
            recipe, min(data.train.images.shape[1:3]), pixels=data.preprocessor is not None
        ),
    )
    return {
        "x": shared_out(batches, device_count(recipe)),
        "steps_per_epoch": steps_per_epoch(len(data.train.labels), recipe.batch_size),
        "initial_epoch": done,
        "shuffle": False,
    }


def _fit(model: keras.Model, recipe: Recipe, data: ImageData, done: int, callbacks: list) -> None:
    held_out = evaluation_pipeline(
        *data.validation, batch_size=recipe.batch_size, num_classes=len(data.class_names)
    )
    model.fit(
        **fit_options(recipe, data, done),
        validation_data=shared_out(held_out, device_count(recipe)),
        epochs=recipe.epochs,
        callbacks=callbacks,
        verbose=0,
    )


def _compiled_copy(network: keras.Model, recipe: Recipe, steps: int) -> keras.Model:
    model = retarget(network)
    compile_network(model, recipe, steps * recipe.epochs)
    model.optimizer.build(model.trainable_variables)
    return model


def _callbacks(
    recipe: Recipe, checkpoints: Checkpoints, keeping: keras.callbacks.Callback
) -> list[keras.callbacks.Callback]:
    if process_index() > 0:  # the first one keeps what is done; the others must not be late
        return [StopWhenNotFinite()]
    progress = ProgressLine(recipe.epochs, checkpoints.steps, checkpoints.reporter)
    callbacks = [StopWhenNotFinite(), keeping, progress]
    if importlib.util.find_spec("tensorboard"):
        log_dir = os.fspath(checkpoints.folder / LOGS)
        callbacks.append(keras.callbacks.TensorBoard(log_dir, write_graph=False))
    return callbacks


@contextlib.contextmanager
def _explained(recipe: Recipe, checkpoints: Checkpoints) -> Iterator[None]:
    """Turns what may end a training into a `TrainingStopped` that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise TrainingStopped(
            f"Stopped. {_what_is_kept(checkpoints)} The same command goes on from there.",
            interrupted=True,
        ) from None
    except OSError as error:
        raise TrainingStopped(
            f"Stopped: {error}. {_what_is_kept(checkpoints)} Once that is mended, the same "
            "command goes on."
        ) from error
    except NonFiniteLoss as error:
        reason = "half precision overflows" if recipe.precision == "float16" else "it is unusual"
        raise TrainingStopped(
            f"Stopped in epoch {len(checkpoints.rows) + 1} because {error}. "
            f"{_what_is_kept(checkpoints)} Try a lower `learning_rate` (it was "
            f"{recipe.learning_rate:g}) and another folder; {reason}, so look at the images and "
            "labels too where they are your own."
        ) from None
    except Exception as error:  # JAX has no one type for it
        if process_count() == 1:
            raise
        reason = str(error).partition("\n")[0]
        raise TrainingStopped(
            f"Stopped because this process lost the others, or they lost it ({reason}). "
            f"{_what_is_kept(checkpoints)} The same commands go on from there."
        ) from error


def _what_is_kept(checkpoints: Checkpoints) -> str:
    if process_index() > 0:
        return "Process 0 keeps what was done."
    kept = checkpoints.kept
    if not kept:
        return "No epoch was complete, so that nothing was kept."
    return (
        f"{checkpoints.folder / LAST} holds the network after epoch {kept['epoch']} "
        f"(validation {kept['val_accuracy']:.2%})."
    )


@contextlib.contextmanager
def _precision(precision: str) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision if precision == "float32" else f"mixed_{precision}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
