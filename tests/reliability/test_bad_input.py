"""Invalid values are answered by a `ValueError` that names the argument and echoes the value."""

import math

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdn_keras
from gdn_keras import datasets, layers, models, scale_space
from gdn_keras.export import export_saved_model
from gdn_keras.training import Recipe

NAN, INF = math.nan, math.inf
NO_NUMBERS = (None, "x", b"1", [], {}, (1, 2), 1j, object, np.ones(3))
NOT_FINITE = (NAN, INF, -INF)
NOT_POSITIVE = (*NO_NUMBERS, *NOT_FINITE, 0, -1, -0.5)
NEGATIVE = (*NO_NUMBERS, *NOT_FINITE, -1e-9, -1)
NO_COUNTS = (*NOT_POSITIVE, 1.5, 2.0, True)
NO_NAMES = (None, "", "Max", 3, NAN, [], ("max",), b"max", object)
NO_SHARES = (*NO_NUMBERS, *NOT_FINITE, 0, 1, -1, 2)
NO_SCALES = (None, 3, [], (), (0,), (-1, 2), (2, 1), (1, 1), (NAN,), (1, INF), "ab", (None,), {})
NO_WIDTHS = (3, [], (), (0,), (1.5,), ("x",), (NAN,), (-2, 3), "ab")
NO_SHAPES = (None, 3, (), (5,), (5, 5), (2, 5, 1), (5, 5, 0), (5, 5, None), (5, 5, 1, 1), "abc")
NO_IMAGES = (None, 3, "x", [], np.ones((4, 4)), np.full((1, 4, 4), NAN), np.full((1, 4, 4), INF))
NO_IMAGES = (*NO_IMAGES, np.ones((1, 4, 4), complex), np.array([["x"]]), np.zeros((1, 2, 3, 4, 5)))
NO_FRAMES = (None, 3, (5,), (0, 5), (5, -1), (5.5, 5), (5, 5, 5), "ab", (NAN, 5))

DIGITS = np.ones((4, 8, 8), "uint8")
LABELS = np.arange(4)
JET = layers.GaussianDerivative
NETWORK = models.gaussian_derivative_network


def channels(scales=(1.0,), network=None, **options):
    network = keras.Sequential([JET(2, 1.0)]) if network is None else network
    return layers.ScaleChannels(network, scales, **options)


def small(**options):
    return NETWORK(**{"input_shape": (9, 9, 1), "widths": (2,), "scales": (1,), **options})


def pipeline(make, images=DIGITS, labels=LABELS, **options):
    return make(images, labels, **options)


def tiny_recipe(**options):
    return Recipe(**{"scales": (1.0,), **options})


UNBUILT = keras.Sequential([channels()])

