"""Images of sizes that are known only when they come."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import (
    CentralPixel,
    GaussianDerivative,
    ScaleChannels,
)
from tests.layers.networks import (
    READOUTS,
    images,
    make_network,
    numpy,
    on_tensorflow,
    residual_network,
)

SCALES = (1.0, 2**0.5, 2.0)


@on_tensorflow
@pytest.mark.parametrize(
    "read, boundary, border",
    [
        ("center", "symmetric", 0.0),
        ("anywhere", "edge", 0.0),
        ("map", "symmetric", 0.0),
        ("points", "constant", 0.0),
        ("points", "symmetric", 100.0),
    ],
)
def test_graphs_of_unknown_size_compute_what_others_do(read, boundary, border):
    import tensorflow as tf

    readout = "points" if read == "points" else "map"
    network = residual_network(READOUTS.get(read), boundary=boundary)
    layer = ScaleChannels(network, SCALES[:2], pooling=None, readout=readout, border=border)
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None, 2))])
    for shape in ((90, 23, 2), (5, 3, 2)):
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
    np.testing.assert_allclose(answers, numpy(model.layers[-1](large)), atol=1e-5)
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
    expected = [np.mean(numpy(model.layers[-1](images(s))) ** 2) for s in shapes]
    assert model.evaluate(data, verbose=0) == pytest.approx(np.mean(expected), rel=1e-4)
    model.fit(data, verbose=0, shuffle=False)
    assert model.predict(data.map(lambda x, y: x), verbose=0).shape == (9, 3)


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
