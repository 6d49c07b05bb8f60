"""Networks that are graphs, read in several ways."""

import keras
import numpy as np
import pytest

from gdn_keras.detection import grid_points
from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    GaussianSmoothing,
    ScaleBatchNormalization,
    ScaleChannels,
)
from gdn_keras.layers._runner import Runner
from gdn_keras.scale_space import Plan
from tests.harness import run_layer_test
from tests.layers import oracle
from tests.layers.networks import (
    READOUTS,
    images,
    numpy,
    on_tensorflow,
    randomise,
    residual_network,
)

SCALES = (1.0, 2**0.5, 2.0)


def literal(layer, image, read):
    """The residual network above on one image [h, w, 2], in float64 NumPy, dense sampling."""
    jets = [x for x in layer.network.layers if isinstance(x, GaussianDerivative)]
    (norm,) = (x for x in layer.network.layers if isinstance(x, ScaleBatchNormalization))
    (dense,) = (x for x in layer.network.layers if isinstance(x, keras.layers.Dense))
    relu = lambda x: np.maximum(x, 0)  # noqa: E731
    outputs = []
    for scale in layer.scales:

        def jet(x, k, scale=scale):
            kernel, bias = (numpy(w).astype("float64") for w in (jets[k].kernel, jets[k].bias))
            sigma = jets[k].sigma * scale
            return oracle.jet_layer(x, kernel, bias, sigma, jets[k].boundary, jets[k].truncation)

        a = relu(jet(image, 0))
        gamma, beta, mean, variance = (numpy(w) for w in norm.weights)
        b = (jet(a, 1) - mean) / np.sqrt(variance + norm.epsilon) * gamma + beta
        y = a + b
        z = relu(jet(y, 2))
        kernel, bias = (numpy(w) for w in dense.weights)
        y = np.concatenate([z, y], axis=-1) @ kernel + bias
        h, w = y.shape[:2]
        middle = y[(h - 1) // 2 : h // 2 + 1, (w - 1) // 2 : w // 2 + 1].mean(axis=(0, 1))
        reads = {"center": middle, "anywhere": y.max((0, 1)), "average": y.mean((0, 1)), "map": y}
        outputs.append(reads[read])
    return np.stack(outputs)


@pytest.mark.parametrize("read", READOUTS)
@pytest.mark.parametrize("boundary", ["symmetric", "constant"])
def test_branches_and_read_outs_against_brute_force(read, boundary):
    network = residual_network(READOUTS[read], (1.0, 1.0, 1.5), "float64", boundary=boundary)
    layer = ScaleChannels(network, (0.8, 1.6), None, "dense", dtype="float64")
    x = images((19, 22, 2)).astype("float64")
    layer.build(x.shape)
    randomise(layer)
    expected = np.stack([literal(layer, image, read) for image in x])
    # Keras's average is in single precision on JAX, its products of matrices on torch.
    on_torch = keras.backend.backend() == "torch"
    tolerance = 1e-5 if on_torch else 1e-6 if read == "average" else 1e-9
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=tolerance * np.abs(expected).max())


def test_a_skip_of_equal_sigma_is_a_crop_and_of_unlike_sigma_is_resampled():
    nodes = Runner(residual_network()).nodes
    first, inner, _, add, last, concatenate = range(1, 7)
    plan = Plan(nodes, "symmetric", 1e-3)
    (batch,) = plan.batches((31, 25), (1.0,))
    # Maps are not cut, so there is nothing to crop.
    assert batch.grids[first] == batch.grids[inner] == batch.grids[add]
    assert plan.operators(batch, first, add) == (None,)
    assert plan.operators(batch, last, concatenate) == (None,)
    (finer,) = plan.operators(batch, add, concatenate)
    assert finer.rows.shape == (25, 31)  # steps of 1.25 and 1 in 31 pixels
    np.testing.assert_allclose(finer.rows.sum(axis=1), 1)
    cone = Plan(Runner(residual_network(CentralPixel)).nodes, "symmetric", 1e-3, cone=2.0)
    (batch,) = cone.batches((61, 61), (1.0,))
    # The input of the inner layer is needed further out than the sum.
    rows, columns = batch.grids[add]
    assert rows == columns == batch.grids[inner][0] and rows.size < batch.grids[first][0].size
    assert cone.operators(batch, first, add) == (None,)


@pytest.mark.parametrize("read", READOUTS)
@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_harness(tmp_path, read, sampling):
    space = (17, 20) if read == "map" else ()
    run_layer_test(
        tmp_path,
        lambda dtype=None: ScaleChannels(
            residual_network(READOUTS[read], dtype=dtype), SCALES, None, sampling, dtype=dtype
        ),
        (2, 17, 20, 2),
        (2, 3, *space, 3),
        (10, 2),
        atol=1e-4,
        train_eagerly=True,  # as graphs in test_scale_channels
    )


