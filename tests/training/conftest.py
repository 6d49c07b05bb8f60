import csv

import pytest

from gdn_keras.datasets import load_dataset
from gdn_keras.training import Classification, Recipe, run

# Small enough for seconds, large enough to learn something.
TINY = Recipe(
    widths=(4, 6),
    scales=(1.0, 2.0),
    scale_dropout=0.1,
    cone=3.5,
    surround=0.25,
    augment=(28.0, 28.0),
    epochs=3,
    batch_size=20,
)


def tiny_data(**options):
    """Digits of size 1 in small frames, tested at sizes 1 and 2."""
    defaults = {"train_sizes": (1,), "test_sizes": (1, 2), "frame": 32, "count": 200}
    return load_dataset("mnist_large_scale", **{**defaults, "test_count": 30, **options})


def read_history(folder):
    """The rows of history.csv, if there is one."""
    file = folder / "history.csv"
    if not file.exists():
        return []
    with open(file, newline="") as stream:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    return [{**row, "epoch": int(row["epoch"])} for row in rows]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDN_KERAS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny() -> Recipe:
    return TINY


@pytest.fixture(scope="session")
def data(cache):
    return tiny_data()


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny, data):
    """The folder of a whole run, and its results."""
    folder = tmp_path_factory.mktemp("finished")
    return folder, run(Classification(tiny, data), folder)
