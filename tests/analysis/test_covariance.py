import keras
import numpy as np
import pytest
from keras import ops

import gdn_keras
from gdn_keras import models
from gdn_keras.analysis.covariance import blob_images, covariance_error, invariance_error
from gdn_keras.layers import GaussianDerivative, ScaleBatchNormalization

ROOT2 = 2**0.5


def calibrated(shape=(112, 112, 1), scales=tuple(2 ** (i / 2) for i in range(-1, 6)), **kwargs):
    """A six-layer network, `default` if not told: random weights, statistics of a batch."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    model = gdn_keras.from_preset("default", input_shape=shape, scales=scales, **kwargs)
    for layer in models.scale_channels_of(model).shared_layers:
        if isinstance(layer, ScaleBatchNormalization):
            layer.gamma.assign(1 + 0.2 * rng.normal(size=layer.gamma.shape))
            layer.beta.assign(0.3 * rng.normal(size=layer.beta.shape))
            layer.momentum = 0.0
    x = np.concatenate([blob_images(shape, s, 3, seed=9 + i) for i, s in enumerate((1, 2, 4))])
    model(x, training=True)
    return model


@pytest.fixture(scope="module")
def network():
    return calibrated()


@pytest.mark.parametrize("size, residual", [(112, False), (113, False), (112, True)])
def test_matched_channels_are_covariant(network, size, residual):
    is_shared = (size, residual) == (112, False)
    model = network if is_shared else calibrated((size, size, 1), residual=residual)
    for factor in (ROOT2, 2.0):
        errors = covariance_error(model, factor)
        assert errors.layers.shape == (6, len(errors.scales))
        assert errors.scales[0] == pytest.approx(1 / ROOT2)
        assert errors.output.max() < 0.01


@pytest.mark.parametrize("factor", [ROOT2, 2.0])
def test_pooled_output_is_invariant(network, factor):
    errors = invariance_error(network, factor)
    assert errors.inside.mean() > 0.2
    assert errors.errors[errors.inside].max() < 0.01


@pytest.mark.parametrize(
    "readout, side, factor, residual",
    [("anywhere", 140, ROOT2, False), ("average", 112, 2.0, True)],
)
def test_read_outs_on_the_channels_own_grids_are_invariant(readout, side, factor, residual):
    """Objects well inside the frame, whose rescaled side is a whole number of pixels."""
    scales = tuple(2 ** (i / 2) for i in range(-1, 7))
    model = calibrated((side, side, 1), scales, readout=readout, residual=residual)
    errors = invariance_error(model, factor)
    assert errors.inside.mean() > 0.2
    assert errors.errors[errors.inside].max() < 0.01


def test_networks_with_maps_and_points_have_covariance_but_no_invariance():
    small = {"widths": (4,), "scales": (1.0, 2.0), "input_shape": (48, 48, 3)}
    for readout in ("map", "points"):
        model = models.gaussian_derivative_network(**small, readout=readout)
        assert covariance_error(model, 2.0).layers.shape == (2, 1)
        with pytest.raises(ValueError, match="one answer for an image"):
            invariance_error(model, 2.0)


def test_a_network_without_a_response_has_no_relative_error():
    model = models.gaussian_derivative_network((32, 32, 1), (4,), scales=(1.0, 2.0))
    model.set_weights([0 * w for w in model.get_weights()])
    with pytest.raises(ValueError, match=r"Layer 1 of `model` responds to nothing"):
        covariance_error(model, 2.0)


def test_dense_channels_are_covariant_at_coarse_scales_only():
    model = calibrated((64, 64, 1), scales=(0.75, 1.5, 3.0), sampling="dense")
    errors = covariance_error(model, 2.0).output
    assert errors[0] > 0.03 and errors[-1] < 0.6 * errors[0]


def test_without_scale_normalisation_the_check_fails(monkeypatch):
    composed = GaussianDerivative.compose_kernel
    monkeypatch.setattr(
        GaussianDerivative, "compose_kernel", lambda self, sigma: composed(self, 1.0)
    )
    model = calibrated((64, 64, 1), scales=(1.5, 3.0), sampling="dense")
    assert covariance_error(model, 2.0).output.max() > 0.3


def test_without_shared_weights_the_check_fails(monkeypatch):
    """Dense kernels know their sigma in pixels: give each scale channel other weights by it."""
    composed = GaussianDerivative.compose_kernel

    def unshared(self, sigma):
        return ops.roll(composed(self, sigma), int(sigma > 2.9 * self.sigma), axis=-1)

    monkeypatch.setattr(GaussianDerivative, "compose_kernel", unshared)
    model = calibrated((64, 64, 1), scales=(1.5, 3.0), sampling="dense")
    assert covariance_error(model, 2.0).output.max() > 0.3


def test_given_images(network):
    images = blob_images((112, 112, 1), 2.0)
    synthetic = covariance_error(network, 2.0, images).output
    assert synthetic.shape == (5,) and synthetic[1:].max() < 0.01


def test_factors_may_be_rounded():
    model = gdn_keras.from_preset("default", widths=(4,), scales=(0.7071, 1.0, 1.4142))
    assert len(covariance_error(model, ROOT2).scales) == 2


def test_bad_input():
    model = gdn_keras.from_preset("default", widths=(4,), scales=(1.0, 2.0))
    unknown = gdn_keras.from_preset("default", input_shape=(None, None, 1), sampling="dense")
    with pytest.raises(ValueError, match=r"known height and width.*Received: input_shape="):
        covariance_error(unknown)
    with pytest.raises(ValueError, match=r"`factor`.*one of \[2.0\].*Received: factor=3.0"):
        covariance_error(model, 3.0)
    with pytest.raises(ValueError, match="`images` must have shape"):
        covariance_error(model, 2.0, np.zeros((1, 5, 5, 1)))


def test_shipped_classifiers_are_measured_after_their_preprocessing():
    model = gdn_keras.from_preset("default_size2")
    assert covariance_error(model).output[1:-2].max() < 0.01