@on_tensorflow
@pytest.mark.parametrize("read", READOUTS)
def test_gradients_against_finite_differences(read):
    import tensorflow as tf

    network = residual_network(READOUTS[read], dtype="float64", activation="tanh")
    layer = ScaleChannels(network, SCALES, None, dtype="float64")
    x = tf.Variable(images((15, 18, 2)).astype("float64"))
    layer.build(x.shape)
    randomise(layer)
    target = np.random.default_rng(2).normal(size=layer(x).shape)

    def loss():
        return tf.reduce_sum(layer(x) * target)

    with tf.GradientTape() as tape:
        value = loss()
    weights = [w.value for w in layer.trainable_weights]
    rng = np.random.default_rng(3)
    for variable, gradient in zip([x, *weights], tape.gradient(value, [x, *weights]), strict=True):
        direction = rng.normal(size=variable.shape)
        found = []
        for sign in (1, -1):
            variable.assign_add(sign * 1e-6 * direction)
            found.append(float(loss()))
            variable.assign_sub(sign * 1e-6 * direction)
        slope = (found[0] - found[1]) / 2e-6
        expected = float(np.sum(gradient.numpy() * direction))
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_points_are_the_maps_of_the_last_grids():
    """A blob somewhere is where the table says, in the channel that it says."""
    network = keras.Sequential([GaussianDerivative(1, 1.0, zero_order=True, use_bias=False)])
    layer = ScaleChannels(network, SCALES, pooling=None, readout="points")
    shape = (40, 61)
    layer.build((None, *shape, 1))
    kernel = np.zeros((6, 1, 1))
    kernel[0] = 1.0  # the smoothed image itself
    layer.set_weights([kernel])
    x0, y0 = 41.3, 12.8
    y, x = (np.arange(n) + 0.5 for n in shape)
    blob = np.exp(-((x - x0) ** 2 + (y[:, None] - y0) ** 2) / (2 * 3.0**2))
    scores = numpy(layer(blob[None, ..., None].astype("float32")))[0, :, 0]
    points = grid_points(layer.point_grids(shape), shape)
    table = np.stack([numpy(values) for values in points[:3]], axis=1)
    assert scores.shape == (len(table),) and layer.compute_output_shape((1, 40, 61, 1)) == (
        1,
        len(table),
        1,
    )
    variance = 3.0**2 + table[:, 2] ** 2
    distance = (table[:, 0] - x0) ** 2 + (table[:, 1] - y0) ** 2
    expected = 3.0**2 / variance * np.exp(-distance / (2 * variance))
    np.testing.assert_allclose(scores, expected, atol=2e-3)
    grids = layer.point_grids(shape)
    assert [grid.scale for grid in grids] == list(SCALES)
    assert sum(grid.rows * grid.columns for grid in grids) == len(table)


def test_a_new_kind_of_layer_says_itself_how_it_acts():
    class Doubled(keras.layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    def network(*layers):
        jet = GaussianDerivative(3, 1.0, kernel_initializer=keras.initializers.HeNormal(seed=1))
        return keras.Sequential([jet, *layers, CentralPixel()])

    with pytest.raises(ValueError, match="may hold"):
        ScaleChannels(network(Doubled()), SCALES)
    Doubled.pointwise = True
    x = images((20, 20, 1))
    for sampling in ("matched", "dense"):
        doubled = ScaleChannels(network(Doubled()), SCALES, sampling=sampling)
        single = ScaleChannels(network(), SCALES, sampling=sampling)
        np.testing.assert_allclose(numpy(doubled(x)), 2 * numpy(single(x)), atol=1e-5)


def test_smoothing_inside_is_at_the_scale_of_the_channel():
    """On dense pixels: smoothing by sigma sigma_0, then the jet."""
    jet, smoothing = (
        GaussianDerivative(2, 1.5, truncation=1e-5),
        GaussianSmoothing(1.0, truncation=1e-5),
    )
    layer = ScaleChannels(keras.Sequential([smoothing, jet]), (1.0, 2.0), None, "dense")
    x = images((30, 26, 1))
    expected = [numpy(jet(smoothing(x, scale=s), scale=s)) for s in (1.0, 2.0)]
    np.testing.assert_allclose(numpy(layer(x)), np.stack(expected, axis=1), atol=1e-4)


def test_nested_models_are_opened_up():
    inner = keras.Sequential([GaussianDerivative(4, 1.25), keras.layers.ReLU()])
    nested = keras.Sequential([GaussianDerivative(4, 1.0), inner, CentralPixel()])
    flat = keras.Sequential([nested.layers[0], *inner.layers, CentralPixel()])
    x = images((25, 25, 1))
    expected = numpy(ScaleChannels(flat, SCALES, None)(x))
    np.testing.assert_allclose(numpy(ScaleChannels(nested, SCALES, None)(x)), expected, atol=1e-6)


def test_a_normalisation_that_is_told_how_to_run_is_not_folded():
    x = keras.Input((None, None, 1))
    y = GaussianDerivative(3, 1.0)(x)
    y = ScaleBatchNormalization()(y, training=True)  # statistics of the batch, always
    layer = ScaleChannels(keras.Model(x, CentralPixel()(y)), SCALES, None)
    pictures = images((25, 25, 1))
    np.testing.assert_allclose(
        numpy(layer(pictures)), numpy(layer(pictures, training=True)), atol=1e-5
    )


def test_building_leaves_the_network_as_it_was():
    network = residual_network(CentralPixel)
    first = network.layers[1]
    before = first.output
    ScaleChannels(network, SCALES)
    assert first.output is before  # a second call would make it ambiguous
