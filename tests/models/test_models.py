import keras
import numpy as np
import pytest

import gdn_keras
from gdn_keras import layers, models
from gdn_keras.analysis import covariance_error
from gdn_keras.presets import PRESETS
from tests.harness import EAGER
from tests.layers.networks import images

SMALL = {"input_shape": (24, 24, 1), "widths": (4, 6), "num_classes": 3, "scales": (1.0, 2.0)}


@pytest.mark.parametrize("preset, paper", [("mnist", 15864), ("default", 24264), ("large", 38496)])
def test_parameter_counts(preset, paper):
    model = gdn_keras.from_preset(preset)
    counts = models.parameter_counts(model)
    assert counts["paper"] == paper
    assert counts["trainable"] + counts["non_trainable"] == model.count_params()
    # 5/6 of the paper's, a factor and an offset for each feature channel.
    widths = [*PRESETS[preset]["parameters"]["widths"], 10]
    assert counts["trainable"] == paper * 5 // 6 + 2 * sum(widths)


@pytest.mark.parametrize("preset", ["mnist", "default", "large"])
def test_presets_give_logits_for_ten_classes(preset):
    model = gdn_keras.from_preset(preset)
    assert model.output_shape == (None, 10)
    assert len(models.scale_channels_of(model).scales) == (
        8 if preset in ("default", "large") else 1
    )


