import os
import platform
import subprocess
import time

import numpy as np
import pytest

from gdn_keras.datasets import Digits, large_scale, load_large_scale, rescale_images
from gdn_keras.datasets.digits import select_split
from gdn_keras.layers import ArctanContrast
from tests.reliability.faults import FORKS


@pytest.fixture(autouse=True)
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(split="test", size=2, count=20, output_shape=(40, 40), **options):
    options = {"verbose": False} | options
    return load_large_scale(split, size, count=count, output_shape=output_shape, **options)


def test_images_are_those_of_the_transform(digits, cache_dir):
    images, labels = load()
    assert isinstance(images, np.memmap) and images.shape == (20, 40, 40, 1)
    expected = rescale_images(digits.x_test[:20], 2, (40, 40))[..., None]
    assert images.dtype == np.uint8 and np.abs(images - expected).max() <= 0.501
    np.testing.assert_array_equal(labels, digits.y_test[:20])
    np.testing.assert_array_equal(load(cache=False).images, images)
    assert len(list(cache_dir.iterdir())) == 1


def test_second_call_builds_nothing(monkeypatch):
    first = load().images
    monkeypatch.setattr(large_scale, "_write_array", lambda *_: pytest.fail("built again"))
    np.testing.assert_array_equal(load().images, first)


