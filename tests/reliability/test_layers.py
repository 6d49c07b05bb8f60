"""Layers that must not be wrong in silence: gradients of gradients, offsets, edits, sharing."""

import gc

import keras
import numpy as np
import pytest

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    GaussianSmoothing,
    ScaleBatchNormalization,
    ScaleChannels,
    ScalePooling,
)
from gdn_keras.models import channel_model
from tests.layers.networks import on_tensorflow

FLOAT64 = {"dtype": "float64"}


def scale_channels(sampling="matched"):
    """Smooth, so that finite differences make sense. (Keras's tanh is in float32 on JAX.)"""
    layers = [
        GaussianDerivative(3, 1.0, **FLOAT64),
        ScaleBatchNormalization(**FLOAT64),
        keras.layers.Activation("softplus", **FLOAT64),
        GaussianDerivative(2, 1.25, order=3, **FLOAT64),
    ]
    network = keras.Sequential(layers)
    return ScaleChannels(network, (1.0, 1.7), "logsumexp", sampling, **FLOAT64)


SMOOTH = {
    "jet": lambda: GaussianDerivative(2, 1.3, **FLOAT64),
    "third order": lambda: GaussianDerivative(2, 0.9, order=3, **FLOAT64),
    "matched": scale_channels,
    "dense": lambda: scale_channels("dense"),
    "normalisation": lambda: ScaleBatchNormalization(**FLOAT64),
}


def penalty_with_gradients(layer, graph):
    """A function of images and trainable weights: sum(g^2) of sum(y^3), and its gradients.

    Args:
        layer: In training.
        graph: Whether the function is compiled; on JAX it always is.
    """
    others = [variable.value for variable in layer.non_trainable_variables]
    options = {} if isinstance(layer, GaussianDerivative) else {"training": True}
    if keras.backend.backend() == "jax":
        import jax

        def cube(tensors):
            y, _ = layer.stateless_call(tensors[1:], others, tensors[0], **options)
            return (y**3).sum()

        def penalty(tensors):
            return sum((g**2).sum() for g in jax.grad(cube)(tensors))

        return jax.jit(jax.value_and_grad(penalty))
    import tensorflow as tf

    def run(tensors):
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as inner:
                inner.watch(tensors)
                y, _ = layer.stateless_call(tensors[1:], others, tensors[0], **options)
                loss = tf.reduce_sum(y**3)
            penalty = tf.add_n([tf.reduce_sum(g**2) for g in inner.gradient(loss, tensors)])
        return penalty, outer.gradient(penalty, tensors)

    return tf.function(run) if graph else run


def as_tensors(values):
    return [keras.ops.convert_to_tensor(value, "float64") for value in values]


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="computes in float32")
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_gradients_are_those_of_finite_differences(name, graph):
    if keras.backend.backend() == "jax" and not graph:
        pytest.skip("the same functions, one by one")
    rng = np.random.default_rng(0)
    layer = SMOOTH[name]()
    x = rng.normal(size=(2, 9, 8, 2))
    layer(x)
    values = [x, *(rng.normal(size=w.shape, scale=0.5) for w in layer.trainable_weights)]
    run = penalty_with_gradients(layer, graph)
    _, gradients = run(as_tensors(values))
    for k, gradient in enumerate(gradients):
        direction = rng.normal(size=values[k].shape)
        penalties = []
        for step in (1e-5, -1e-5):
            moved = [*values[:k], values[k] + step * direction, *values[k + 1 :]]
            penalties.append(run(as_tensors(moved))[0])
        expected = float(penalties[0] - penalties[1]) / 2e-5
        found = float(np.sum(keras.ops.convert_to_numpy(gradient) * direction))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-4), k


@on_tensorflow
def test_no_graph_of_a_training_step_stays_behind():
    import tensorflow as tf

    def take_step():
        layer = scale_channels()
        x = tf.constant(np.random.default_rng(0).normal(size=(2, 9, 8, 2)))
        layer.build(x.shape)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(x, training=True))
            return tape.gradient(loss, [w.value for w in layer.trainable_variables])

        step()

    def graphs_after_a_step():
        take_step()
        keras.backend.clear_session()
        gc.collect()
        return sum(type(found).__name__ == "FuncGraph" for found in gc.get_objects())

    graphs_after_a_step()  # leaves those that hold the gradients of the convolutions
    assert graphs_after_a_step() == graphs_after_a_step()


def two_pass_statistics(channels, shares):
    """Mean and variance in float64, the second from what the first leaves."""
    channels = [np.float64(x) for x in channels]
    mean = np.average([x.mean((0, 1, 2)) for x in channels], axis=0, weights=shares)
    squares = [((x - mean) ** 2).mean((0, 1, 2)) for x in channels]
    return mean, np.average(squares, axis=0, weights=shares)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e6])