def test_plain_keras_model(tmp_path, capsys):
    model = models.gaussian_derivative_network(**SMALL)
    x, y = images((24, 24, 1)), np.eye(3, dtype="float32")
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    history = model.fit(x, y, epochs=8, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.summary()
    assert "scale_channels" in capsys.readouterr().out
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for other in (loaded, clone):
        np.testing.assert_allclose(
            other.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6
        )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_keeps_float32_logits(policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = models.gaussian_derivative_network(**SMALL)
        points = models.gaussian_derivative_network(**SMALL, readout="points", boxes=True)
    finally:
        keras.config.set_dtype_policy("float32")
    x, y = images((24, 24, 1)), np.eye(3, dtype="float32")
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=EAGER and policy == "mixed_bfloat16")
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"]).all()
    for network in (model, points):
        assert keras.backend.standardize_dtype(network(x).dtype) == "float32"
        assert models.scale_channels_of(network).network.layers[0].compute_dtype == policy[6:]


def test_retarget_to_another_size_and_other_scales():
    model = models.gaussian_derivative_network(**SMALL)
    other = models.retarget(model, input_shape=(40, 37, 1), scales=(0.8, 1.0, 2.0, 4.0))
    assert other.input_shape == (None, 40, 37, 1)
    assert models.scale_channels_of(other).scales == (0.8, 1.0, 2.0, 4.0)
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    # The same channels on the same images are the same numbers.
    same = models.channel_model(models.retarget(model, scales=(1.0, 2.0, 3.0)))
    x = images((24, 24, 1))
    np.testing.assert_allclose(
        same.predict(x, verbose=0)[:, :2],
        models.channel_model(model).predict(x, verbose=0),
        atol=1e-5,
    )


def test_channel_model_is_what_the_model_pools():
    model = models.gaussian_derivative_network(**SMALL)
    x = images((24, 24, 1))
    stack = models.channel_model(model).predict(x, verbose=0)
    assert stack.shape == (3, 2, 3)
    np.testing.assert_allclose(stack.max(axis=1), model.predict(x, verbose=0), atol=1e-6)


@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_map_output(sampling):
    model = models.gaussian_derivative_network(**{**SMALL, "sampling": sampling}, readout="map")
    assert model.output_shape == (None, 24, 24, 3)
    assert model.predict(images((24, 24, 1)), verbose=0).shape == (3, 24, 24, 3)


@pytest.mark.parametrize(
    "readout, shape, options",
    [
        ("center", (3,), {"residual": True, "sigmas": (1, 2, 2, 2)}),
        ("anywhere", (3,), {}),
        ("average", (3,), {"sigmas": (1, 2, 2, 2)}),
        ("average", (3,), {"residual": True}),
        ("map", (24, 24, 3), {}),
        ("points", None, {"residual": True}),
        ("points", None, {"residual": True, "sigmas": (1, 2, 2, 2), "boxes": True}),
    ],
)
def test_outputs(tmp_path, readout, shape, options):
    keras.utils.set_random_seed(0)
    options = {**SMALL, "widths": (4, 6, 5), "zero_order": True, "order": 3, **options}
    model = models.gaussian_derivative_network(**options, readout=readout)
    channels = models.scale_channels_of(model)
    if shape is None:
        grids = channels.point_grids((24, 24))
        points = sum(grid.rows * grid.columns for grid in grids)
        shape = (points, 3 + 4 * options.get("boxes", False))
    assert model.output_shape == (None, *shape)
    x = images((24, 24, 1))
    expected = keras.ops.convert_to_numpy(model(x))
    assert expected.shape == (3, *shape)
    model.save(tmp_path / "model.keras")
    for same in (keras.saving.load_model(tmp_path / "model.keras"), models.retarget(model)):
        np.testing.assert_allclose(same(x), expected, atol=1e-6)
    dense = models.gaussian_derivative_network(**options, readout=readout, sampling="dense")
    dense.set_weights(model.get_weights())
    assert np.isfinite(dense(x)).all()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=EAGER)
    target = np.ones((3, *shape), "float32")  # scores start out negative
    losses = model.fit(x, target, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("sigmas", [(1, 2, 2, 4, 4, 4), (1, 1.41, 2, 4, 4, 4)])
def test_covariance_with_any_sigmas(sigmas):
    keras.utils.set_random_seed(0)
    widths, scales = (4, 4, 6, 6, 8), (1.0, 2**0.5, 2.0)
    options = {"widths": widths, "num_classes": 3, "scales": scales, "input_shape": (96, 96, 1)}
    for residual in (False, True):
        model = models.gaussian_derivative_network(**options, sigmas=sigmas, residual=residual)
        jets = [
            x
            for x in models.scale_channels_of(model).shared_layers
            if isinstance(x, layers.GaussianDerivative)
        ]
        assert tuple(jet.sigma for jet in jets) == sigmas
        for seed, jet in enumerate(jets):  # the same on all backends
            drawn = np.random.default_rng(seed).normal(size=jet.kernel.shape)
            jet.kernel.assign(0.3 * drawn)
        assert covariance_error(model, 2**0.5).layers.max() < 1e-3


def test_options_change_the_network_as_they_say():
    model = models.gaussian_derivative_network(**SMALL, zero_order=True, order=3, scale_dropout=0.3)
    first = models.scale_channels_of(model).network.layers[0]
    assert first.kernel.shape[0] == 10
    assert model.layers[-1].dropout == 0.3
    double = models.gaussian_derivative_network(**SMALL, dtype="float64")
    logits = double(images((24, 24, 1)))
    assert keras.backend.standardize_dtype(logits.dtype) == "float64"
    half = models.gaussian_derivative_network(**SMALL, dtype="mixed_bfloat16")
    logits = half(images((24, 24, 1)))
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert models.scale_channels_of(half).network.layers[0].compute_dtype == "bfloat16"
    with pytest.raises(ValueError, match=r"are not pooled. Received: pooling='max'"):
        models.gaussian_derivative_network(**SMALL, readout="points", pooling="max")


def test_skips_are_sampled_onto_the_coarser_grid():
    model = models.gaussian_derivative_network(
        **{**SMALL, "widths": (4, 6, 6, 6, 6)}, residual=True
    )
    network = models.scale_channels_of(model).network
    assert sum(isinstance(layer, keras.layers.Add) for layer in network.layers) == 2
    # Only where the widths differ does the skip need weights.
    assert sum(isinstance(layer, keras.layers.Dense) for layer in network.layers) == 1


@pytest.mark.parametrize("residual", [False, True])
def test_retarget_to_another_read_out(residual):
    options = {**SMALL, "widths": (4, 4, 4), "residual": residual}
    center = models.gaussian_derivative_network(**options)
    x = images((24, 24, 1))
    points = models.retarget(center, readout="points")
    channels = models.scale_channels_of(points)
    scores = points.predict(x, verbose=0)
    # The highest score of any point is what "anywhere" gives, in the same channels.
    anywhere = models.retarget(center, readout="anywhere").predict(x, verbose=0)
    np.testing.assert_allclose(scores.max(axis=1), anywhere, atol=1e-5)
    average = models.channel_model(models.retarget(center, readout="average"))
    first = channels.point_grids((24, 24))[0]
    mean = scores[:, : first.rows * first.columns].mean(axis=1)
    np.testing.assert_allclose(average.predict(x, verbose=0)[:, 0], mean, atol=1e-5)
    assert models.retarget(points, readout="map").output_shape == (None, 24, 24, 3)
    back = models.retarget(points, readout="center")
    np.testing.assert_allclose(back.predict(x, verbose=0), center.predict(x, verbose=0), atol=1e-5)
    with pytest.raises(ValueError, match=r"`readout`.*corner"):
        models.retarget(center, readout="corner")


def test_retarget_to_images_of_any_size():
    model = models.gaussian_derivative_network(**SMALL)
    free = models.retarget(model, input_shape=(None, None, 1))
    for shape in ((24, 24, 1), (40, 31, 1)):
        x = images(shape)
        expected = models.retarget(model, input_shape=shape).predict(x, verbose=0)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(free(x)), expected, atol=1e-5)
        np.testing.assert_allclose(free.predict(x, verbose=0), expected, atol=1e-5)