# Function of one argument by keyword, the argument's name, invalid values.
INVALID = [
    (lambda **k: JET(**{"filters": 2, "sigma": 1.0, **k}), "filters", NO_COUNTS),
    (lambda **k: JET(**{"filters": 2, "sigma": 1.0, **k}), "sigma", NOT_POSITIVE),
    (lambda **k: JET(2, 1.0, **k), "order", (*NO_COUNTS, 4)),
    (lambda **k: JET(2, 1.0, **k), "boundary", NO_NAMES),
    (lambda **k: JET(2, 1.0, **k), "zero_order", ("no", None, 2)),
    (lambda **k: JET(2, 1.0, **k), "truncation", NO_SHARES),
    (lambda **k: JET(2, 1.0)(np.ones((1, 5, 5, 1)), **k), "scale", NOT_POSITIVE),
    (layers.GaussianSmoothing, "sigma", NEGATIVE),
    (lambda **k: layers.GaussianSmoothing(1, **k), "boundary", NO_NAMES),
    (lambda **k: layers.GaussianSmoothing(1, **k), "truncation", NO_SHARES),
    (lambda **k: layers.GaussianSmoothing(1)(np.ones((1, 5, 5, 1)), **k), "scale", NOT_POSITIVE),
    (layers.ScalePooling, "pooling", NO_NAMES),
    (layers.ScaleBatchNormalization, "momentum", (*NO_NUMBERS, *NOT_FINITE, 1, -0.1)),
    (layers.ScaleBatchNormalization, "epsilon", NOT_POSITIVE),
    (channels, "scales", NO_SCALES),
    (channels, "sampling", NO_NAMES),
    (channels, "pooling", NO_NAMES[1:]),
    (channels, "density", NOT_POSITIVE),
    (channels, "network", (3, "x", [], JET(2, 1.0), keras.Sequential(), keras.layers.ReLU())),
    (small, "input_shape", NO_SHAPES),
    (small, "widths", (None, *NO_WIDTHS)),
    (small, "num_classes", NO_COUNTS),
    (small, "scales", NO_SCALES),
    (small, "scale_ratio", (*NOT_POSITIVE, 0.5)),
    (small, "pooling", NO_NAMES[1:]),
    (small, "sampling", NO_NAMES),
    (small, "order", (*NO_COUNTS, 4)),
    (small, "boundary", NO_NAMES),
    (small, "truncation", [value for value in NO_SHARES if value is not None]),
    (small, "density", NOT_POSITIVE),
    (small, "readout", NO_NAMES),
    *((small, name, ("no", None, 2)) for name in ("zero_order", "residual", "boxes")),
    (gdn_keras.from_preset, "preset", NO_NAMES),
    (lambda **k: models.retarget(small(), **k), "input_shape", [x for x in NO_SHAPES if x]),
    (lambda **k: models.retarget(small(), **k), "scales", [x for x in NO_SCALES if x is not None]),
    (models.channel_model, "model", (None, 3, "x", keras.Sequential(), UNBUILT)),
    (models.parameter_counts, "model", (None, 3, "x", keras.Sequential())),
    (models.retarget, "model", (None, 3, "x", keras.Sequential(), UNBUILT)),
    (lambda **k: export_saved_model(path="x", **k), "model", (None, 3, "x")),
    (lambda **k: export_saved_model(small(), "x", **k), "probabilities", NO_NAMES),
    (scale_space.truncation_radius, "sigma", NEGATIVE),
    (lambda **k: scale_space.truncation_radius(1, **k), "truncation", NO_SHARES),
    (scale_space.gaussian_kernel, "sigma", NEGATIVE),
    (lambda **k: scale_space.gaussian_kernel(1, **k), "truncation", NO_SHARES),
    (scale_space.jet_orders, "order", (*NO_COUNTS, 4)),
    (scale_space.jet_stencils, "order", (*NO_COUNTS, 4)),
    (lambda **k: scale_space.directional_derivative(angle=0, **k), "order", (*NO_COUNTS, 4)),
    (scale_space.scale_normalization, "sigma", NEGATIVE),
    (lambda **k: scale_space.Grid(**{"size": 5, **k}), "size", NO_COUNTS),
    (lambda **k: scale_space.Grid(5, **k), "step", NOT_POSITIVE),
    (lambda **k: scale_space.sampling_matrix(*[scale_space.Grid(5)] * 2, **k), "sigma", NEGATIVE),
    (
        lambda **k: scale_space.sampling_matrix(*[scale_space.Grid(5)] * 2, 1, **k),
        "boundary",
        NO_NAMES,
    ),
    (lambda **k: datasets.rescale_images(size=1, **k), "images", NO_IMAGES),
    (lambda **k: datasets.rescale_images(DIGITS, **k), "size", NOT_POSITIVE),
    (lambda **k: datasets.rescale_images(DIGITS, 1, **k), "output_shape", NO_FRAMES),
    (lambda **k: datasets.rescale_images(DIGITS, 1, **k), "smoothing", NEGATIVE),
    (lambda **k: datasets.rescale_images(DIGITS, 1, **k), "boundary", NO_NAMES),
    (lambda **k: datasets.rescale_images(DIGITS, 1, **k), "peak", NOT_POSITIVE[1:]),
    (datasets.RandomAffine, "rotation", NEGATIVE),
    (datasets.RandomAffine, "shear", NEGATIVE),
    (datasets.RandomAffine, "shift", NEGATIVE),
    (lambda **k: datasets.RandomFrame(largest=8, **k), "smallest", NOT_POSITIVE),
    (lambda **k: datasets.RandomFrame(8, **k), "largest", (*NOT_POSITIVE, 7)),
    (lambda **k: datasets.RandomFrame(8, 9, **k), "share", (*NEGATIVE, 1.5)),
    (datasets.RandomLight, "brightness", NEGATIVE),
    (datasets.RandomLight, "contrast", (*NOT_POSITIVE, 0.5)),
    (datasets.RandomLight, "color", (*NOT_POSITIVE, 0.5)),
    (datasets.RandomLight, "shade", (*NEGATIVE, 1.5)),
    (datasets.RandomBlur, "focus", NEGATIVE),
    (datasets.RandomBlur, "motion", NEGATIVE),
    (lambda **k: datasets.load_large_scale(size=1, **k), "split", NO_NAMES),
    (lambda **k: datasets.load_large_scale("test", **k), "size", NOT_POSITIVE),
    (
        lambda **k: datasets.load_large_scale("test", 1, cache=False, **k),
        "count",
        [x for x in (*NO_COUNTS, 1001) if x is not None],
    ),
    (lambda **k: datasets.load_large_scale("test", 1, **k), "output_shape", NO_FRAMES),
    (lambda **k: datasets.load_large_scale("test", 1, **k), "source", (3, "x", (1, 2), object)),
    (lambda **k: datasets.load_official_large_scale("x", size=1, **k), "split", NO_NAMES),
    (lambda **k: datasets.load_official_large_scale("x", "test", **k), "size", NOT_POSITIVE),
    *(
        case
        for make in (datasets.training_pipeline, datasets.evaluation_pipeline)
        for case in [
            (lambda make=make, **k: pipeline(make, **k), "images", (None, 3, "x", np.ones(4))),
            (
                lambda make=make, **k: pipeline(make, **k),
                "labels",
                (None, 3, "x", [], [1, 2], [0.5] * 4, ["a"] * 4, np.ones((4, 1), int)),
            ),
            (lambda make=make, **k: pipeline(make, **k), "batch_size", NO_COUNTS),
        ]
    ),
    (
        lambda **k: pipeline(datasets.training_pipeline, **k),
        "num_classes",
        [x for x in NO_COUNTS if x is not True],
    ),
    (
        lambda **k: pipeline(datasets.evaluation_pipeline, **k),
        "num_classes",
        [x for x in NO_COUNTS if x is not True and x is not None],
    ),
    (
        lambda **k: pipeline(datasets.evaluation_pipeline, num_classes=3, **k),
        "labels",
        (LABELS, -LABELS),
    ),
    (lambda **k: pipeline(datasets.training_pipeline, **k), "seed", (*NEGATIVE, 0.5)),
    (lambda **k: pipeline(datasets.training_pipeline, **k), "initial_epoch", (*NEGATIVE, 0.5)),
    (lambda **k: pipeline(datasets.training_pipeline, **k), "labels", ([0, 1, 2, 10], [-1] * 4)),
    (datasets.steps_per_epoch, "count", NEGATIVE),
    (lambda **k: datasets.steps_per_epoch(5, **k), "batch_size", NO_COUNTS),
    (tiny_recipe, "network", NO_NAMES),
    (tiny_recipe, "widths", NO_WIDTHS),
    (tiny_recipe, "scales", NO_SCALES),
    (tiny_recipe, "train_scales", [x for x in NO_SCALES if x is not None]),
    *((tiny_recipe, x, NO_NAMES) for x in ("pooling", "sampling", "loss", "precision")),
    (tiny_recipe, "augment", (3, [], (0, 1), (NAN, 1), (2, 1), (1, 2, 3), "xy", ("x", 1))),
    *((tiny_recipe, x, NO_COUNTS) for x in ("epochs", "batch_size")),
    (tiny_recipe, "learning_rate", NOT_POSITIVE),
    (tiny_recipe, "final_learning_rate", NOT_POSITIVE[1:]),
    (tiny_recipe, "seed", (*NEGATIVE, 0.5)),
]


