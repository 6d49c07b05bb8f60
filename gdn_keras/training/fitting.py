"""The training recipe: the paper's loss and schedule, and a run that can be taken up again."""

import contextlib
import importlib.util
import os
from pathlib import Path

import keras

from gdn_keras.datasets import (
    evaluation_pipeline,
    random_affine,
    random_frame,
    steps_per_epoch,
    training_pipeline,
)
from gdn_keras.models import from_preset, retarget
from gdn_keras.training.callbacks import Checkpoints, NonFiniteLoss, Progress, StopWhenNotFinite
from gdn_keras.training.data import RunData
from gdn_keras.training.distribution import (
    OnCopy,
    copy_state,
    device_count,
    from_first,
    is_first,
    process_count,
    shared_out,
    training_strategy,
)
from gdn_keras.training.run_folder import LAST, LOGS, MODEL, save_model
from gdn_keras.training.settings import Settings

CLASSES = 10


class TrainingStopped(RuntimeError):
    """A run that ended before its time; the message says why and how to go on.

    Attributes:
        interrupted: Whether the user wanted it so.
    """

    def __init__(self, message: str, interrupted: bool = False):
        super().__init__(message)
        self.interrupted = interrupted


def build_network(settings: Settings) -> keras.Model:
    """The network of a run for its training images, compiled, with the seed's initial weights."""
    keras.utils.set_random_seed(settings.seed)
    changes = {"widths": settings.widths} if settings.widths else {}
    with _precision(settings.precision):
        model = from_preset(
            settings.network,
            input_shape=(settings.training_frame, settings.training_frame, 1),
            classes=CLASSES,
            scales=settings.training_scales,
            pooling=settings.pooling,
            sampling=settings.sampling,
            **changes,
        )
    return model


def augmentation(settings: Settings):
    """What is done to each batch of training images, or `None`."""
    if not settings.augment:
        return None
    # With several sizes, shifts are those of the smallest and frames those of the largest, so that
    # no digit is lost.
    move, cut = random_affine(min(settings.train_sizes)), random_frame(max(settings.train_sizes))
    if settings.images == "mnist":  # whose digits all lie well inside their frame
        return move
    return lambda images, seed: cut(move(images, seed), seed + 1)


def compile_network(model: keras.Model, settings: Settings, steps: int) -> None:
    """Loss, optimiser and schedule: a half cosine over all steps of the training.

    Args:
        steps: Steps in the whole training.
    """
    schedule = keras.optimizers.schedules.CosineDecay(
        settings.learning_rate, steps, alpha=settings.final_learning_rate / settings.learning_rate
    )
    optimizer = keras.optimizers.Adam(schedule)
    if settings.precision == "float16":
        # Keras would wrap it by itself, but then not know it again when it loads the file.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    losses = {
        "binary": keras.losses.BinaryCrossentropy,
        "softmax": keras.losses.CategoricalCrossentropy,
    }
    model.compile(
        optimizer=optimizer,
        loss=losses[settings.loss](from_logits=True),
        metrics=[keras.metrics.CategoricalAccuracy(name="accuracy")],
        jit_compile=settings.jit or keras.backend.backend() == "jax",
    )


def train_network(settings: Settings, data: RunData, folder: Path) -> keras.Model:
    """Trains in `folder`, from the beginning or from where a run of equal settings was stopped.

    After each epoch, last.keras holds the weights and the optimiser, best.keras the weights of the
    highest validation accuracy, and history.csv the history. The order of the images depends on
    the seed and the epoch only, so that a run that was killed ends with the weights of one that
    was not. Of several processes that train together, the first alone uses the folder.

    Returns:
        The trained network, for test images and with all scale channels; also in model.keras.

    Raises:
        TrainingStopped: By Ctrl-C, a full disk or a non-finite loss; a message for the user.
    """
    make_deterministic(settings)
    steps = steps_per_epoch(len(data.train.labels), settings.batch_size)
    checkpoints = Checkpoints(folder, steps)
    model = _compiled_network(settings, steps)
    done = int(from_first(checkpoints.restore(model) if is_first() else 0))
    if done and is_first():
        print(f"Going on after epoch {done} of {settings.epochs}.", flush=True)
    if done < settings.epochs and device_count(settings) == 1:
        _fit(model, settings, data, folder, checkpoints, done)
    elif done < settings.epochs:
        with training_strategy(settings).scope():
            shared = _compiled_network(settings, steps)
            copy_state(model, shared)
            _fit(shared, settings, data, folder, checkpoints, done, copy=model)
        model.set_weights(shared.get_weights())
    model = finished_network(model, settings)
    if is_first():
        save_model(model, folder / MODEL)
    return model


