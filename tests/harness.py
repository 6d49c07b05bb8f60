"""One harness for every layer: shape, dtype, configuration, files, a training step, sizes."""

import keras
import numpy as np

# Where making a graph takes longer than a small training. JAX would compile each operation.
EAGER = keras.backend.backend() == "tensorflow"


def run_layer_test(
    tmp_path,
    make,
    input_shape,
    output_shape,
    weights,
    unknown_size=True,
    atol=1e-5,
    train_eagerly=False,
):
    """Take a layer through everything that users do with layers.

    Args:
        tmp_path: A folder for files.
        make: Function `(**kwargs) -> layer`.
        input_shape: With the batch size.
        output_shape: Expected, with the batch size.
        weights: Expected numbers of (trainable, non-trainable) weights.
        unknown_size: Whether height and width may be unknown.
        atol: Tolerance between ways to compute the same thing in float32.
        train_eagerly: Without the graph of the training step, on TensorFlow.
    """
    x = np.random.default_rng(0).normal(size=input_shape).astype("float32")

    layer = make()
    y = _model(layer, x.shape[1:]).predict(x, verbose=0)
    assert y.shape == output_shape
    assert layer.compute_output_shape(input_shape) == output_shape
    assert (len(layer.trainable_weights), len(layer.non_trainable_weights)) == weights
    assert np.all(np.isfinite(y))

    _check_config(layer)
    _check_file(tmp_path, make, x)
    _check_training(make, x, output_shape, train_eagerly)
    _check_precisions(make, x, y.dtype)
    if unknown_size:
        model = _model(make(), (None, None, *input_shape[3:]))
        _copy(layer, model.layers[-1])
        np.testing.assert_allclose(model.predict(x, verbose=0), y, atol=atol)


def _model(layer, shape):
    inputs = keras.Input(shape)
    return keras.Model(inputs, layer(inputs))


def _copy(source, target):
    target.set_weights(source.get_weights())


def _check_config(layer):
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config
    assert keras.saving.get_registered_name(type(layer)) == f"gdn_keras>{type(layer).__name__}"


def _check_file(tmp_path, make, x):
    model = _model(make(), x.shape[1:])
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    expected, *others = (keras.ops.convert_to_numpy(m(x)) for m in (model, loaded, clone))
    for other in others:
        np.testing.assert_allclose(other, expected, atol=1e-6)


def _check_training(make, x, output_shape, eagerly):
    # A dense layer in front gives weightless layers gradients to pass on.
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, make()(keras.layers.Dense(x.shape[-1])(inputs)))
    target = np.random.default_rng(1).normal(size=output_shape).astype("float32")
    model.compile(keras.optimizers.SGD(1e-2), "mse", run_eagerly=eagerly and EAGER)
    before = model.get_weights()
    losses = model.fit(x, target, epochs=3, verbose=0).history["loss"]
    assert np.all(np.isfinite(losses)) and losses[-1] < losses[0]
    changed = [np.any(a != b) for a, b in zip(model.get_weights(), before, strict=True)]
    assert all(changed[2:])


def _check_precisions(make, x, dtype):
    assert dtype == np.float32
    for policy in ("mixed_float16", "mixed_bfloat16", "float64"):
        layer = make(dtype=policy)
        y = _model(layer, x.shape[1:])(x)  # not `predict`, where torch has no bfloat16
        assert keras.backend.standardize_dtype(y.dtype) == layer.compute_dtype
        for weight in layer.weights:
            assert keras.backend.standardize_dtype(weight.dtype) == layer.variable_dtype
