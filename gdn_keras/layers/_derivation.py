"""Gaussian derivative layers in scale channels: smooth and sample, then one convolution."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from gdn_keras.layers._channels import Channels, Edges
from gdn_keras.layers._graph import Step
from gdn_keras.layers._resampling import (
    expanded_convolution,
    sample_transposed,
    valid_convolution,
)
from gdn_keras.layers._rules import Rule, rule_of
from gdn_keras.layers.gaussian_derivative import GaussianDerivative
from gdn_keras.layers.scale_batch_normalization import ScaleBatchNormalization
from gdn_keras.scale_space import Node, Operator


class Derivation(Rule):
    """A jet at sigma sigma_0, on a grid matched to it."""

    def __init__(self, layer: GaussianDerivative):
        self._layer = layer
        self._normalization: ScaleBatchNormalization | None = None
        if layer.activity_regularizer is not None:
            raise ValueError(
                "Inside `ScaleChannels`, GaussianDerivative layers have no outputs of their own to "
                "regularise: leave out `activity_regularizer`, or add an ActivityRegularization "
                f"layer after them. Received: {layer!r}"
            )

    def node(self, inputs: tuple[int, ...]) -> Node:
        return Node(inputs, self._layer.sigma, self._layer.margin)

    def absorb(self, following: keras.Layer) -> bool:
        """A normalisation right after the layer becomes part of its kernel and bias."""
        linear = self._layer.activation is keras.activations.linear
        if not linear or not isinstance(following, ScaleBatchNormalization):
            return False
        self._normalization = following
        return True

    def run(
        self, step: Step, inputs: Sequence[Channels], edges: Edges, training: bool | None
    ) -> Channels:
        channels = inputs[0].map(lambda x: ops.cast(x, self._layer.compute_dtype))
        groups = [
            [edge for edge in operators if isinstance(edge, Operator)] for (operators,) in edges
        ]
        # One grid step per sigma, in all channels of matched sampling; not so in dense channels.
        sigmas = {operators[0].sigma for operators in groups}
        kernels = {sigma: self._kernel(sigma, training) for sigma in sigmas}
        tensors = tuple(
            self._derive(channels, group, operators, *kernels[operators[0].sigma], training)
            for group, operators in enumerate(groups)
        )
        return replace(channels, tensors=tensors, lifted=True, swapped=not channels.swapped)

    def _kernel(self, sigma: float, training: bool | None) -> tuple[Any, Any]:
        """The composed kernel and the bias, in inference with the normalisation that follows."""
        kernel, bias = self._layer.compose_kernel(sigma), self._layer.bias
        if self._normalization is None or training:
            return kernel, bias
        factor, offset = self._normalization.affine()
        return kernel * factor, offset if bias is None else bias * factor + offset

    def _derive(
        self,
        channels: Channels,
        group: int,
        operators: Sequence[Operator],
        kernel: Any,
        bias: Any,
        training: bool | None,
    ) -> Any:
        if not channels.swapped:  # sampling swaps rows and columns
            kernel = ops.transpose(kernel, (1, 0, 2, 3))
        x = channels.of_group(group)
        factors = operators[0].factors
        if factors and len(operators) == 1 and self._runs_factored(operators[0], x.shape[-1]):
            rows, columns = factors[::-1] if channels.swapped else factors
            coefficients = sample_transposed(x, rows.compress, columns.compress)
            outputs = expanded_convolution(coefficients, kernel, columns.expand, rows.expand)
        else:
            smoothed = channels.sampled(group, operators)
            outputs = valid_convolution(smoothed, kernel, training)
        return self._layer.finish(outputs, bias)

    def _runs_factored(self, operator: Operator, c_in: int) -> bool:
        # Factors leave out what double precision would show. Coefficients are large before they
        # cancel, which half precision cannot hold.
        if self._layer.compute_dtype != "float32":
            return False
        return operator.pays_factored(c_in, self._layer.filters, self._layer.margin)


@rule_of.register
def _(layer: GaussianDerivative) -> Rule:
    return Derivation(layer)