def _compiled_network(settings, steps):
    model = build_network(settings)
    compile_network(model, settings, steps * settings.epochs)
    model.optimizer.build(model.trainable_variables)
    return model


def finished_network(model: keras.Model, settings: Settings) -> keras.Model:
    """The same weights, for test images and with all scale channels."""
    return retarget(model, (settings.frame, settings.frame, 1), settings.scales)


def make_deterministic(settings: Settings) -> None:
    """Equal weights from equal settings on GPUs too; on CPUs they are equal anyway.

    XLA does not know this mode; it has deterministic sums of its own.
    """
    import tensorflow as tf

    if keras.backend.backend() != "tensorflow":
        # TensorFlow only reads the images then, and would take the GPUs' memory.
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices([], "GPU")
    elif tf.config.list_physical_devices("GPU") and not settings.jit:
        tf.config.experimental.enable_op_determinism()


def _fit(model, settings, data, folder, checkpoints, done, copy=None):
    options = {"batch_size": settings.batch_size, "num_classes": CLASSES}
    devices = device_count(settings)
    callbacks = [StopWhenNotFinite()]
    if is_first():
        callbacks.append(checkpoints if copy is None else OnCopy(copy, [checkpoints]))
        callbacks.append(Progress(settings.epochs, checkpoints.steps))
    if is_first() and importlib.util.find_spec("tensorboard"):
        log_dir = os.fspath(folder / LOGS)
        callbacks.append(keras.callbacks.TensorBoard(log_dir, write_graph=False))
    try:
        batches = training_pipeline(
            *data.train,
            seed=settings.seed,
            initial_epoch=done,
            augment=augmentation(settings),
            **options,
        )
        held_out = evaluation_pipeline(*data.validation, **options)
        model.fit(
            shared_out(batches, devices),
            validation_data=shared_out(held_out, devices),
            steps_per_epoch=checkpoints.steps,
            initial_epoch=done,
            epochs=settings.epochs,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
    except KeyboardInterrupt:
        kept = _what_is_kept(checkpoints, folder)
        raise TrainingStopped(
            f"Stopped. {kept} The same command goes on from there.", interrupted=True
        ) from None
    except OSError as error:
        raise TrainingStopped(
            f"Stopped: {error}. {_what_is_kept(checkpoints, folder)} Once that is "
            "mended, the same command goes on."
        ) from error
    except NonFiniteLoss as error:
        reason = "half precision overflows" if settings.precision == "float16" else "it is unusual"
        raise TrainingStopped(
            f"Stopped in epoch {len(checkpoints.rows) + 1} because {error}. "
            f"{_what_is_kept(checkpoints, folder)} Try a lower --learning-rate (it was "
            f"{settings.learning_rate:g}), and another --output; {reason}, so look at the images "
            "and labels too where they are your own."
        ) from None
    except Exception as error:  # JAX has no one type for it
        if process_count() == 1:
            raise
        reason = str(error).partition("\n")[0]
        raise TrainingStopped(
            f"Stopped because this process lost the others, or they lost it ({reason}). "
            f"{_what_is_kept(checkpoints, folder)} The same commands go on from there."
        ) from error


def _what_is_kept(checkpoints, folder) -> str:
    if not is_first():
        return "Process 0 keeps what was done."
    kept = checkpoints.kept
    if not kept:
        return "No epoch was complete, so that nothing was kept."
    return (
        f"{folder / LAST} holds the network after epoch {kept['epoch']} "
        f"(validation {kept['val_accuracy']:.2%})."
    )


@contextlib.contextmanager
def _precision(precision: str):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision if precision == "float32" else f"mixed_{precision}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
