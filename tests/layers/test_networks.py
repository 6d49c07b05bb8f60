"""Networks that are graphs, read in several ways, on images of any size."""

import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    GaussianSmoothing,
    ScaleBatchNormalization,
    ScaleChannels,
    ScaleInteraction,
    ScalePooling,
)
from gdn_keras.layers._rules import Pointwise, rule_of
from tests.harness import run_layer_test
from tests.layers import oracle
from tests.layers.test_scale_channels import images, numpy

SCALES = (1.0, 2**0.5, 2.0)
on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs of unknown size, gradient tapes"
)


def residual_network(read=None, sigmas=(1.0, 1.0, 1.25), dtype=None, activation="relu", **options):
    """A layer, then a layer with a skip around it, two branches of unlike sigma, and a read-out."""
    x = keras.Input((None, None, 2))
    jet = {"dtype": dtype, **options}
    a = GaussianDerivative(4, sigmas[0], activation=activation, **jet)(x)
    b = GaussianDerivative(4, sigmas[1], **jet)(a)
    y = keras.layers.Add(dtype=dtype)([a, ScaleBatchNormalization(dtype=dtype)(b)])
    z = GaussianDerivative(3, sigmas[2], activation=activation, **jet)(y)
    y = keras.layers.Concatenate(dtype=dtype)([z, y])
    y = keras.layers.Dense(3, dtype=dtype)(y)
    return keras.Model(x, y if read is None else read(dtype=dtype)(y))


def randomise(layer, seed=0):
    rng = np.random.default_rng(seed)
    values = []
    for weight in layer.weights:
        value = rng.normal(size=weight.shape)
        values.append(np.abs(value) + 0.5 if "moving_variance" in weight.path else value)
    layer.set_weights(values)


READ_OUTS = {
    "center": CentralPixel,
    "anywhere": keras.layers.GlobalMaxPooling2D,
    "average": keras.layers.GlobalAveragePooling2D,
    "map": None,
}


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


@pytest.mark.parametrize("read", READ_OUTS)
@pytest.mark.parametrize("boundary", ["symmetric", "zero"])
def test_branches_and_read_outs_against_brute_force(read, boundary):
    network = residual_network(READ_OUTS[read], (1.0, 1.0, 1.5), "float64", boundary=boundary)
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
    """The matched network by hand: each branch on its own grid, in one channel of sigma_0 = 1."""
    layer = ScaleChannels(residual_network(dtype="float64"), (1.0,), None, dtype="float64")
    (group,) = layer.plan((31, 25))
    add, concatenate = (
        group.edges[layer.program.layers.index(x)]
        for x in layer.network.layers
        if isinstance(x, (keras.layers.Add, keras.layers.Concatenate))
    )
    assert add == ((None,), (None,))  # maps are not cut, so there is nothing to crop
    (same,), (finer,) = concatenate
    assert same is None and finer.rows.shape == (25, 31)  # steps of 1.25 and 1 in 31 pixels
    np.testing.assert_allclose(finer.rows.sum(axis=1), 1)
    cone = ScaleChannels(residual_network(CentralPixel), (1.0,), None)
    (group,) = cone.plan((61, 61))
    (add,) = (k for k, x in enumerate(cone.program.layers) if isinstance(x, keras.layers.Add))
    (cut,), (whole,) = group.edges[add]
    # The input of the inner layer is needed further out than the sum.
    first, second = (len(group.edges[k][0][0].rows) - 2 for k in (0, 1))
    assert cut.rows == cut.columns == second < first and whole is None


@pytest.mark.parametrize("read", READ_OUTS)
@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_harness(tmp_path, read, sampling):
    space = (17, 20) if read == "map" else ()
    run_layer_test(
        tmp_path,
        lambda dtype=None: ScaleChannels(
            residual_network(READ_OUTS[read], dtype=dtype), SCALES, None, sampling, dtype=dtype
        ),
        (2, 17, 20, 2),
        (2, 3, *space, 3),
        (10, 2),
        atol=1e-4,
    )


@on_tensorflow
@pytest.mark.parametrize("read", READ_OUTS)
@pytest.mark.parametrize("interaction", [False, True])
def test_gradients_against_finite_differences(read, interaction):
    import tensorflow as tf

    network = residual_network(READ_OUTS[read], dtype="float64", activation="tanh")
    if interaction:
        parts = [
            GaussianDerivative(3, 1.0, activation="tanh", dtype="float64"),
            ScaleInteraction("glorot_uniform", dtype="float64"),
            GaussianDerivative(3, 1.25, dtype="float64"),
        ]
        read_out = READ_OUTS[read]
        parts += [] if read_out is None else [read_out(dtype="float64")]
        network = keras.Sequential(parts)
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
    layer = ScaleChannels(network, SCALES, pooling=None, maps="points")
    shape = (40, 61)
    layer.build((None, *shape, 1))
    kernel = np.zeros((6, 1, 1))
    kernel[0] = 1.0  # the smoothed image itself
    layer.set_weights([kernel])
    x0, y0 = 41.3, 12.8
    y, x = (np.arange(n) + 0.5 for n in shape)
    blob = np.exp(-((x - x0) ** 2 + (y[:, None] - y0) ** 2) / (2 * 3.0**2))
    scores = numpy(layer(blob[None, ..., None].astype("float32")))[0, :, 0]
    table = layer.points(shape)
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


