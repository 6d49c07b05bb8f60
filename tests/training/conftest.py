import pytest

from gdn_keras.training import Settings, prepare, run

# Small enough for seconds, large enough to learn something.
TINY = Settings(
    widths=(4, 6),
    scales=(1.0, 2.0),
    train_sizes=(1.0,),
    test_sizes=(1.0, 2.0),
    frame=32,
    digits=200,
    test_digits=30,
    epochs=3,
    batch_size=20,
)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDN_KERAS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny() -> Settings:
    return TINY


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny):
    """The folder of a whole run, and its results."""
    folder = tmp_path_factory.mktemp("finished")
    return folder, run(prepare(tiny, folder))
