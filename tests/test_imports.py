"""What `import gdn_keras` imports, and what only when it is used."""

import os
import subprocess
import sys

import pytest

# Of data sets, export, pictures and searches.
LATER = {
    "ai_edge_litert",
    "h5py",
    "keras_tuner",
    "matplotlib",
    "onnxruntime",
    "pandas",
    "tensorflow_datasets",
    "tf2onnx",
}


def modules_after(package, backend):
    script = (
        f"import sys, {package}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_import_leaves_out_what_is_used_later(backend):
    added = modules_after("gdn_keras", backend) - modules_after("keras", backend)
    assert not added & (LATER | {"tensorflow"})
