import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.training import Recipe
from gdn_keras.tuning import GaussianDerivativeHyperModel

TINY = Recipe(scales=(1.0, 2.0), train_scales=(1.0,), epochs=3, batch_size=20)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDN_KERAS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def tiny_data():
    """Makes digits of size 1 in small frames, tested at sizes 1 and 2."""
    sizes = {"train_sizes": (1,), "test_sizes": (1, 2), "frame": 32, "train_frame": 28}
    options = {**sizes, "count": 60, "test_count": 30}
    return lambda **changes: load_dataset("mnist_large_scale", **options, **changes)


@pytest.fixture
def hypermodel(tiny_data):
    """Makes a search space that is small enough for seconds."""
    space = {"widths": (2, 3, 4), "layers": (1, 2), "scale_ratio": (1.25, 1.5), "recipe": TINY}
    data, validation = tiny_data(), tiny_data(test_split="validation")
    return lambda **changes: GaussianDerivativeHyperModel(data, validation, **{**space, **changes})