def test_points_have_no_pooling_and_no_read_out():
    network = residual_network()
    with pytest.raises(ValueError, match=r"points are not pooled.*Received: pooling='max'"):
        ScaleChannels(network, SCALES, maps="points")
    with pytest.raises(ValueError, match="without a read-out"):
        ScaleChannels(residual_network(CentralPixel), SCALES, None, maps="points")
    with pytest.raises(ValueError, match="without a read-out"):
        ScaleChannels(residual_network(CentralPixel), SCALES).points((20, 20))


@on_tensorflow
@pytest.mark.parametrize(
    "read, boundary",
    [
        ("center", "zero"),
        ("center", "symmetric"),
        ("anywhere", "replicate"),
        ("map", "symmetric"),
        ("points", "zero"),
        ("interaction", "symmetric"),
    ],
)
def test_graphs_of_unknown_size_compute_what_others_do(read, boundary):
    import tensorflow as tf

    maps = "points" if read == "points" else "pixels"
    network = residual_network(READ_OUTS.get(read), boundary=boundary)
    if read == "interaction":
        jets = [GaussianDerivative(3, s, boundary=boundary) for s in (1.0, 1.25)]
        mix = ScaleInteraction("glorot_uniform")
        network = keras.Sequential([jets[0], mix, jets[1], CentralPixel()])
    layer = ScaleChannels(network, SCALES, pooling=None, maps=maps)
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None, 2))])
    for shape in ((64, 23, 2), (5, 3, 2)):
        x = images(shape)
        expected = numpy(layer(x))
        np.testing.assert_allclose(traced(x), expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(24, 24, 1), (None, None, 1)])
def test_predict_fit_and_evaluate_take_other_sizes_and_never_mix_up_images(shape):
    network = keras.Sequential([GaussianDerivative(3, 1.0), CentralPixel()])
    inputs = keras.Input(shape)
    model = keras.Model(inputs, ScaleChannels(network, SCALES)(inputs))
    model.compile("sgd", "mse")
    small, large = images((24, 24, 1)), images((48, 48, 1))[:1]
    model.predict(small, verbose=0)
    if keras.backend.backend() == "torch" and None not in shape:
        with pytest.raises(ValueError, match=r"expected shape=\(None, 24, 24, 1\)"):
            model.predict(large, verbose=0)
        return
    answers = model.predict(large, verbose=0)
    np.testing.assert_allclose(answers, numpy(ScaleChannels(network, SCALES)(large)), atol=1e-5)
    quarter = images((12, 12, 1))
    assert model.predict(np.concatenate([quarter, quarter[:1]]), verbose=0).shape == (4, 3)


@on_tensorflow
def test_pipelines_of_unknown_size():
    import tensorflow as tf

    network = keras.Sequential([GaussianDerivative(3, 1.0), CentralPixel()])
    inputs = keras.Input((24, 24, 1))
    model = keras.Model(inputs, ScaleChannels(network, SCALES)(inputs))
    model.compile("sgd", "mse", jit_compile=False)
    shapes = ((24, 24, 1), (48, 48, 1), (20, 31, 1))

    def batches():
        for shape in shapes:
            yield images(shape), np.zeros((3, 3), "float32")

    signature = (tf.TensorSpec((None, None, None, 1)), tf.TensorSpec((None, 3)))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    data = data.apply(tf.data.experimental.assert_cardinality(len(shapes)))
    expected = [np.mean(numpy(ScaleChannels(network, SCALES)(images(s))) ** 2) for s in shapes]
    assert model.evaluate(data, verbose=0) == pytest.approx(np.mean(expected), rel=1e-4)
    model.fit(data, verbose=0, shuffle=False)
    assert model.predict(data.map(lambda x, y: x), verbose=0).shape == (9, 3)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_interaction_adds_what_the_neighbours_hold(sampling):
    """With weights on one neighbour only, by hand: the smoothed image of the channel beside."""
    smooth = {"zero_order": True, "use_bias": False, "truncation": 1e-6}
    layers = [GaussianDerivative(1, 1.0, **smooth), ScaleInteraction()]
    layer = ScaleChannels(keras.Sequential(layers), SCALES, None, sampling)
    plain = ScaleChannels(keras.Sequential(layers[:1]), SCALES, None, sampling)
    x = numpy(GaussianSmoothing(4.0)(images((50, 44, 1)))) * 10
    layer.build(x.shape)
    plain.build(x.shape)
    kernel = np.zeros((6, 1, 1))
    kernel[0] = 1.0
    layer.set_weights([kernel, np.array([[[2.0]], [[-3.0]]])])
    before, after = numpy(plain(x)), numpy(layer(x))
    expected = before.copy()
    expected[:, 1:] += 2 * before[:, :-1]
    expected[:, :-1] -= 3 * before[:, 1:]
    # Resampling smooths by half a step more, and coarse grids end a step before the image.
    tolerance, inside = (1e-5, slice(None)) if sampling == "dense" else (0.05, slice(6, -6))
    difference = (after - expected)[:, :, inside, inside]
    assert np.abs(difference).max() < tolerance * np.abs(expected).max()


