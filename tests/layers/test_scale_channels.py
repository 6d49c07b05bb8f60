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
    _derivation,
)
from gdn_keras.layers._resampling import expanded_convolution
from tests.harness import run_layer_test

SCALES = (0.8, 1.2, 2.0, 3.5)


def run_layers(network, scales, inputs, training):
    """Dense channels literally: each layer on all pixels, one scale at a time."""
    states = [inputs] * len(scales)
    for layer in network.layers:
        if isinstance(layer, GaussianDerivative):
            states = [layer(x, scale=scale) for x, scale in zip(states, scales, strict=True)]
        elif isinstance(layer, ScaleBatchNormalization):
            states = layer(states, training=training)
        else:
            states = [layer(x) for x in states]
    return ops.stack(states, axis=1)


def make_network(center=True, boundary="symmetric", order=2, truncation=1e-3, dtype=None):
    layers = []
    for k, width in enumerate((4, 5, 3)):
        options = {"order": order, "boundary": boundary, "truncation": truncation}
        layers.append(GaussianDerivative(width, 1.25**k, dtype=dtype, **options))
        if k < 2:
            layers += [ScaleBatchNormalization(dtype=dtype), keras.layers.ReLU(dtype=dtype)]
    return keras.Sequential([*layers, CentralPixel(dtype=dtype)] if center else layers)


def randomise(layer, seed=0):
    """Random weights, and moving statistics that are not the initial ones."""
    rng = np.random.default_rng(seed)
    layer.set_weights([np.abs(rng.normal(size=w.shape)) + 0.1 for w in layer.get_weights()])
    for jet in layer.network.layers:
        if isinstance(jet, GaussianDerivative):
            jet.set_weights([rng.normal(size=w.shape) for w in jet.get_weights()])


def numpy(x):
    return ops.convert_to_numpy(x)


def images(shape, seed=0):
    return np.random.default_rng(seed).normal(size=(3, *shape)).astype("float32")


@pytest.mark.parametrize(
    "sampling, center, pooling",
    [
        ("matched", True, "max"),
        ("matched", False, None),
        ("dense", True, None),
        ("dense", False, "max"),
    ],
)
def test_harness(tmp_path, sampling, center, pooling):
    shape = (2, 17, 20, 2)
    space = () if center else (17, 20)
    channels = () if pooling else (4,)
    run_layer_test(
        tmp_path,
        lambda dtype=None: ScaleChannels(
            make_network(center, dtype=dtype), SCALES, pooling, sampling, dtype=dtype
        ),
        shape,
        (2, *channels, *space, 3),
        (10, 4),
        atol=1e-4,
    )


@pytest.mark.parametrize("boundary", ["symmetric", "replicate", "zero"])
@pytest.mark.parametrize("shape", [(41, 41, 1), (40, 33, 2), (9, 12, 1)])
@pytest.mark.parametrize(
    "center, order, dtype, tolerance",
    [(True, 2, "float32", 1e-4), (True, 3, "float64", 1e-10), (False, 2, "float64", 1e-10)],
)
def test_dense_plan_equals_the_layers_on_every_pixel(
    boundary, shape, center, order, dtype, tolerance
):
    """The receptive cone of dense sampling is exact."""
    network = make_network(center, boundary, order=order, dtype=dtype)
    layer = ScaleChannels(network, SCALES, None, "dense", dtype=dtype)
    x = ops.convert_to_tensor(images(shape), dtype=dtype)
    layer.build(x.shape)
    randomise(layer)
    planned = numpy(layer(x))
    literal = numpy(run_layers(layer.network, SCALES, x, False))
    assert np.abs(planned - literal).max() < tolerance * np.abs(literal).max()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="uses tf.GradientTape")
