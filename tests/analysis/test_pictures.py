import numpy as np
import pytest
from scipy.ndimage import correlate

from gdn_keras.analysis import (
    draw_confusion,
    draw_generalization,
    draw_receptive_fields,
    draw_selection,
    first_layer_fields,
    second_layer_fields,
)
from gdn_keras.layers import GaussianDerivative
from gdn_keras.models import gaussian_derivative_network, scale_channels_of


@pytest.fixture(scope="module")
def model():
    return gaussian_derivative_network((28, 28, 1), widths=(5, 3), scales=(1.0,))


def jets(model):
    layers = scale_channels_of(model).network.layers
    return [layer for layer in layers if isinstance(layer, GaussianDerivative)]


def test_first_fields_are_what_the_layer_computes(model):
    image = np.random.default_rng(0).normal(size=(41, 41))
    layer, sigma = jets(model)[0], 2.0
    expected = np.asarray(layer(image[None, ..., None].astype("float32"), scale=sigma))
    fields = first_layer_fields(model, sigma)
    assert fields.shape[:2] == (5, 1)
    for unit in range(5):
        # The layer cuts a thousandth off its kernels.
        found = correlate(image, fields[unit, 0], mode="reflect")
        np.testing.assert_allclose(found, expected[0, ..., unit], atol=0.01)


def test_second_fields_follow_the_strongest_input(model):
    second = jets(model)[1]
    kernel = np.zeros(second.kernel.shape, "float32")
    kernel[0, 4, :] = 1.0  # d/dx of unit 4
    kernel[1, 1, :] = 0.001
    second.kernel.assign(kernel)
    fields = second_layer_fields(model, 3.0)
    assert fields.shape[0] == 3
    through = first_layer_fields(model, 3.0)[4, 0]
    # A derivative along x: its sum over a column weighted by x is minus the sum of the field.
    x = np.arange(fields.shape[2]) - fields.shape[2] // 2
    assert np.abs(fields[0].sum()) < 1e-5
    expected = 3.0 * second.sigma * through.sum()
    assert (fields[0] * x).sum() == pytest.approx(expected, abs=1e-3)


def test_pictures_are_written(tmp_path):
    from PIL import Image

    sizes = (0.5, 1.0, 2.0, 4.0)
    curves = {"a": dict.fromkeys(sizes, 0.97), "b": {1.0: 0.9, 2.0: 0.2}}
    draw_generalization(curves, tmp_path / "curve.png", [1.0, 2.0])
    draw_selection(sizes, (1, 2), [[4, 0], [3, 1], [1, 3], [0, 4]], tmp_path / "selection.png")
    draw_confusion(np.eye(3, dtype=int), tmp_path / "confusion.png", ["a", "b", "cat"], 2.0)
    draw_receptive_fields({"one": np.random.rand(14, 9, 9)}, tmp_path / "fields.png")
    for file in tmp_path.iterdir():
        pixels = np.asarray(Image.open(file).convert("L"))
        assert pixels.shape[1] > 600 and pixels.std() > 5
    assert len(list(tmp_path.iterdir())) == 4


def test_selection_shades_shares(tmp_path):
    from PIL import Image

    for name, counts in (("all", [[9, 0], [0, 9]]), ("even", [[5, 5], [5, 5]])):
        draw_selection((1, 2), (1, 2), counts, tmp_path / f"{name}.png")
    dark = [
        np.mean(np.asarray(Image.open(tmp_path / f"{name}.png").convert("L")) < 40)
        for name in ("all", "even")
    ]
    assert dark[0] > 0.2 > dark[1]