def test_variance_survives_an_offset(offset, dtype):
    rng = np.random.default_rng(0)
    sides, shares = (9, 5, 3), (0.5, 0.3, 0.2)
    channels = [rng.normal(offset + i, 1 + i, (4, n, n, 2)) for i, n in enumerate(sides)]
    channels = [x.astype(dtype) for x in channels]
    layer = ScaleBatchNormalization(momentum=0.0, dtype=dtype)
    outputs = layer(channels, training=True, weights=shares)
    mean, variance = two_pass_statistics(channels, shares)
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-4)
    tolerance = 1e-6 * max(abs(offset), 10)  # of the mean, in single precision
    for x, y in zip(channels, outputs, strict=True):
        expected = (x - mean) / np.sqrt(variance + 1e-5)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(y), expected, atol=tolerance)


@pytest.mark.parametrize("blank", [0, 1])  # the mean of the first image is far from that of all
def test_variance_survives_a_first_image_unlike_the_others(blank):
    x = np.random.default_rng(0).normal(1e4, 1.0, (50, 6, 6, 2)).astype("float32")
    x[:blank] = 0.0
    layer = ScaleBatchNormalization(momentum=0.0)
    layer(x, training=True)
    np.testing.assert_allclose(layer.moving_variance, np.float64(x).var((0, 1, 2)), rtol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_one_tensor_is_normalised_as_by_keras(offset, dtype):
    x = np.random.default_rng(0).normal(offset, 3.0, (6, 4, 4, 3)).astype("float32")
    options = {"momentum": 0.9, "epsilon": 1e-5, "dtype": dtype}
    ours, stock = ScaleBatchNormalization(**options), keras.layers.BatchNormalization(**options)
    for training in (True, False):
        found, expected = (
            np.float32(keras.ops.convert_to_numpy(layer(x, training=training)))
            for layer in (ours, stock)
        )
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
    for a, b in zip(ours.weights, stock.weights, strict=True):
        assert a.name == b.name and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4)


@on_tensorflow
@pytest.mark.parametrize("count", [4, 7])  # images of the first replica: the second may have none
def test_replicas_have_the_statistics_of_the_whole_batch(two_devices, count):
    import tensorflow as tf

    x = np.random.default_rng(0).normal(1e4, 1.0, (7, 4, 4, 2)).astype("float32")
    parts = [x[:count], x[count:]]
    with two_devices.scope():
        layer = ScaleBatchNormalization(momentum=0.0)
        layer.build(x.shape)
    images = two_devices.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )
    run = tf.function(lambda x: layer(x, training=True), autograph=False)
    outputs = two_devices.experimental_local_results(two_devices.run(run, (images,)))
    mean, variance = np.float64(x).mean((0, 1, 2)), np.float64(x).var((0, 1, 2))
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-3)
    expected = (x - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(np.concatenate(outputs), expected, atol=5e-3)


@on_tensorflow
def test_no_images_teach_the_normalisation_nothing():
    """In a graph that does not know how many there are."""
    import tensorflow as tf

    layer = ScaleBatchNormalization()
    layer.build((None, 4, 4, 2))
    signature = [tf.TensorSpec((None, 4, 4, 2))]
    run = tf.function(lambda x: layer(x, training=True), input_signature=signature)
    run(np.random.default_rng(0).normal(size=(3, 4, 4, 2)))
    before = layer.get_weights()
    assert run(np.zeros((0, 4, 4, 2))).shape == (0, 4, 4, 2)
    for a, b in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_half_precision_does_not_overflow_in_the_statistics():
    x = np.random.default_rng(0).normal(0, 1000.0, (4, 5, 5, 2))
    y = ScaleBatchNormalization(dtype="float16")(x, training=True)
    assert np.std(np.float32(keras.ops.convert_to_numpy(y))) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("option", [{"axis": 1}, {"renorm": True}])
def test_normalisation_of_other_kinds_is_refused(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        ScaleBatchNormalization(**option)


IMAGES = np.random.default_rng(0).normal(size=(2, 20, 20, 1)).astype("float32")


def sequential():
    keras.utils.set_random_seed(0)
    layers = [GaussianDerivative(2, 1.0), keras.layers.ReLU(), GaussianDerivative(3, 1.25)]
    return keras.Sequential([*layers, CentralPixel()])


def functional():
    """With the chain inside, so that it can be edited."""
    image = keras.Input((None, None, 1))
    return keras.Model(image, sequential()(image))


def chain_of(network):
    return network if isinstance(network, keras.Sequential) else network.layers[-1]


def change_sigma(chain):
    chain.layers[-2].sigma = 2.0


def change_boundaries(chain):
    for layer in chain.layers:
        if isinstance(layer, GaussianDerivative):
            layer.boundary = "constant"


def add_and_remove(chain):
    chain.pop()
    chain.add(keras.layers.Activation("sigmoid"))
    chain.add(CentralPixel())


@pytest.mark.parametrize("edit", [change_sigma, change_boundaries, add_and_remove])
@pytest.mark.parametrize("make", [sequential, functional])
def test_an_edited_network_runs_as_it_is_after_saving(make, edit, tmp_path):
    layer = ScaleChannels(make(), (1.0, 2.0, 6.0))
    before = keras.ops.convert_to_numpy(layer(IMAGES))
    edit(chain_of(layer.network))
    image = keras.Input((20, 20, 1))
    model = keras.Model(image, layer(image))
    model.save(tmp_path / "model.keras")
    after = keras.saving.load_model(tmp_path / "model.keras").predict(IMAGES, verbose=0)
    assert np.abs(after - before).max() > 1e-4
    np.testing.assert_allclose(keras.ops.convert_to_numpy(layer(IMAGES)), after, atol=1e-5)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), after, atol=1e-5)


