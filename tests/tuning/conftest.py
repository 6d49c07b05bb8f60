import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDN_KERAS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