@pytest.mark.parametrize("center", [True, False])
def test_dense_plan_has_the_gradients_of_the_layers(center):
    import tensorflow as tf

    layer = ScaleChannels(
        make_network(center, dtype="float64"), SCALES, None, "dense", dtype="float64"
    )
    x = tf.constant(images((30, 30, 1)).astype("float64"))
    layer.build(x.shape)
    randomise(layer)
    gradients = []
    for run in (layer.channels, lambda x: run_layers(layer.network, SCALES, x, False)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(run(x)))
        gradients.append(tape.gradient(loss, [x, *layer.trainable_weights]))
    for a, b in zip(*gradients, strict=True):
        assert np.abs(a - b).max() < 1e-10 * np.abs(b).max()


def wide_dense_layer(boundary="symmetric", order=2, center=True, dtype=None):
    """Wide layers at coarse scales, some of which run in the basis of their factored operators."""
    keras.utils.set_random_seed(0)
    # A bias would be all but invisible to the derivatives after it.
    options = {"boundary": boundary, "truncation": 1e-4, "order": order, "use_bias": False}
    layers = []
    for k, width in enumerate((16, 24, 20, 6)):
        layers.append(GaussianDerivative(width, 1.25**k, dtype=dtype, **options))
        if k == 0:
            layers.append(ScaleBatchNormalization(dtype=dtype))
        layers.append(keras.layers.Activation("tanh", dtype=dtype))
    layers += [CentralPixel(dtype=dtype)] if center else []
    return ScaleChannels(keras.Sequential(layers), (2.0, 4.0), None, "dense", dtype=dtype)


@pytest.fixture
def factored_runs(monkeypatch):
    """A list that grows with each layer that runs in the basis of its factored operator."""
    runs = []

    def spy(*args):
        runs.append(args[1].shape)
        return expanded_convolution(*args)

    monkeypatch.setattr(_derivation, "expanded_convolution", spy)
    return runs


@pytest.mark.parametrize("boundary", ["symmetric", "replicate", "zero"])
@pytest.mark.parametrize("shape, center", [((48, 48, 1), True), ((40, 51, 2), False)])
def test_factored_operators_give_the_values_of_the_layers(boundary, shape, center, factored_runs):
    layer = wide_dense_layer(boundary, center=center)
    x = ops.convert_to_tensor(images(shape))
    layer.build(x.shape)
    planned, literal = (
        numpy(y) for y in (layer(x), run_layers(layer.network, layer.scales, x, False))
    )
    assert 0 < len(factored_runs) < 8  # of two channels with four layers each
    assert np.abs(planned - literal).max() < 1e-4 * np.abs(literal).max()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="uses tf.GradientTape")
@pytest.mark.parametrize("shape", [(48, 48, 1), (40, 51, 2)])
def test_factored_operators_give_the_gradients_of_the_layers(shape, factored_runs):
    import tensorflow as tf

    layer = wide_dense_layer()
    x = tf.constant(images(shape))
    layer.build(x.shape)
    kernels = [w for w in layer.trainable_weights if w.name == "kernel"]
    found = []
    for run in (layer.channels, lambda x: run_layers(layer.network, layer.scales, x, False)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(run(x)))
        found.append(tape.gradient(loss, [x, *kernels]))
    assert factored_runs
    for a, b in zip(*found, strict=True):
        assert np.abs(a - b).max() < 1e-4 * np.abs(b).max()


@pytest.mark.parametrize(
    "order, dtype", [(3, "float32"), (2, "float64"), (2, "mixed_float16"), (2, "mixed_bfloat16")]
)
def test_what_factored_operators_are_too_coarse_for_runs_without(order, dtype, factored_runs):
    layer = wide_dense_layer(order=order, dtype=dtype)
    y = numpy(layer(images((48, 48, 1))))
    assert np.isfinite(y.astype("float64")).all()
    assert not factored_runs


def test_matched_scales_below_half_a_pixel_are_refused():
    with pytest.raises(ValueError, match=r"`scales` must give.*Received: scales=\[0.4, 1.0\]"):
        ScaleChannels(make_network(True), (0.4, 1))
    ScaleChannels(make_network(True), (0.5, 1))
    ScaleChannels(make_network(True), (0.4, 1), sampling="dense")


