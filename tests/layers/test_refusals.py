"""What scale channels do not take, and what they say then."""

import keras
import numpy as np
import pytest
from keras import ops

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    GaussianSmoothing,
    ScaleChannels,
)
from tests.layers.networks import (
    images,
    make_network,
    numpy,
    on_tensorflow,
    residual_network,
)

SCALES = (0.8, 1.2, 2.0, 3.5)


def test_matched_scales_below_half_a_pixel_are_refused():
    with pytest.raises(ValueError, match=r"`scales` must give.*Received: scales=\[0.4, 1.0\]"):
        ScaleChannels(make_network(True), (0.4, 1))
    ScaleChannels(make_network(True), (0.5, 1))
    ScaleChannels(make_network(True), (0.4, 1), sampling="dense")


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


def test_images_with_another_number_of_channels():
    layer = ScaleChannels(make_network(), SCALES)
    layer(np.ones((1, 20, 20, 1)))
    with pytest.raises(ValueError, match="built for images with 1 feature channels"):
        layer(np.ones((1, 20, 20, 2)))


def test_network_without_jets_is_refused():
    with pytest.raises(ValueError, match=r"`network` must hold GaussianDerivative"):
        ScaleChannels(keras.Sequential([keras.layers.ReLU()]), SCALES)


@pytest.mark.parametrize("shape", [(None, 2, 9, 1), (9, 9, 1), (None, 9, 9, None)])
def test_bad_shapes(shape):
    with pytest.raises(ValueError, match="Received: input_shape="):
        ScaleChannels(make_network(), SCALES).build(shape)


@on_tensorflow
def test_an_image_without_a_batch_after_two_sizes():
    """The graph has met two ranks by then, and knows none."""
    import tensorflow as tf

    run = tf.function(ScaleChannels(make_network(), SCALES), reduce_retracing=True)
    for shape in ((20, 20, 1), (24, 20, 1)):
        run(images(shape))
    with pytest.raises(ValueError, match=r"images of rank 4, .* Received: input_shape=None"):
        run(images((20, 20, 1))[0])


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


def test_points_have_no_pooling_and_no_read_out():
    network = residual_network()
    with pytest.raises(ValueError, match=r"points are not pooled.*Received: pooling='max'"):
        ScaleChannels(network, SCALES, readout="points")
    with pytest.raises(ValueError, match="without a read-out"):
        ScaleChannels(residual_network(CentralPixel), SCALES, None, readout="points")
    with pytest.raises(ValueError, match="without a read-out"):
        ScaleChannels(residual_network(CentralPixel), SCALES).point_grids((20, 20))
