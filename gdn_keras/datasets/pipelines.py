"""tf.data pipelines from arrays to `model.fit` and `model.evaluate`."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np

from gdn_keras.checks import check_integer
from gdn_keras.datasets.boxes import pad_boxes
from gdn_keras.datasets.image_data import check_classes, check_labels

if TYPE_CHECKING:
    import tensorflow as tf

# Batches made ahead of the step that wants them: enough to hide their making, few enough that the
# pipeline does not compete with the step for the cores.
_AHEAD = 4


def training_pipeline(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    batch_size: int = 50,
    num_classes: int = 10,
    seed: int = 0,
    initial_epoch: int = 0,
    transform: Callable | None = None,
    augment: Sequence[Callable] = (),
) -> "tf.data.Dataset":
    """Endless shuffled batches for training: epoch after epoch, each in an order of its own.

    The order of epoch `e` depends on `(seed, e)` only, see `epoch_order`, so that a run can be
    repeated, and one that was stopped goes on as if it had not been, given the `initial_epoch`.
    The data set has no end, so `fit` must be told how long an epoch is, or it will not end either:

    >>> steps = steps_per_epoch(len(images))  # doctest: +SKIP
    >>> model.fit(training_pipeline(images, labels), steps_per_epoch=steps)  # doctest: +SKIP

    Args:
        images: `[n, h, w]` or `[n, h, w, channels]`, of any integer or float type. Batches are read
            from it as they are needed, so it may be mapped from disk.
        labels: Integers `[n]` in `[0, num_classes)`.
        batch_size: Images in a batch.
        num_classes: Length of the one-hot labels.
        seed: Non-negative integer.
        initial_epoch: The epoch to begin with, as in `fit`.
        transform: Function of a NumPy batch of images as they are stored, such as
            `functools.partial(rescale_images, size=2)`, which makes MNIST Large Scale from 28×28
            digits on the fly.
        augment: Layers for each batch, called as `layer(images, seed=…)`, such as `RandomAffine()`.
            Their seeds depend on `seed` and the images of the batch only.

    Returns:
        `tf.data.Dataset` of float32 images `[batch, h, w, channels]` and float32 one-hot labels
        `[batch, num_classes]`.
    """
    import tensorflow as tf

    check_integer("num_classes", num_classes)
    labels = _checked(images, labels, batch_size, num_classes)
    check_integer("seed", seed, minimum=0)
    check_integer("initial_epoch", initial_epoch, minimum=0)

    def one_epoch(epoch: "tf.Tensor") -> "tf.data.Dataset":
        order = tf.numpy_function(lambda e: epoch_order(len(labels), seed, e), [epoch], tf.int64)
        order.set_shape([len(labels)])
        return tf.data.Dataset.from_tensor_slices(order).batch(batch_size)

    epochs = tf.data.Dataset.range(initial_epoch, tf.int64.max)
    order = epochs.flat_map(one_epoch)
    return _endless(_gather(order, images, labels, num_classes, transform, augment, seed))


def evaluation_pipeline(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    batch_size: int = 50,
    num_classes: int | None = None,
    transform: Callable | None = None,
) -> "tf.data.Dataset":
    """All images once, in their order, for `evaluate` and `predict`.

    Args:
        num_classes: Length of one-hot labels; integer labels if `None`.

    The other arguments are those of `training_pipeline`.

    Returns:
        `tf.data.Dataset` of float32 images and of int64 labels `[batch]`, or one-hot ones.
    """
    import tensorflow as tf

    labels = _checked(images, labels, batch_size, num_classes)
    order = tf.data.Dataset.range(len(labels)).batch(batch_size)
    return _gather(order, images, labels, num_classes, transform).prefetch(_AHEAD)


def drawn_pipeline(
    draw: Callable[[int, int], Sequence[np.ndarray]],
    shape: tuple[int, int, int],
    most: int | None,
    batch_size: int,
    seed: int,
    first: int,
) -> "tf.data.Dataset":
    """Endless batches of uint8 images with boxes and labels, for detectors.

    Batch `k` holds what `draw(seed, number)` makes of the numbers from `k * batch_size` on, so that
    a run that was stopped goes on as if it had not been, given the number of its `first` batch.
    Boxes and labels are padded to `most` objects; to a power of two if it is `None`.
    """
    import tensorflow as tf

    check_integer("batch_size", batch_size)
    check_integer("seed", seed, minimum=0)
    check_integer("first", first, minimum=0)

    def stacked(batch: np.ndarray) -> tuple[np.ndarray, ...]:
        drawn = [draw(seed, int(batch) * batch_size + k)[:3] for k in range(batch_size)]
        images, boxes, labels = zip(*drawn, strict=True)
        # JAX compiles a step for each number of boxes.
        least = most or 2 ** math.ceil(math.log2(max(8, *map(len, labels))))
        truth = pad_boxes(boxes, labels, least)
        return np.stack(images), truth["boxes"], truth["labels"]

    def read(batch: "tf.Tensor") -> tuple["tf.Tensor", dict[str, "tf.Tensor"]]:
        types = (tf.uint8, tf.float32, tf.int32)
        images, boxes, labels = tf.numpy_function(stacked, [batch], types, stateful=False)
        images.set_shape([batch_size, *shape])
        boxes.set_shape([batch_size, most, 4])
        labels.set_shape([batch_size, most])
        return images, {"boxes": boxes, "labels": labels}

    return _endless(tf.data.Dataset.range(first, tf.int64.max).map(read))


def epoch_order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of `count` images in one epoch, a function of its arguments and nothing else."""
    return np.random.default_rng([seed, int(epoch)]).permutation(count)


