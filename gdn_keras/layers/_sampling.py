"""Applying `scale_space`'s matrices and stencils to tensors, with `keras.ops` only."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from keras import backend, ops

from gdn_keras.scale_space import Band, gaussian_kernel

Matrix = np.ndarray | Band

# Whether Keras may compile by itself: on CPUs, TensorFlow's XLA convolves ten times slower.
PAYS_TO_JIT = backend.backend() != "tensorflow"

# Entries of two matrices multiplied out, up to which one product is faster than two.
_SMALL = 4096


def sample(
    x: Any,
    rows: Matrix,
    columns: Matrix,
    swapped: bool = False,
    at_once: bool = True,
    training: bool | None = True,
) -> Any:
    """A_y X A_x^T for every image and feature channel, rows and columns swapped in the result.

    From `x` [batch, height, width, channels], in which they may be `swapped` already, A_y
    [p, height] and A_x [q, width] to [batch, q, p, channels]. Both are long products over
    contiguous memory, with one transposition between them; putting the axes back would cost
    another. Small matrices are multiplied out to one, if they may be used `at_once`. Without
    `training`, bands are applied in a way whose gradient is slow.
    """
    rows, columns = (columns, rows) if swapped else (rows, columns)
    (p, height), (q, width) = rows.shape, columns.shape
    channels = x.shape[-1]
    whole = isinstance(rows, np.ndarray) and isinstance(columns, np.ndarray)
    if at_once and whole and p * height * q * width <= _SMALL:
        both = np.einsum("ph,qw->qphw", rows, columns)
        both = both.reshape(q * p, height * width)
        x = _product(both, ops.reshape(x, (-1, height * width, channels)))
        return ops.reshape(x, (-1, q, p, channels))
    x = _product(rows, ops.reshape(x, (-1, height, width * channels)), training)
    x = swap_axes(ops.reshape(x, (-1, p, width, channels)))
    x = _product(columns, ops.reshape(x, (-1, width, p * channels)), training)
    return ops.reshape(x, (-1, q, p, channels))


def _product(matrix: Matrix, x: Any, training: bool | None = True) -> Any:
    """Matrix times [batch, columns, features]."""
    if isinstance(matrix, np.ndarray):
        return ops.matmul(ops.convert_to_tensor(matrix, dtype=x.dtype), x)
    count, size = matrix.shape
    tiles, tile, width = ops.shape(matrix.weights)
    features = ops.shape(x)[2]
    windows = _windows(x, matrix.starts, width, size, training)
    windows = ops.reshape(windows, (-1, tiles, width, features))
    y = ops.matmul(ops.cast(matrix.weights, x.dtype), windows)
    y = ops.reshape(y, (-1, tiles * tile, features))
    if isinstance(count, int) and count == tiles * tile:
        return y
    # The gradient of a slice with steps is slow.
    return ops.split(y, [count], axis=1)[0] if isinstance(count, int) else y[:, :count]


def _windows(x: Any, starts: Any, width: int, size: Any, training: bool | None) -> Any:
    """Rows of `x` from each start on, `width` of them, one window after the other."""
    if not training or not isinstance(starts, np.ndarray) or size < width:
        starts = ops.reshape(ops.cast(starts, "int32"), (-1, 1))
        # Windows are wider than the smallest images, where their last weights are zero.
        index = ops.minimum(starts + np.arange(width, dtype="int32"), size - 1)
        return ops.take(x, ops.reshape(index, (-1,)), axis=1)
    # Pieces that are joined anew have gradients of the same kind; that of a gather adds up rows.
    starts = starts.astype("int64")
    cuts = np.unique([starts, starts + width])
    cuts = cuts[(cuts > 0) & (cuts < size)]
    pieces = ops.split(x, cuts, axis=1)
    first = [0, *cuts]
    joined = [
        piece
        for start in starts
        for piece, place in zip(pieces, first, strict=True)
        if start <= place < start + width
    ]
    return ops.concatenate(joined, axis=1)


def swap_axes(x: Any) -> Any:
    """Swap rows and columns of images."""
    return ops.transpose(x, (0, 2, 1, 3))


def smooth_depthwise(x: Any, sigma: float, margin: int, boundary: str, truncation: float) -> Any:
    """Smoothing by depthwise convolutions, with `margin` more pixels on each side for stencils."""
    kernel = gaussian_kernel(sigma, truncation)
    batch, height, width, channels = ops.shape(x)
    taps = np.broadcast_to(kernel[:, None], (len(kernel), channels))
    for axis in (1, 2):
        x = extend(x, axis, margin + len(kernel) // 2, boundary)
        shape = (-1, 1, channels, 1) if axis == 1 else (1, -1, channels, 1)
        weights = ops.convert_to_tensor(taps.reshape(shape), dtype=x.dtype)
        x = ops.depthwise_conv(x, weights, padding="valid", data_format="channels_last")
    # TensorFlow gives the shape before the convolution where there are no images.
    return ops.reshape(x, (batch, height + 2 * margin, width + 2 * margin, channels))


def extend(x: Any, axis: int, margin: int, boundary: str) -> Any:
    """Continue images beyond their edges by `margin` pixels, however large that is."""
    if boundary == "constant":
        padding = [(margin, margin) if a == axis else (0, 0) for a in range(4)]
        return ops.pad(x, padding)
    size = ops.shape(x)[axis]
    index = ops.arange(-margin, size + margin, dtype="int32")
    if boundary == "symmetric":
        index = ops.mod(index, 2 * size)
        index = ops.minimum(index, 2 * size - 1 - index)
    else:
        index = ops.clip(index, 0, size - 1)
    return ops.take(x, index, axis=axis)


def valid_convolution(x: Any, kernel: Any, training: bool | None = True) -> Any:
    """A VALID convolution; in training its gradient with respect to `x` is one too.

    On CPUs, TensorFlow's own gradient takes at least twice as long.
    """
    kernel = ops.cast(kernel, x.dtype)
    height, width = (size and size - kernel.shape[0] + 1 for size in x.shape[1:3])
    shape = (x.shape[0], height, width, kernel.shape[-1])
    if x.shape[0] == 0:  # for which TensorFlow's eager convolution gives the shape of its input
        return ops.zeros(shape, dtype=x.dtype)
    if backend.backend() != "tensorflow" or not training:
        return ops.conv(x, kernel, padding="valid", data_format="channels_last")
    y = _fast_convolution(kernel.shape[0], backend.standardize_dtype(x.dtype))(x, kernel)
    y.set_shape(shape)
    return y


@cache
def _fast_convolution(size: int, dtype: str) -> Callable[[Any, Any], Any]:
    """TensorFlow's convolution with kernels of a size, as one function for all graphs.

    The gradient of its input is the full convolution with the reflected kernel. TensorFlow never
    forgets a custom gradient, nor the graph that it is in: here its own.
    """
    import tensorflow as tf

    margin = size // 2
    padding = [(0, 0), (margin, margin), (margin, margin), (0, 0)]

    def call(x: Any, kernel: Any) -> Any:
        def grad(upstream: Any) -> tuple[Any, Any]:
            reflected = tf.transpose(tf.reverse(kernel, (0, 1)), (0, 1, 3, 2))
            dx = tf.nn.conv2d(tf.pad(upstream, padding), reflected, strides=1, padding="SAME")
            options = {"strides": [1, 1, 1, 1], "padding": "VALID"}
            dkernel = tf.raw_ops.Conv2DBackpropFilter(
                input=x, filter_sizes=tf.shape(kernel), out_backprop=upstream, **options
            )
            return dx, dkernel

        y = tf.nn.conv2d(x, kernel, strides=1, padding="VALID")
        # TensorFlow gives the shape of `x` where there are no images.
        shape = tf.shape(x) - (0, size - 1, size - 1, 0)
        return tf.reshape(y, (*tf.unstack(shape[:3]), tf.shape(kernel)[3])), grad

    images = tf.TensorSpec((None, None, None, None), dtype)
    kernels = tf.TensorSpec((size, size, None, None), dtype)
    return tf.function(tf.custom_gradient(call), input_signature=(images, kernels), autograph=False)
