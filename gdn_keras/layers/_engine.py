"""Running a network's layers in all scale channels at once."""

import keras
from keras import ops

from gdn_keras.layers._resampling import (
    expanded_convolution,
    sample_at_once,
    sample_transposed,
    swap_axes,
    valid_convolution,
)
from gdn_keras.layers.gaussian_derivative import GaussianDerivative
from gdn_keras.layers.scale_batch_normalization import ScaleBatchNormalization

# Entries of an operator's two matrices multiplied out, up to which one product is faster than two.
_SMALL = 4096


def run_layers(network, scales, inputs, training):
    """Dense channels on images of any size, known or not: each layer on all pixels.

    Returns:
        [batch, scale channels, ...].
    """
    states = [inputs] * len(scales)
    for layer in network.layers:
        if isinstance(layer, GaussianDerivative):
            states = [layer(x, scale=scale) for x, scale in zip(states, scales, strict=True)]
        elif isinstance(layer, ScaleBatchNormalization):
            states = layer(states, training=training)
        else:
            states = [_call(layer, x, training) for x in states]
    return ops.stack(states, axis=1)


def run_plan(network, groups, inputs, training):
    """All channels on the grids of a plan, channels of equal grids as one batch.

    Returns:
        [batch, scale channels, ...], in the order of the plan.
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
    stacks = [_unjoined(x, count) for x, count in zip(states, counts, strict=True)]
    return ops.concatenate(stacks, axis=1)


def _joined(tensors):
    """Channels of equal grids as one batch, all channels of an image next to one another.

    Devices that have shared out the images then keep their own.
    """
    if len(tensors) == 1:
        return tensors[0]
    return ops.reshape(ops.stack(tensors, axis=1), (-1, *tensors[0].shape[1:]))


def _unjoined(x, count):
    """[batch, channels, ...] from such a batch."""
    return ops.reshape(x, (-1, count, *x.shape[1:]))


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
    if affine is not None:
        factor, offset = affine
        kernel = kernel * factor
        bias = offset if bias is None else bias * factor + offset
    in_order = k % 2 == 0
    if in_order:
        kernel = ops.transpose(kernel, (1, 0, 2, 3))
    if _runs_factored(layer, operators[0], x.shape[-1]):
        rows, columns = operators[0].factors if in_order else operators[0].factors[::-1]
        coefficients = sample_transposed(x, rows.compress, columns.compress)
        outputs = expanded_convolution(coefficients, kernel, columns.expand, rows.expand)
    else:
        smoothed = _joined([_sample(x, operator, in_order) for operator in operators])
        outputs = valid_convolution(smoothed, kernel, training)
    return layer.finish(outputs, bias)


def _sample(x, operator, in_order):
    matrices = operator.rows, operator.columns
    # Rounded apart, the entries of the product no longer are one, and stencils times sigma^2 make
    # much of that where sigma is many steps of the grid.
    small = matrices[0].size * matrices[1].size <= _SMALL and operator.sigma <= 2
    sample = sample_at_once if small else sample_transposed
    return sample(x, *(matrices if in_order else matrices[::-1]))


def _runs_factored(layer, operator, c_in):
    # Factors leave out what double precision would show. Coefficients are large before they
    # cancel, which half precision cannot hold.
    if layer.compute_dtype != "float32":
        return False
    return operator.pays_factored(c_in, layer.filters, layer.margin)


def _maps(x, group, k):
    """Feature maps on the image's pixels, rows and columns in order again."""
    if k % 2 == 1:
        x = swap_axes(x)
    if group.outputs is None:
        return x
    x = _unjoined(x, len(group.outputs))
    maps = [sample_transposed(x[:, i], op.rows, op.columns) for i, op in enumerate(group.outputs)]
    return swap_axes(_joined(maps))


def _call(layer, x, training):
    return layer(x, training=training) if layer._call_has_training_arg else layer(x)
