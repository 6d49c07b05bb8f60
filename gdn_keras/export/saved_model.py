"""Classifiers, detectors and networks as SavedModels."""

import os
from pathlib import Path

import keras
import numpy as np

from gdn_keras.analysis import scale_selection
from gdn_keras.atomic_files import replacing
from gdn_keras.checks import check_choice, check_positive
from gdn_keras.models import network_of, retarget, scale_channels_of

_FILES = {"saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra"}
# What an export may differ from the Keras model, in units of the largest score or of 1.
_TOLERANCE = 1e-4


def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike,
    *,
    training_size: float | None = None,
    reference_images: np.ndarray | None = None,
    probabilities: str = "sigmoid",
) -> Path:
    """Writes a SavedModel that runs with TensorFlow alone, for any batch size.

    Each endpoint is a method of the loaded object and a signature of the same name. Those of a
    classifier, or of a plain network with scale channels:

    - `serve`, also the signature `serving_default`: float32 images [batch, height, width,
      channels] (as a method float16 too), as `model.predict` takes them, to `logits` and
      `probabilities` [batch, classes], and `class_name` [batch] where classes have names.
    - `scales`: the same images to `channel_logits` [batch, scale channels, classes], the
      `selected_scale` [batch], sigma_0 of the channel with the largest logit, and `relative_size`.
    - `serve_uint8`, where the model holds its preprocessor: uint8 images (as a method also grey
      ones [batch, height, width]) to all of this.
    - `class_names`, where classes have names: without input, to `class_names` [classes].

    A detector has `detect`: uint8 images of any size to what its `predict` gives, and the `names`
    of what was found; `class_names`; and `size_range`, the sizes that it finds, in pixels.

    Example:

    >>> export_saved_model(model, "run/saved_model")
    >>> tf.saved_model.load("run/saved_model").serve(images)["probabilities"]

    Args:
        model: A `Classifier`, a `Detector` of images of any size, or a functional model from images
            over the stack of one `ScaleChannels` layer to logits. It is exported in float32.
        path: Folder of the SavedModel. It appears when it is complete and checked. A SavedModel
            that is there is replaced, anything else never is.
        training_size: Size of the objects in `reference_images`. `relative_size` is in the same
            units then: the median scale selected on those images stands for `training_size`.
            Without it, it is the selected scale over that of the finest channel.
        reference_images: Images with objects of that size, in frames of any size.
        probabilities: "sigmoid" of each logit, which need not sum to one, or "softmax" for networks
            that were trained with that.

    Raises:
        ValueError: Also if the SavedModel's answers differ from the model's.
        FileExistsError, RuntimeError: If `path` is taken, or Keras does not run on TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Export needs Keras on TensorFlow: set KERAS_BACKEND=tensorflow and load the .keras "
            f"file of the model there. Received: backend={keras.backend.backend()!r}"
        )
    import tensorflow as tf

    from gdn_keras.export.endpoints import classifier_endpoints, detector_endpoints

    check_choice("probabilities", probabilities, ("sigmoid", "softmax"))
    model, path = _in_float32(model), _check_folder(path)
    if hasattr(model, "detect"):
        endpoints = detector_endpoints(model)
    else:
        unit = _unit_scale(model, training_size, reference_images)
        endpoints = classifier_endpoints(model, unit, probabilities)
    archive = keras.export.ExportArchive()
    for name, function in endpoints.items():
        archive.add_endpoint(name, function)
    with replacing(path) as temporary:
        try:
            archive.write_out(str(temporary), verbose=False)
        except tf.errors.OpError as error:  # such as a full disk
            raise OSError(f"{path} cannot be written: {error.message}") from error
        _check_equal(model, temporary)
    return path


def is_export_of(model: keras.Model, path: str | os.PathLike) -> bool:
    """Whether there is a SavedModel at `path` that loads and gives the answers of `model`."""
    try:
        _check_equal(_in_float32(model), Path(path))
    except Exception:  # damaged files fail in many ways
        return False
    return True


def _check_equal(model: keras.Model, folder: Path) -> None:
    """Raises unless a SavedModel gives the model's scores, on a batch and on a single image."""
    import tensorflow as tf

    served = tf.saved_model.load(os.fspath(folder))
    shape = [size or 32 for size in network_of(model).input_shape[1:]]
    low, high = (0, 255) if getattr(model, "takes_pixels", False) else (-0.76, 0.76)
    images = np.random.default_rng(0).uniform(low, high, (3, *shape)).astype("float32")
    if hasattr(model, "detect"):
        # Only the best of each image: rounding may change the order of the others.
        run, key, count, images = served.detect, "confidence", 1, images.astype("uint8")
        expected = model.detect(images)[key] + 0 * keras.ops.sum(model(images))  # NaN finds nothing
    else:
        run, key, count = served.serve, "logits", None
        expected = model(images, training=False)
    expected = keras.ops.convert_to_numpy(expected)[:, :count]
    for batch in (slice(None), slice(1)):
        found = np.asarray(run(images[batch])[key])[:, :count]
        difference = np.abs(found - expected[batch]).max()
        # Written so that NaN fails.
        if not difference <= _TOLERANCE * max(1.0, np.abs(expected).max()):
            raise ValueError(
                f"The scores of the SavedModel differ from the model's by {difference:.2g}, more "
                f"than {_TOLERANCE:g}. Nothing was written."
            )


def _in_float32(model: keras.Model) -> keras.Model:
    """The model itself if it computes in float32, else a copy that does."""
    if not hasattr(model, "detect"):
        stack, logits = scale_channels_of(model).output.shape, model.output_shape
        if (len(stack), len(logits)) != (3, 2):
            raise ValueError(
                "`model` must go from images over a stack [batch, scale channels, classes], as of "
                'readout="center", to logits [batch, classes]. '
                f"Received: {tuple(stack)} and {tuple(logits)}"
            )
    if all(layer.compute_dtype == "float32" for layer in _all_layers(model)):
        return model
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    for layer in _all_layers(copy):
        layer.dtype_policy = "float32"
    return copy


def _all_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    parts = [*getattr(layer, "layers", ()), getattr(layer, "network", None)]
    return [layer, *(inner for part in parts if part for inner in _all_layers(part))]


def _unit_scale(model: keras.Model, size: float | None, images: np.ndarray | None) -> float:
    """sigma_0 over size, from the scales that are selected on images of a known size."""
    if size is None and images is None:
        return scale_channels_of(model).scales[0]
    images = np.asarray([] if images is None else images, "float32")
    if images.ndim != 4 or not images.size or images.shape[-1] != model.input_shape[-1]:
        raise ValueError(
            "`reference_images` must go with `training_size` and have shape [n, height, width, "
            f"{model.input_shape[-1]}]. Received: shape {images.shape}"
        )
    selected = scale_selection(retarget(model, images.shape[1:]), images)
    return float(np.median(selected)) / check_positive("training_size", size or 0)


def _check_folder(path: str | os.PathLike) -> Path:
    path = Path(path).expanduser()
    if path.exists() and (not path.is_dir() or {file.name for file in path.iterdir()} - _FILES):
        raise FileExistsError(f"{path} exists and is not just a SavedModel. Choose another `path`.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
