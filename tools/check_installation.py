"""Uses an installed gdn_keras, without the repository: trained weights, training, saving.

    python tools/check_installation.py

It takes half a minute, needs no optional package, and fails loudly. For wheels, lowest and newest
versions, and any backend.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import gdn_keras
from gdn_keras import datasets, models


def check_trained_weights() -> None:
    """A network that comes with the package, at a size that it was not trained on."""
    model = gdn_keras.from_preset("default_size2")
    images, labels = datasets.load_large_scale("test", 1, count=20, cache=False)
    scores = np.asarray(model.predict(images.astype("float32"), verbose=0))
    accuracy = (scores.argmax(axis=1) == labels).mean()
    assert accuracy >= 0.9, accuracy


def check_training() -> None:
    """A few steps, and the same scores after saving and loading."""
    keras.utils.set_random_seed(0)
    model = models.gaussian_derivative_network((32, 32, 1), (4, 8), num_classes=2, scales=(1, 2))
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    images = np.random.rand(16, 32, 32, 1).astype("float32")
    labels = np.eye(2, dtype="float32")[np.arange(16) % 2]
    losses = model.fit(images, labels, batch_size=8, epochs=3, verbose=0).history["loss"]
    assert np.isfinite(losses).all(), losses
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.saving.load_model(path)
    np.testing.assert_allclose(
        loaded.predict(images, verbose=0), model.predict(images, verbose=0), rtol=1e-4, atol=1e-5
    )


if __name__ == "__main__":
    check_trained_weights()
    check_training()
    print(
        f"gdn_keras {gdn_keras.__version__} works on {keras.backend.backend()}, "
        f"Keras {keras.__version__}, NumPy {np.__version__}: {Path(gdn_keras.__file__).parent}"
    )