@pytest.mark.parametrize("sampling", ["matched", "dense"])
@pytest.mark.parametrize("center", [True, False])
def test_axes_are_told_apart(sampling, center):
    """Swapping rows and columns of the image swaps the roles of x and y in the weights."""
    swap = [1, 0, 4, 3, 2]
    layer = ScaleChannels(make_network(center), SCALES, None, sampling)
    swapped = ScaleChannels(make_network(center), SCALES, None, sampling)
    x = images((24, 31, 1))
    layer.build(x.shape)
    swapped.build((None, 31, 24, 1))
    randomise(layer)
    swapped.set_weights([w[swap] if w.ndim == 3 else w for w in layer.get_weights()])
    y, y_swapped = numpy(layer(x)), numpy(swapped(np.swapaxes(x, 1, 2)))
    if not center:
        y_swapped = np.swapaxes(y_swapped, 2, 3)
    np.testing.assert_allclose(y_swapped, y, atol=1e-4 * np.abs(y).max())
    assert (
        np.abs(numpy(layer(np.swapaxes(x[:, :24, :24], 1, 2))) - numpy(layer(x[:, :24, :24]))).max()
        > 0.01 * np.abs(y).max()
    )


def blobs(side, sigma):
    """A few smooth blobs, 1.5 to 3 sigma wide."""
    rng = np.random.default_rng(1)
    n = (np.arange(side) - (side - 1) / 2) / sigma
    image = 0.0
    for _ in range(12):
        (x, y), width = rng.uniform(-5, 5, 2), rng.uniform(1.5, 3)
        image += rng.normal() * np.exp(-((n[:, None] - y) ** 2 + (n - x) ** 2) / 2 / width**2)
    return image[None, :, :, None]


def test_matched_approaches_finely_sampled_dense_with_the_square_of_its_step():
    """Both are the same network on other grids; central differences err by the step squared."""

    def network():
        options = {"truncation": 1e-7, "use_bias": False, "dtype": "float64"}
        jets = [
            GaussianDerivative(
                width,
                1.25**k,
                activation="tanh",
                kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=k),
                **options,
            )
            for k, width in enumerate((6, 6, 4))
        ]
        return keras.Sequential([*jets, CentralPixel(dtype="float64")])

    x = blobs(121, 4.0)
    dense = numpy(ScaleChannels(network(), (4.0,), None, "dense", dtype="float64")(x))
    errors = []
    for density in (1, 2):
        layer = ScaleChannels(network(), (4.0,), None, density=density, dtype="float64")
        errors.append(np.abs(numpy(layer(x)) - dense).max() / np.abs(dense).max())
    # A quarter; dense itself is at 4 points per sigma and more.
    assert errors[0] < 0.25 and errors[1] < 0.3 * errors[0]


def test_matched_map_and_centre_agree():
    """Reading the centre of a map, and planning for the centre alone, are the same network."""
    to_map = ScaleChannels(make_network(False, truncation=1e-6), SCALES, None)
    to_centre = ScaleChannels(make_network(True, truncation=1e-6), SCALES, None)
    # Smooth images: on rough ones the map's final interpolation would show.
    x = numpy(GaussianSmoothing(6.0)(images((61, 61, 1)))) * 10
    to_map.build(x.shape)
    to_centre.build(x.shape)
    randomise(to_map)
    to_centre.set_weights(to_map.get_weights())
    at_centre = numpy(to_map(x))[:, :, 30, 30]
    np.testing.assert_allclose(numpy(to_centre(x)), at_centre, atol=0.05 * np.ptp(at_centre))


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_folded_normalisation_is_exact(sampling):
    """Inference folds the normalisation into the kernels; training-mode layers do not."""
    layer = ScaleChannels(make_network(dtype="float64"), SCALES, None, sampling, dtype="float64")
    x = images((31, 31, 1)).astype("float64")
    layer.build(x.shape)
    randomise(layer)
    folded = numpy(layer(x, training=False))
    for sublayer in layer.network.layers:  # frozen: training uses the moving statistics too
        if isinstance(sublayer, ScaleBatchNormalization):
            sublayer.trainable = False
    unfolded = numpy(layer(x, training=True))
    np.testing.assert_allclose(folded, unfolded, atol=1e-10 * np.abs(folded).max())


