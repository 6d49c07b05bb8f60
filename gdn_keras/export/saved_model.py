"""Networks as SavedModels."""

import os
from pathlib import Path

import keras
import numpy as np

from gdn_keras.atomic_files import replacing
from gdn_keras.checks import check_choice, check_positive
from gdn_keras.export.checks import check_equal
from gdn_keras.export.endpoints import PROBABILITIES, make_endpoints
from gdn_keras.export.freezing import freeze, in_float32, require_tensorflow
from gdn_keras.models import (
    channel_model,
    retarget,
    scale_channels_of,
)

_FILES = {"saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra"}


def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike,
    *,
    training_size: float | None = None,
    reference_images: np.ndarray | None = None,
    probabilities: str = "sigmoid",
    overwrite: bool = True,
) -> Path:
    """Writes a SavedModel that runs with TensorFlow alone, for any batch size.

    Endpoints, each a method of the loaded object and a signature of the same name:

    - `serve`, also the signature `serving_default`: float32 images [batch, height, width,
      channels] (as a method float16 too), as `model.predict` takes them, to `logits` and
      `probabilities` [batch, classes], and `class_name` [batch] where classes have names.
      Probabilities are the sigmoid of each logit for networks that are trained with binary
      cross-entropy on each class, and need not sum to one; see `probabilities`.
    - `scales`: the same images to `channel_logits` [batch, scale channels, classes];
      `selected_scale` [batch], the sigma_0 of the channel that holds the largest logit of all
      channels and classes; and `relative_size` [batch], see `training_size`.
    - `serve_uint8`, where the model holds its preprocessor (see `Classifier`): uint8 images (as a
      method, for grey images, also [batch, height, width]) to all of this.
    - `class_names`, where classes have names: without input, to `class_names` [classes].

    Example:

    >>> gdn_keras.export.export_saved_model(model, "run/saved_model")
    >>> served = tf.saved_model.load("run/saved_model")  # no gdn_keras, no keras
    >>> served.serve(images)["probabilities"]

    Args:
        model: A model made by `gaussian_derivative_network`, or another functional model from
            images over the stack of one `ScaleChannels` layer to logits. It is exported in
            float32, whatever precision it was trained in.
        path: Folder of the SavedModel. It appears when it is complete and checked.
        training_size: Size of the objects in `reference_images`. `relative_size` then is the
            estimated size in the same units, training_size * selected_scale / reference, where
            the reference is the median scale selected on those images. Without it,
            `relative_size` is the selected scale over that of the finest channel. Either way its
            steps are those of the scale channels.
        reference_images: Images with objects of size `training_size`, such as training images, in
            frames of any size.
        probabilities: "sigmoid", or "softmax" for networks that were trained with that.
        overwrite: Whether a SavedModel at `path` is replaced. Anything else there never is.

    Returns:
        The folder.

    Raises:
        ValueError: If the model or an argument is of the wrong kind, or the SavedModel's logits
            differ from the model's.
        FileExistsError: If there is something at `path` that may not be replaced.
        RuntimeError: If Keras does not run on TensorFlow.
    """
    tf = require_tensorflow()
    check_choice("probabilities", probabilities, PROBABILITIES)
    model = in_float32(model)
    path = _check_folder(path, overwrite)
    scales = scale_channels_of(model).scales
    module, signatures = make_endpoints(
        freeze(model),
        scales,
        _unit_scale(model, training_size, reference_images),
        probabilities,
        getattr(model, "class_names", None),
        raw_pixels=getattr(model, "preprocessor", None) is not None,
    )
    with replacing(path) as temporary:
        try:
            tf.saved_model.save(module, str(temporary), signatures)
        except tf.errors.OpError as error:  # such as a full disk
            raise OSError(f"{path} cannot be written: {error.message}") from error
        served = tf.saved_model.load(str(temporary)).signatures["serve"]
        check_equal(model, lambda x: served(images=tf.constant(x))["logits"], "SavedModel")
    return path


def is_export_of(model: keras.Model, path: str | os.PathLike) -> bool:
    """Whether there is a SavedModel at `path` that loads and gives the logits of `model`."""
    import tensorflow as tf

    model = in_float32(model)
    try:
        served = tf.saved_model.load(os.fspath(path)).signatures["serve"]
        check_equal(model, lambda x: served(images=tf.constant(x))["logits"], "SavedModel")
    except Exception:  # damaged files fail in many ways
        return False
    return True


def _unit_scale(
    model: keras.Model, training_size: float | None, images: np.ndarray | None
) -> float:
    """sigma_0 over size, from the scales that are selected on images of a known size."""
    scales = scale_channels_of(model).scales
    if (training_size is None) != (images is None):
        raise ValueError(
            "`training_size` and `reference_images` must be given together. Received: "
            f"training_size={training_size}, reference_images "
            f"{'missing' if images is None else 'given'}"
        )
    if training_size is None:
        return scales[0]
    training_size = check_positive("training_size", training_size)
    images = np.asarray(images, "float32")
    if images.ndim != 4 or not images.size or images.shape[-1] != model.input_shape[-1]:
        raise ValueError(
            "`reference_images` must be images as the network takes them, "
            f"[n, height, width, {model.input_shape[-1]}]. Received: shape {images.shape}"
        )
    stack = channel_model(retarget(model, images.shape[1:]))
    stack.compile(jit_compile=False)
    winners = stack.predict(images, batch_size=50, verbose=0).max(axis=2).argmax(axis=1)
    return float(np.median(np.take(scales, winners))) / training_size


def _check_folder(path: str | os.PathLike, overwrite: bool) -> Path:
    path = Path(path).expanduser()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
    if not path.is_dir() or {file.name for file in path.iterdir()} - _FILES:
        raise FileExistsError(f"{path} exists and is not just a SavedModel. Choose another `path`.")
    if not overwrite:
        raise FileExistsError(f"{path} exists. Pass overwrite=True to replace it.")
    return path
