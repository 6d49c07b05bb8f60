"""What `import gdn_keras` imports, and what only when it is used."""

import os
import subprocess
import sys

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


SCRIPT = """
import sys, keras
before = set(sys.modules)
import gdn_keras
print(*{name.split(".")[0] for name in sys.modules} - {name.split(".")[0] for name in before})
"""


def test_import_leaves_out_what_is_used_later():
    """On JAX, where even TensorFlow is not needed yet."""
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    added = set(done.stdout.split())
    assert "gdn_keras" in added
    assert not added & (LATER | {"tensorflow"})
