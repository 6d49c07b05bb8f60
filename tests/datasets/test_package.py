import importlib
import subprocess
import sys

import numpy as np
import pytest

from gdn_keras import analysis, datasets

BUILDER = "gdn_keras.datasets.mnist_large_scale"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_everything_exported_exists():
    assert all(hasattr(datasets, name) for name in datasets.__all__)


def test_optional_packages_are_imported_where_they_are_used():
    optional = ["tensorflow_datasets", "h5py", "matplotlib", "PIL"]
    absent = "; ".join(f"sys.modules['{module}'] = None" for module in optional)
    result = run(f"import sys; {absent}; import gdn_keras.datasets as d; print(d.dataset_names())")
    assert "mnist" in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("h5py", lambda path: datasets.load_official_large_scale(path, "test", 8)),
        ("tensorflow_datasets", lambda _: datasets.load_mnist_tfds()),
        ("tensorflow_datasets", lambda _: importlib.import_module(BUILDER)),
        ("PIL", lambda path: datasets.load_dataset("folder", path / "classes")),
        ("matplotlib", lambda path: analysis.draw_sizes([], path=path / "x.png")),
    ],
)
def test_missing_package_is_named_in_one_line(tmp_path, monkeypatch, module, call):
    (tmp_path / "mnist_large_scale_te10000_outsize112-112_scte8p000.h5").touch()
    for name in ("a", "b"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        (tmp_path / "classes" / name / "1.png").touch()
        (tmp_path / "classes" / name / "2.png").touch()
    monkeypatch.delitem(sys.modules, BUILDER, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"^[^\n]*pip install gdn_keras\[[^\n]*$"):
        call(tmp_path)


def test_picture(digits, tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib import image

    analysis.draw_sizes(digits.x_test[:2], (1, 2, 4), path=tmp_path / "sizes.png")
    height, width = image.imread(tmp_path / "sizes.png").shape[:2]
    assert width > 500 and height > 400
    assert np.ptp(image.imread(tmp_path / "sizes.png")) == 1