def test_what_an_edit_makes_impossible_is_refused():
    layer = ScaleChannels(sequential(), (1.0, 2.0))
    layer(IMAGES)
    layer.network.layers[0].boundary = "constant"
    with pytest.raises(ValueError, match="boundary"):
        layer(IMAGES)
    layer = ScaleChannels(sequential(), (1.0, 2.0), surround=0.5)
    layer(IMAGES)
    layer.network.pop()
    with pytest.raises(ValueError, match="surround"):
        layer(IMAGES)


def test_a_network_belongs_to_one_layer():
    network = sequential()
    with pytest.raises(ValueError, match="scales"):
        ScaleChannels(network, (2.0, 1.0))  # which leaves the network free
    layer = ScaleChannels(network, (1.0, 2.0))
    with pytest.raises(ValueError, match="`network` must not be in another"):
        ScaleChannels(network, (1.0, 4.0))
    layer(IMAGES)
    copy = ScaleChannels(keras.models.clone_model(network), (1.0, 4.0))
    assert copy(IMAGES).shape == layer(IMAGES).shape


def test_the_stack_of_a_layer_that_pools_shares_its_weights_and_can_be_saved(tmp_path):
    image = keras.Input((20, 20, 1))
    layer = ScaleChannels(sequential(), (1.0, 2.0))
    model = keras.Model(image, layer(image))
    stack = channel_model(model)
    assert [id(w) for w in stack.weights] == [id(w) for w in model.weights]
    expected = stack.predict(IMAGES, verbose=0)
    assert expected.shape == (2, *stack.output_shape[1:]) == (2, 2, 3)
    np.testing.assert_allclose(expected.max(1), model.predict(IMAGES, verbose=0), atol=1e-6)
    stack.save(tmp_path / "stack.keras")
    loaded = keras.saving.load_model(tmp_path / "stack.keras")
    np.testing.assert_allclose(loaded.predict(IMAGES, verbose=0), expected, atol=1e-6)


@pytest.mark.parametrize("make", [lambda: GaussianSmoothing(1.0), CentralPixel])
def test_images_of_another_rank_are_refused_after_building(make):
    layer = make()
    layer(IMAGES)
    for wrong in (IMAGES[0], IMAGES[None]):
        with pytest.raises(ValueError, match="rank 4"):
            layer(wrong)


def test_normalisation_does_not_broadcast_other_channels():
    layer = ScaleBatchNormalization()
    layer.build((None, 4, 4, 2))
    for inputs in (np.ones((2, 4, 4, 1)), [np.ones((2, 4, 4, 2)), np.ones((2, 4, 4, 1))]):
        with pytest.raises(ValueError, match="2 feature channels"):
            layer(inputs)


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: CentralPixel(**options),
        lambda **options: ScalePooling("average", **options),
        lambda **options: ScalePooling("average", dropout=0.3, seed=0, **options),
    ],
)
def test_means_in_half_precision_do_not_overflow(make):
    layer = make(dtype="mixed_float16")
    options = {"training": True} if isinstance(layer, ScalePooling) else {}
    y = keras.ops.convert_to_numpy(layer(np.full((2, 8, 8, 3), 60000.0), **options))
    np.testing.assert_allclose(np.float32(y), 60000.0, rtol=2e-3)


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
def test_whole_numbers_are_pooled_as_floats(pooling):
    x = np.array([[[1], [2]]])
    whole, real = (
        keras.ops.convert_to_numpy(ScalePooling(pooling)(x.astype(dtype)))
        for dtype in ("int32", "float32")
    )
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, real)


def test_no_channels_are_not_pooled():
    with pytest.raises(ValueError, match="scale channels"):
        ScalePooling()(np.ones((2, 0, 4)))


@on_tensorflow
def test_no_images_keep_the_shape_of_some(side=None):
    """In a graph that does not know how many there are, nor their size."""
    import tensorflow as tf

    for layer in (GaussianDerivative(3, 1.0), GaussianSmoothing(1.0)):
        layer.build((None, side, side, 2))
        signature = [tf.TensorSpec((None, side, side, 2))]
        run = tf.function(layer, input_signature=signature)
        some, none = run(np.ones((2, 9, 9, 2))), run(np.ones((0, 9, 9, 2)))
        assert none.shape == (0, *some.shape[1:])