def test_normalisation_after_an_activation_is_not_folded():
    jets = [
        GaussianDerivative(4, 1.0, activation="relu"),
        ScaleBatchNormalization(),
        GaussianDerivative(3, 1.25),
        CentralPixel(),
    ]
    layer = ScaleChannels(keras.Sequential(jets), SCALES, None, "dense")
    x = ops.convert_to_tensor(images((20, 20, 1)))
    layer.build(x.shape)
    randomise(layer)
    literal = numpy(run_layers(layer.network, SCALES, x, False))
    np.testing.assert_allclose(numpy(layer(x)), literal, atol=1e-4 * np.abs(literal).max())


@pytest.mark.parametrize("sampling", ["matched", "dense"])
@pytest.mark.parametrize("training", [False, True])
def test_no_images_give_no_scores(sampling, training):
    layer = ScaleChannels(make_network(), SCALES, None, sampling)
    layer(images((24, 31, 1)))
    assert tuple(layer.channels(images((24, 31, 1))[:0], training).shape) == (0, 4, 3)
    assert all(np.isfinite(weight).all() for weight in layer.get_weights())


def test_channels_stack_and_pooling():
    layer = ScaleChannels(make_network(), SCALES, "max")
    x = images((31, 31, 1))
    stack = numpy(layer.channels(x)) if layer.built else numpy((layer(x), layer.channels(x))[1])
    assert stack.shape == (3, 4, 3)
    np.testing.assert_allclose(numpy(layer(x)), stack.max(axis=1), atol=1e-6)


def test_one_update_of_the_moving_statistics_a_step():
    layer = ScaleChannels(make_network(), SCALES)
    x = images((31, 31, 1))
    layer(x)
    norm = layer.network.layers[1]
    layer(x, training=True)
    first = numpy(norm.moving_variance)
    layer(x, training=True)
    # m' = 0.9 m + 0.1 v from 1: after two steps of the same batch 1 - 0.9^2 of the way.
    np.testing.assert_allclose(
        (numpy(norm.moving_variance) - 1) / (first - 1), (1 - 0.81) / 0.1, rtol=1e-3
    )


@pytest.mark.parametrize("scales", [[], [1.0, 1.0], [2.0, 1.0], [0.0, 1.0], ["a"], 3.0, None])
def test_bad_scales(scales):
    with pytest.raises(ValueError, match=r"`scales`.*Received: scales="):
        ScaleChannels(make_network(), scales)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"`sampling` must be one of.*Received: sampling='octave"):
        ScaleChannels(make_network(), SCALES, sampling="octave")
    with pytest.raises(ValueError, match=r"`pooling` must be one of.*Received: pooling='sum'"):
        ScaleChannels(make_network(), SCALES, pooling="sum")
    with pytest.raises(ValueError, match=r"`density`.*Received: density=0"):
        ScaleChannels(make_network(), SCALES, density=0)