def test_interaction_needs_equally_distant_neighbours_and_scale_channels():
    layers = [GaussianDerivative(3, 1.0), ScaleInteraction(), CentralPixel()]
    with pytest.raises(ValueError, match=r"geometric progression.*Received: scales=\[1.0, 2.0, 3"):
        ScaleChannels(keras.Sequential(layers), (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="inside `ScaleChannels` only"):
        ScaleInteraction()(images((9, 9, 1)))


def test_interaction_harness(tmp_path):
    def make(dtype=None):
        jets = [GaussianDerivative(3, sigma, dtype=dtype) for sigma in (1.0, 1.25)]
        layers = [jets[0], ScaleInteraction(dtype=dtype), jets[1], CentralPixel(dtype=dtype)]
        return ScaleChannels(keras.Sequential(layers), SCALES, dtype=dtype)

    run_layer_test(tmp_path, make, (2, 17, 20, 2), (2, 3), (5, 0), atol=1e-4)


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
def test_scale_dropout_leaves_out_whole_channels_and_keeps_one(pooling):
    stack = np.arange(1, 5, dtype="float32")[None, :, None] + np.zeros((400, 4, 2), "float32")
    layer = ScalePooling(pooling, dropout=0.6, seed=1)
    np.testing.assert_allclose(numpy(layer(stack)), numpy(ScalePooling(pooling)(stack)), rtol=1e-6)
    y = numpy(layer(stack, training=True))
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(y[:, 0], y[:, 1])
    # All that can come out is the pooling of a subset of the channels.
    subsets = [[c for c in range(4) if bits >> c & 1] for bits in range(1, 16)]
    possible = [numpy(ScalePooling(pooling)(stack[:1, s]))[0, 0] for s in subsets]
    assert np.abs(y[:, :1] - np.array(possible)).min(axis=1).max() < 1e-5
    if pooling == "max":
        assert np.mean(y[:, 0] == 4) == pytest.approx(0.4, abs=0.1)
    with pytest.raises(ValueError, match=r"`dropout`.*Received: dropout=1"):
        ScalePooling("max", dropout=1.0)


def test_a_new_kind_of_layer_is_one_registration():
    class Doubled(keras.layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    network = [GaussianDerivative(3, 1.0), Doubled(), CentralPixel()]
    with pytest.raises(ValueError, match="may hold"):
        ScaleChannels(keras.Sequential(network), SCALES)
    rule_of.register(Doubled, lambda layer: Pointwise())
    doubled = ScaleChannels(keras.Sequential(network), SCALES)
    single = ScaleChannels(keras.Sequential([network[0], network[2]]), SCALES)
    x = images((20, 20, 1))
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


def test_networks_that_make_no_sense_are_refused():
    x = keras.Input((None, None, 1))
    y = GaussianDerivative(1, 1.0)(x)
    with pytest.raises(ValueError, match=r"image itself has no scale.*Received: <Add"):
        ScaleChannels(keras.Model(x, keras.layers.Add()([x, y])), SCALES)
    read = CentralPixel()(y)
    with pytest.raises(ValueError, match="one input and one output"):
        ScaleChannels(keras.Model(x, [y, read]), SCALES)
    with pytest.raises(ValueError, match=r"must consist of layers.*keras.layers.Add"):
        ScaleChannels(keras.Model(x, y + 1.0), SCALES)
    with pytest.raises(ValueError, match="`network` must be a keras"):
        ScaleChannels(GaussianDerivative(1, 1.0), SCALES)

    class Custom(keras.Model):
        def call(self, inputs):
            return inputs

    with pytest.raises(ValueError, match="sequential or functional"):
        ScaleChannels(Custom(), SCALES)


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


def test_sigma_is_fixed():
    for make in (lambda s: GaussianDerivative(2, s), GaussianSmoothing):
        for sigma in (keras.Variable(1.0), ops.convert_to_tensor(1.0)):
            with pytest.raises(ValueError, match=r"fixed and not learned.*Received: sigma="):
                make(sigma)


def test_a_network_for_other_channels_is_refused():
    layer = ScaleChannels(residual_network(CentralPixel), SCALES)
    with pytest.raises(ValueError, match=r"built for images with 2 feature channels.*20, 20, 4\)"):
        layer(np.zeros((1, 20, 20, 4), "float32"))


def test_channels_first_is_named():
    layer = ScaleChannels(keras.Sequential([GaussianDerivative(3, 1.0), CentralPixel()]), SCALES)
    with pytest.raises(ValueError, match=r"feature channels last: \[batch, height, width"):
        layer(np.zeros((2, 1, 28, 28), "float32"))