def test_color_images_of_any_shape():
    model = models.gaussian_derivative_network(**{**SMALL, "input_shape": (17, 30, 3)})
    assert model.predict(images((17, 30, 3)), verbose=0).shape == (3, 3)


def test_unknown_size_with_dense_sampling():
    shape = (None, None, 1)
    model = models.gaussian_derivative_network(**{**SMALL, "input_shape": shape}, sampling="dense")
    fixed = models.retarget(model, input_shape=(24, 24, 1))
    x = images((24, 24, 1))
    np.testing.assert_allclose(model.predict(x, verbose=0), fixed.predict(x, verbose=0), atol=1e-4)


@pytest.mark.parametrize("sigmas", [(1, 2), (1, 2, 1.5), (0, 1, 2), 1.25, "fine"])
def test_bad_sigmas(sigmas):
    with pytest.raises(ValueError, match=r"`sigmas`.*Received: sigmas="):
        models.gaussian_derivative_network(**SMALL, sigmas=sigmas)


def test_bad_preset_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"'mnist', 'default', 'large'.*Received: preset='huge'"):
        gdn_keras.from_preset("huge")


def test_bad_retarget():
    model = models.gaussian_derivative_network(**SMALL)
    with pytest.raises(ValueError, match=r"`input_shape`.*Received: input_shape=\(24, 24, 3\)"):
        models.retarget(model, input_shape=(24, 24, 3))
    with pytest.raises(ValueError, match="exactly one ScaleChannels"):
        models.retarget(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))


def test_channel_model_of_a_layer_that_pools_itself():
    images = keras.Input((16, 16, 1))
    network = keras.Sequential([layers.GaussianDerivative(3, 1.0), layers.CentralPixel()])
    outputs = layers.ScaleChannels(network, (1, 2), pooling="max")(images)
    model = keras.Model(images, outputs)
    x = np.random.default_rng(0).normal(size=(4, 16, 16, 1)).astype("float32")
    stack = models.channel_model(model).predict(x, verbose=0)
    assert stack.shape == (4, 2, 3)
    np.testing.assert_allclose(stack.max(axis=1), model.predict(x, verbose=0), atol=1e-6)
