"""Training a detector in a folder, so that it can be stopped and taken up again."""

from collections.abc import Callable
from pathlib import Path

import keras

from gdn_keras.datasets.scenes import scene_pipeline
from gdn_keras.detection.detector import Detector
from gdn_keras.detection.settings import DetectorSettings
from gdn_keras.layers import ArctanContrast
from gdn_keras.models import gaussian_derivative_network
from gdn_keras.reporting import Reporter
from gdn_keras.training.callbacks import (
    NonFiniteLoss,
    ProgressLine,
    StopWhenNotFinite,
    read_history,
    write_history,
)
from gdn_keras.training.fitting import TrainingStopped
from gdn_keras.training.run_folder import LAST, MODEL, is_whole, read_epochs, save_model

CLASSES = 10
_PART_THRESHOLD = 0.7

# From settings and the sigma_0 of scale channels to a network with points.
NetworkBuilder = Callable[[DetectorSettings, tuple[float, ...]], keras.Model]


def points_network(settings: DetectorSettings, scales: tuple[float, ...]) -> keras.Model:
    """The Gaussian derivative network of a detector of digits, for images of any size."""
    return gaussian_derivative_network(
        input_shape=(None, None, 1),
        widths=settings.widths,
        num_classes=CLASSES,
        scales=scales,
        scale_ratio=settings.scale_ratio,
        readout="points",
        boxes=settings.boxes,
    )


def train_detector(
    settings: DetectorSettings,
    folder: Path,
    build: NetworkBuilder = points_network,
    reporter: Reporter | None = None,
) -> Detector:
    """Trains in `folder`, from the beginning or from where it was stopped.

    After each epoch, last.keras holds the weights and the optimiser, and history.csv the losses.
    Scenes depend on the seed and their number only, so that a training that was killed ends with
    the weights of one that was not.

    Args:
        settings: What to train.
        folder: An existing folder.
        build: Function from settings and scales to a network whose weights do not depend on the
            scales; that of the package by default.
        reporter: What the training speaks through; to standard output by default.

    Returns:
        The trained detector, with all scale channels; also in model.keras.

    Raises:
        TrainingStopped: By Ctrl-C, a full disk or a non-finite loss; a message for the user.
    """
    reporter = reporter or Reporter()
    keras.utils.set_random_seed(settings.seed)
    detector = _detector(build(settings, settings.train_scales))
    _compile(detector, settings)
    checkpoints = _Checkpoints(folder)
    done = checkpoints.restore(detector)
    if done:
        reporter.line(f"Going on after epoch {done} of {settings.epochs}.")
    if done < settings.epochs:
        _fit(detector, settings, checkpoints, done, reporter)
    finished = _detector(build(settings, settings.scales))
    finished.network.set_weights(detector.network.get_weights())
    save_model(finished, folder / MODEL)
    return finished


def _detector(network: keras.Model) -> Detector:
    # Digits do not overlap, but parts of large ones look like small ones.
    return Detector(
        network,
        num_classes=CLASSES,
        preprocessor=ArctanContrast(stretch=False),
        part_threshold=_PART_THRESHOLD,
    )


def _compile(detector: Detector, settings: DetectorSettings) -> None:
    schedule = keras.optimizers.schedules.CosineDecay(
        settings.learning_rate,
        settings.steps * settings.epochs,
        alpha=settings.final_learning_rate / settings.learning_rate,
    )
    detector.compile(keras.optimizers.Adam(schedule))
    detector.optimizer.build(detector.trainable_variables)


def _fit(
    detector: Detector,
    settings: DetectorSettings,
    checkpoints: "_Checkpoints",
    done: int,
    reporter: Reporter,
) -> None:
    scenes = scene_pipeline(
        settings.training_scenes(),
        batch_size=settings.batch_size,
        seed=settings.seed,
        first=done * settings.steps,
    )
    callbacks = [
        StopWhenNotFinite(),
        checkpoints,
        ProgressLine(settings.epochs, settings.steps, reporter),
    ]
    try:
        detector.fit(
            scenes,
            steps_per_epoch=settings.steps,
            initial_epoch=done,
            epochs=settings.epochs,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
    except KeyboardInterrupt:
        raise TrainingStopped(
            f"Stopped. {checkpoints.kept()} The same command goes on from there.", interrupted=True
        ) from None
    except OSError as error:
        raise TrainingStopped(
            f"Stopped: {error}. {checkpoints.kept()} Once that is mended, the same command goes on."
        ) from error
    except NonFiniteLoss as error:
        raise TrainingStopped(
            f"Stopped because {error}. {checkpoints.kept()} Try a lower learning rate (it was "
            f"{settings.learning_rate:g}) in another folder."
        ) from None


class _Checkpoints(keras.callbacks.Callback):
    """Keeps the last epoch, weights and optimiser, and the history."""

    def __init__(self, folder: Path):
        super().__init__()
        self.folder, self.rows = folder, []

    def restore(self, detector: Detector) -> int:
        """Puts a compiled detector into the state of last.keras; the number of epochs done."""
        file = self.folder / LAST
        if not file.exists():
            return 0
        if not is_whole(file):
            raise OSError(f"{file} is damaged. Put a copy back, or remove it to begin anew.")
        detector.load_weights(file)
        epochs = read_epochs(file) or 0
        self.rows = read_history(self.folder, epochs)
        return epochs

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        rate = float(self.model.optimizer.learning_rate)
        row = {"epoch": epoch + 1, "loss": float(logs["loss"]), "learning_rate": rate}
        write_history(self.folder, [*self.rows, row])
        save_model(self.model, self.folder / LAST, epoch + 1)
        self.rows.append(row)

    def kept(self) -> str:
        """What a run that ends now leaves behind, in a sentence."""
        if not self.rows:
            return "No epoch was complete, so that nothing was kept."
        return f"{self.folder / LAST} holds the detector after epoch {self.rows[-1]['epoch']}."