def test_argument_goes_before_environment_variable(tmp_path, cache_dir, monkeypatch):
    load(cache_dir=tmp_path / "other")
    assert not cache_dir.exists() and len(list((tmp_path / "other").iterdir())) == 1
    monkeypatch.delenv("GDN_KERAS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert large_scale.cache_directory() == tmp_path / ".cache" / "gdn_keras"


def test_splits_do_not_overlap(digits):
    train = load("train", count=None, cache=False, output_shape=(2, 2))
    validation = load("validation", count=None, cache=False, output_shape=(2, 2))
    assert len(train.labels) == 3600 and len(validation.labels) == 400
    labels = np.concatenate([train.labels, validation.labels])
    np.testing.assert_array_equal(labels, digits.y_train)
    assert len(load("test", count=None, cache=False, output_shape=(2, 2)).labels) == 1000


def test_splits_of_mnist_are_the_published_ones():
    many = Digits(np.zeros((60000, 1, 1), "uint8"), np.arange(60000), *2 * [np.zeros(0)])
    assert select_split(many, "train")[1].tolist() == list(range(50000))
    assert select_split(many, "validation")[1].tolist() == list(range(50000, 60000))


@pytest.mark.parametrize(
    "change",
    [
        {"size": 2.0001},
        {"output_shape": (40, 41)},
        {"count": 19},
        {"split": "train"},
        {"source": Digits(*[np.full((50, 9, 9), 7, "uint8"), np.zeros(50, "uint8")] * 2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_the_images_changes_the_file(cache_dir, change):
    load()
    load(**change)
    assert len(list(cache_dir.iterdir())) == 2


def test_changed_recipe_is_not_mixed_with_an_old_cache(cache_dir, monkeypatch):
    load()
    monkeypatch.setattr(large_scale, "RECIPE", "another one")
    load()
    assert len(list(cache_dir.iterdir())) == 2


def cut(content):
    return content[:-100]


def zero_tail(content):
    return content[:-4000] + bytes(4000)


def empty(content):
    return b""


def append(content):
    return content + b"!"


@pytest.mark.parametrize("damage", [cut, zero_tail, empty, append])
def test_damaged_cache_is_rebuilt(cache_dir, damage):
    expected = np.array(load().images)
    (file,) = cache_dir.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    np.testing.assert_array_equal(load().images, expected)
    assert list(cache_dir.iterdir()) == [file]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_build_leaves_nothing(cache_dir, monkeypatch, error):
    def interrupted(digits, size, output_shape, reporter):
        yield rescale_images(digits[:5], size, output_shape)[..., None]
        raise error

    with monkeypatch.context() as context, pytest.raises(error):
        context.setattr(large_scale, "rescaled_chunks", interrupted)
        load()
    assert not list(cache_dir.iterdir())
    assert load().images.shape == (20, 40, 40, 1)


def test_killed_builds_are_cleaned_up_by_the_next_one(cache_dir):
    load()
    (file,) = cache_dir.iterdir()
    file.unlink()
    ended = subprocess.Popen(["true"])
    ended.wait()
    here = platform.node()
    writers = {
        "dead": f"{here}~{ended.pid}~0",
        "earlier, of this number": f"{here}~{os.getpid()}~0",
        "alive": f"{here}~{os.getppid()}~0",
        "elsewhere": "elsewhere~1~0",
        "elsewhere, a day ago": "elsewhere~2~0",
    }
    left = {k: cache_dir / f".{file.name}~{v}~x.part" for k, v in writers.items()}
    for folder in left.values():
        folder.mkdir()
        (folder / file.name).write_bytes(b"half")
    os.utime(left["elsewhere, a day ago"], (time.time() - 90000,) * 2)
    load()
    assert set(cache_dir.iterdir()) == {file, left["alive"], left["elsewhere"]}


def test_full_disk_is_found_beforehand(cache_dir, monkeypatch):
    usage = type("usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(OSError, match=r"needs 0.00 GB and only 0.00 GB are free.*GDN_KERAS_CACHE"):
        load()
    assert not list(cache_dir.iterdir())


def _build_and_sum(directory):
    return float(np.sum(load(cache_dir=directory, count=1000).images, dtype="float64"))


def test_processes_do_not_collide(tmp_path):
    with FORKS.Pool(2) as pool:
        sums = pool.map(_build_and_sum, [tmp_path / "shared"] * 4)
    assert sums == [sums[0]] * 4
    assert [file.suffix for file in (tmp_path / "shared").iterdir()] == [".npy"]


def test_disk_use_is_said_beforehand(cache_dir, capsys):
    load(verbose=True, count=1000)
    assert f"Making 1000 images of size 2: 2 MB in {cache_dir}" in capsys.readouterr().err
    load(verbose=True, count=1000)
    assert capsys.readouterr().err == ""


def test_rounding_is_no_more_than_the_recipe_is_off(digits):
    """The recipe is off from the official images by 0.0018 rms."""
    exact = rescale_images(digits.x_test[:100], 2)[..., None]
    contrast = ArctanContrast()
    difference = np.asarray(contrast(np.rint(exact))) - np.asarray(contrast(exact))
    assert np.sqrt(np.mean(difference**2)) < 0.0018


SHORT = Digits(np.zeros((3, 5, 5)), np.zeros(2), np.zeros((3, 5, 5)), np.zeros(2))
NAN = Digits(*[np.full((3, 5, 5), np.nan), np.zeros(3)] * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "`size` must be a positive, finite number. Received: size=0"),
        ({"size": -2}, "`size` must be a positive, finite number. Received: size=-2"),
        ({"split": "val"}, "`split` must be one of .* Received: split='val'"),
        ({"count": 0}, "`count` must be an integer >= 1. Received: count=0"),
        ({"count": 1001}, "`count` must be between 1 and 1000"),
        ({"output_shape": (0, 112)}, "`output_shape` must be two positive integers"),
        ({"source": SHORT, "count": None}, "as many labels .* shapes .3, 5, 5. and .2,."),
        ({"source": NAN, "count": None}, "`images` must be finite"),
    ],
)
def test_bad_input_leaves_nothing_behind(cache_dir, arguments, message):
    with pytest.raises(ValueError, match=message):
        load(**arguments)
    assert not cache_dir.exists() or not list(cache_dir.iterdir())


def test_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        load(cache_dir=tmp_path / "file" / "cache")


@pytest.mark.slow
def test_ten_thousand_digits_in_a_minute(mnist):
    start = time.perf_counter()
    load_large_scale("test", 2, source=mnist)
    built = time.perf_counter()
    images, _ = load_large_scale("test", 2, source=mnist)
    opened = time.perf_counter()
    assert images.shape == (10000, 112, 112, 1)
    assert built - start < 60
    assert opened - built < 1
