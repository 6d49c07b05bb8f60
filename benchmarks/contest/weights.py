"""The weights of a `gdn_keras` network, for the literal contestants to compute the same."""

import numpy as np

EPSILON = 1e-5


def layer_weights(network) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Kernel [derivatives, inputs, outputs] and normalisation of each layer.

    The normalisation is gamma, beta, mean and variance. A last layer without one has its bias
    instead.
    """
    kernels, normalizations = [], []
    for layer in network.layers:
        if hasattr(layer, "moving_mean"):
            normalizations.append(layer.get_weights())
        elif layer.weights:
            kernel, *biases = layer.get_weights()
            kernels.append(kernel)
    if len(normalizations) < len(kernels):
        bias = biases[0]
        ones = np.ones_like(bias)
        normalizations.append([ones, bias, 0 * ones, (1 - EPSILON) * ones])
    return list(zip(kernels, normalizations, strict=True))