def steps_per_epoch(count: int, batch_size: int = 50) -> int:
    """Number of batches that `count` images make."""
    check_integer("count", count, minimum=0)
    return -(-count // check_integer("batch_size", batch_size))


def _endless(batches: "tf.data.Dataset") -> "tf.data.Dataset":
    """Batches from a range that ends for tf.data only, made ahead of the steps that want them."""
    import tensorflow as tf

    # Keras would take the way to the end for one epoch.
    infinite = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return batches.apply(infinite).prefetch(_AHEAD)


def _gather(
    indices: "tf.data.Dataset",
    images: np.ndarray,
    labels: np.ndarray,
    num_classes: int | None,
    transform: Callable | None,
    augment: Sequence[Callable] = (),
    seed: int = 0,
) -> "tf.data.Dataset":
    """Batches of float32 images and of labels from a data set of batches of indices."""
    import tensorflow as tf

    def stored(index: np.ndarray) -> np.ndarray:
        batch = np.asarray(images[index])
        return batch if transform is None else transform(batch)

    sample = stored(np.zeros(1, "int64"))

    def read(index: "tf.Tensor") -> tuple["tf.Tensor", "tf.Tensor"]:
        x = tf.numpy_function(stored, [index], tf.as_dtype(sample.dtype), stateful=False)
        x.set_shape([index.shape[0], *sample.shape[1:]])
        x = tf.cast(x if x.shape.rank == 4 else x[..., None], "float32")
        number = tf.reduce_sum(index * tf.range(1, tf.size(index, "int64") + 1))
        for k, layer in enumerate(augment):
            x = _changed(layer, x, tf.stack([seed, number + k]))
        y = tf.gather(labels, index)
        return x, y if num_classes is None else tf.one_hot(y, num_classes)

    return indices.map(read, num_parallel_calls=_AHEAD, deterministic=True)


def _changed(layer: Callable, images: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
    """What a layer makes of a batch, on any backend."""
    import tensorflow as tf

    if keras.backend.backend() == "tensorflow":
        return layer(images, seed=seed)

    def call(images: np.ndarray, seed: np.ndarray) -> np.ndarray:
        return keras.ops.convert_to_numpy(layer(images, seed=seed))

    changed = tf.numpy_function(call, [images, seed], "float32", stateful=False)
    return tf.ensure_shape(changed, images.shape)


def _checked(
    images: np.ndarray, labels: np.ndarray, batch_size: int, num_classes: int | None
) -> np.ndarray:
    """`labels` as int64, once everything has been found to fit together."""
    labels = check_labels(images, labels)
    if not labels.size:
        raise ValueError("`images` must hold at least one image. Received: none")
    check_integer("batch_size", batch_size)
    if num_classes is not None:
        check_classes("labels", labels, num_classes)
    return labels.astype("int64")