@pytest.mark.parametrize(
    ("make", "name", "values"),
    INVALID,
    ids=[f"{i}-{name}" for i, (_, name, _) in enumerate(INVALID)],
)
def test_invalid_values_are_named(make, name, values):
    for value in values:
        try:
            made = make(**{name: value})
        except ValueError as error:
            assert f"`{name}`" in str(error), f"{value!r}: {error}"
            assert "Received" in str(error), f"{value!r}: {error}"
        except Exception as error:
            pytest.fail(f"{name}={value!r} gives {type(error).__name__}: {error}")
        else:
            pytest.fail(f"{name}={value!r} gives {made!r}")


def make_image(kind, shape=(9, 9, 1)):
    image = np.random.default_rng(0).normal(size=shape)
    if kind in ("nan", "inf"):
        image[4, 4] = math.nan if kind == "nan" else math.inf
    return np.zeros(shape) if kind == "constant" else image


LAYERS = {
    "GaussianDerivative": lambda: JET(2, 1.0),
    "GaussianDerivative, wide": lambda: JET(2, 1.0, truncation=0.5),
    "GaussianSmoothing": lambda: layers.GaussianSmoothing(1.0),
    "ScaleBatchNormalization": layers.ScaleBatchNormalization,
    "CentralPixel": layers.CentralPixel,
    "matched": lambda: channels((1.0, 2.0)),
    "dense": lambda: channels((1.0, 2.0), sampling="dense"),
    "network": small,
    "dense network": lambda: small(sampling="dense"),
}


@pytest.fixture(scope="module", params=LAYERS)
def layer(request):
    return LAYERS[request.param]()


def run(layer, images):
    return keras.ops.convert_to_numpy(layer(images, training=False))


@pytest.mark.parametrize("kind", ["nan", "inf"])
def test_a_bad_image_spoils_itself_only(layer, kind):
    good = np.stack([make_image("good")] * 3).astype("float32")
    bad = good.copy()
    bad[1] = make_image(kind)
    expected, found = run(layer, good), run(layer, bad)
    assert not np.isfinite(found[1]).all()
    np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], rtol=1e-5, atol=1e-6)


