"""Running a network's layers in all scale channels at once."""

import keras
from keras import ops

from gdn_keras.layers._resampling import sample_transposed, swap_axes
from gdn_keras.layers.gaussian_derivative import GaussianDerivative
from gdn_keras.layers.scale_batch_normalization import ScaleBatchNormalization


def run_layers(network, scales, inputs, training):
    """Dense channels on images of any size, known or not: each layer on all pixels.

    Returns:
        [scale channels, batch, ...].
    """
    states = [inputs] * len(scales)
    for layer in network.layers:
        if isinstance(layer, GaussianDerivative):
            states = [layer(x, scale=scale) for x, scale in zip(states, scales, strict=True)]
        elif isinstance(layer, ScaleBatchNormalization):
            states = layer(states, training=training)
        else:
            states = [_call(layer, x, training) for x in states]
    return ops.stack(states)


def run_plan(network, groups, inputs, training):
    """All channels on the grids of a plan, channels of equal grids as one batch.

    Returns:
        [scale channels, batch, ...], in the order of the plan.
    """
    counts = [len(group.scales) for group in groups]
    shares = [count / sum(counts) for count in counts]
    states = [inputs] * len(groups)
    layers, k = list(network.layers), 0
    while layers:
        layer = layers.pop(0)
        if isinstance(layer, GaussianDerivative):
            affine = None if training else _pop_normalization(layer, layers)
            states = [
                _derive(layer, k, x, group, affine, training)
                for x, group in zip(states, groups, strict=True)
            ]
            k += 1
        elif isinstance(layer, ScaleBatchNormalization):
            states = layer(states, training=training, weights=shares)
        else:
            states = [_call(layer, x, training) for x in states]
    if len(states[0].shape) == 4:
        states = [_maps(x, group, k) for x, group in zip(states, groups, strict=True)]
    unstacked = [
        ops.reshape(x, (count, -1, *x.shape[1:])) for x, count in zip(states, counts, strict=True)
    ]
    return ops.concatenate(unstacked)


def _pop_normalization(layer, following):
    """Factor and offset of a normalisation right after `layer`, which then need not be run."""
    linear = layer.activation is keras.activations.linear
    if linear and following and isinstance(following[0], ScaleBatchNormalization):
        return following.pop(0).affine()
    return None


def _derive(layer, k, x, group, affine, training):
    """Layer k on one group: smooth and sample, then one convolution.

    Sampling swaps rows and columns: images are the right way round before layers 0, 2, ...
    """
    x = ops.cast(x, layer.compute_dtype)
    operators = group.lifts if k == 0 else group.operators[k - 1 : k]
    kernel, bias = layer.compose_kernel(operators[0].sigma), layer.bias
    matrices = [(op.rows, op.columns) for op in operators]
    if k % 2 == 0:
        kernel = ops.transpose(kernel, (1, 0, 2, 3))
    else:
        matrices = [pair[::-1] for pair in matrices]
    smoothed = ops.concatenate([sample_transposed(x, *pair) for pair in matrices])
    if affine is not None:
        factor, offset = affine
        kernel = kernel * factor
        bias = offset if bias is None else bias * factor + offset
    return layer.combine(smoothed, kernel, bias, training)


def _maps(x, group, k):
    """Feature maps on the image's pixels, rows and columns in order again."""
    if k % 2 == 1:
        x = swap_axes(x)
    if group.outputs is None:
        return x
    size = ops.shape(x)[0] // len(group.outputs)
    maps = [
        sample_transposed(x[i * size : (i + 1) * size], op.rows, op.columns)
        for i, op in enumerate(group.outputs)
    ]
    return swap_axes(ops.concatenate(maps))


def _call(layer, x, training):
    return layer(x, training=training) if layer._call_has_training_arg else layer(x)