@pytest.mark.parametrize(
    "intruder, message",
    [
        (keras.layers.Conv2D(3, 3), "Conv2D must have kernel_size=\\(1, 1\\)"),
        (keras.layers.Conv2D(3, 1, strides=2), "must have strides=\\(1, 1\\)"),
        (keras.layers.DepthwiseConv2D(1), "may hold"),
        (keras.layers.MaxPooling2D(), "may hold"),
        (keras.layers.GlobalMaxPooling2D(keepdims=True), "must have keepdims=False"),
        (keras.layers.BatchNormalization(), "may hold"),
        (keras.layers.Flatten(), "may hold"),
        (keras.layers.UpSampling2D(), "may hold"),
        (keras.layers.Lambda(lambda x: x), "may hold"),
        (keras.layers.GroupNormalization(1), "may hold"),
        (keras.layers.LayerNormalization(axis=(1, 2, 3)), "must have axis=-1"),
        (keras.layers.Softmax(axis=1), "must have axis=-1"),
        (keras.layers.PReLU(), "must have shared_axes"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_layers_that_break_covariance_are_refused(intruder, message, nested):
    intruder = keras.Sequential([keras.layers.ReLU(), intruder]) if nested else intruder
    network = keras.Sequential([GaussianDerivative(3, 1.0), intruder])
    with pytest.raises(ValueError, match=rf"`network`.* {message}.*Received: "):
        ScaleChannels(network, SCALES)


def test_layers_on_points_are_taken():
    points = [
        keras.layers.LayerNormalization(),
        keras.layers.Softmax(),
        keras.layers.Conv2D(4, 1),
        keras.layers.PReLU(shared_axes=[1, 2]),
        keras.Sequential([keras.layers.ReLU(), keras.layers.Dropout(0.1)]),
    ]
    layer = ScaleChannels(keras.Sequential([GaussianDerivative(3, 1.0), *points]), SCALES)
    assert numpy(layer(images((20, 20, 1)))).shape == (3, 20, 20, 4)


def test_activity_regularizers_are_refused():
    network = keras.Sequential([GaussianDerivative(3, 1.0, activity_regularizer="l2")])
    with pytest.raises(ValueError, match="leave out `activity_regularizer`"):
        ScaleChannels(network, SCALES)


def test_grids_too_coarse_for_the_next_layer_are_refused():
    with pytest.raises(ValueError, match=r"`density`.*Received: density=0.3 with sigmas=\[1.0"):
        ScaleChannels(make_network(), SCALES, density=0.3)
    falling = keras.Sequential([GaussianDerivative(3, 4.0), GaussianDerivative(3, 1.0)])
    with pytest.raises(ValueError, match=r"sigmas that do not fall.*sigmas=\[4.0, 1.0\]"):
        ScaleChannels(falling, SCALES)
    ScaleChannels(falling, SCALES, sampling="dense")


def test_channels_before_the_first_call():
    stack = ScaleChannels(make_network(), SCALES).channels(np.ones((2, 20, 20, 1)))
    assert stack.shape == (2, 4, 3)


def test_images_with_another_number_of_channels():
    layer = ScaleChannels(make_network(), SCALES)
    layer(np.ones((1, 20, 20, 1)))
    with pytest.raises(ValueError, match="built for images with 1 feature channels"):
        layer(np.ones((1, 20, 20, 2)))


def test_network_without_jets_is_refused():
    with pytest.raises(ValueError, match=r"`network` must hold at least one GaussianDerivative"):
        ScaleChannels(keras.Sequential([keras.layers.ReLU()]), SCALES)


@pytest.mark.parametrize("shape", [(None, 2, 9, 1), (9, 9, 1), (None, 9, 9, None)])
def test_bad_shapes(shape):
    with pytest.raises(ValueError, match="Received: input_shape="):
        ScaleChannels(make_network(), SCALES).build(shape)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="uses tf.function")
def test_matched_stays_matched_where_a_pipeline_loses_the_static_shape():
    import tensorflow as tf

    layer = ScaleChannels(make_network(), SCALES)
    x = images((24, 31, 1))
    expected = numpy(layer(x))
    unknown = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None, 1))])
    np.testing.assert_allclose(unknown(x), expected, atol=1e-5)
    other = images((12, 31, 1))
    np.testing.assert_allclose(unknown(other), numpy(layer(other)), atol=1e-5)


def test_files_from_before_the_cone_was_an_argument_keep_theirs():
    network = keras.Sequential([GaussianDerivative(3, 1.0), CentralPixel()])
    config = ScaleChannels(network, (1.0, 2.0), cone=1.6).get_config()
    assert ScaleChannels.from_config(config).cone == 1.6
    del config["cone"]
    assert ScaleChannels.from_config(config).cone == 3.5
