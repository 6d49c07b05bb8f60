import importlib.util
import subprocess
import sys

import pytest

from gdn_keras.tuning import Search
from tests.tuning.tiny import hypermodel


def test_what_is_missing_is_said_at_once(monkeypatch):
    find, missing = importlib.util.find_spec, ("tensorboard", "sklearn")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name in missing else find(name)
    )
    with pytest.raises(ImportError, match=r"TensorBoard: pip install 'gdn_keras\[tune\]'"):
        hypermodel()
    with pytest.raises(ImportError, match=r"scikit-learn: pip install 'gdn_keras\[tune\]'"):
        Search(tuner="bayesian")


def test_without_keras_tuner_only_tuning_is_missing():
    script = """
import sys
sys.modules["keras_tuner"] = None
import gdn_keras
try:
    import gdn_keras.tuning
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "Tuning needs KerasTuner: pip install 'gdn_keras[tune]'\n", done.stderr