def test_constant_images(layer):
    assert np.isfinite(run(layer, np.full((2, 9, 9, 1), 0.7, "float32"))).all()


def test_constant_images_have_no_derivatives():
    for boundary in ("symmetric", "edge"):
        y = run(JET(2, 1.5, boundary=boundary, order=3), np.full((1, 9, 9, 1), 100, "float32"))
        np.testing.assert_allclose(y, 0, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int32", "bool"])
def test_types_of_images(layer, dtype):
    images = np.random.default_rng(0).integers(0, 2, (2, 9, 9, 1))
    expected = run(layer, images.astype("float32"))
    np.testing.assert_allclose(run(layer, images.astype(dtype)), expected, atol=1e-4)


def test_no_images_at_all(layer):
    y = run(layer, np.zeros((0, 9, 9, 1), "float32"))
    assert y.shape == (0, *run(layer, np.zeros((1, 9, 9, 1), "float32")).shape[1:])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 9), (9, 1)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: JET(2, 1.0),
        channels,
        lambda: channels(sampling="dense"),
        lambda: small(sampling="dense", input_shape=(None, None, 1)),
    ],
)
def test_images_too_small_for_derivatives(make, shape):
    with pytest.raises(ValueError, match="at least 3x3 pixels") as error:
        make()(np.zeros((1, *shape, 1), "float32"))
    assert str((None, *shape, 1))[6:] in str(error.value)


@pytest.mark.parametrize("shape", [(3, 10_000, 1), (10_000, 3, 1)])
@pytest.mark.parametrize("sampling", ["matched", "dense"])
def test_long_images(shape, sampling):
    x = np.random.default_rng(0).normal(size=(1, *shape)).astype("float32")
    assert run(JET(2, 1.0), x).shape == (1, *shape[:2], 2)
    scores = run(small(input_shape=shape, scales=(1, 4), sampling=sampling), x)
    assert scores.shape == (1, 10) and np.isfinite(scores).all()


NUMBERS = st.one_of(
    st.floats(), st.integers(-(10**9), 10**9), st.booleans(), st.none(), st.text(max_size=2)
)


def works_or_names(name, make):
    """Runs; any error must be a `ValueError` that names the argument."""
    try:
        return make()
    except ValueError as error:
        assert f"`{name}`" in str(error)


@given(NUMBERS, NUMBERS)
def test_kernels_of_any_numbers(sigma, truncation):
    for name, make in (
        ("sigma", lambda: scale_space.gaussian_kernel(sigma)),
        ("truncation", lambda: scale_space.gaussian_kernel(1.5, truncation)),
    ):
        kernel = works_or_names(name, make)
        if kernel is not None:
            assert kernel.sum() == pytest.approx(1) and len(kernel) % 2 == 1
            np.testing.assert_array_equal(kernel, kernel[::-1])


@given(
    st.fixed_dictionaries(
        {},
        optional={
            field: NUMBERS | st.lists(st.floats() | st.integers(), max_size=3)
            for field in (
                "widths",
                "scales",
                "epochs",
                "batch_size",
                "seed",
                "learning_rate",
                "precision",
                "augment",
            )
        },
    )
)
def test_recipes_of_any_values(values):
    try:
        made = tiny_recipe(**values)
    except ValueError as error:
        assert any(f"`{name}`" in str(error) for name in values) or "learning_rate" in str(error)
    else:
        assert Recipe(**made.as_dict()) == made


@settings(max_examples=30)
@given(
    st.tuples(st.integers(0, 3), st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from(["uint8", "int64", "float16", "float32", "float64"]),
    st.floats(0.2, 9),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(["constant", "symmetric", "edge"]),
    st.sampled_from([255.0, None]),
)
def test_valid_images_are_rescaled(shape, dtype, size, output_shape, boundary, peak):
    images = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    made = datasets.rescale_images(images, size, output_shape, boundary=boundary, peak=peak)
    assert made.shape == (shape[0], *output_shape) and made.dtype == np.float32
    assert np.isfinite(made).all()


@settings(max_examples=15)
@given(
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["symmetric", "edge", "constant"]),
    st.floats(0.6, 30),  # matched sampling needs half a pixel
    st.tuples(st.integers(3, 24), st.integers(3, 24)),
    st.sampled_from(["matched", "dense"]),
)
def test_valid_networks_work(order, boundary, scale, shape, sampling):
    network = small(
        input_shape=(*shape, 1), scales=(scale,), order=order, boundary=boundary, sampling=sampling
    )
    assert np.isfinite(run(network, np.ones((2, *shape, 1), "float32"))).all()
