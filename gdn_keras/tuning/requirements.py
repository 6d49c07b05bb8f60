"""What a search needs besides Keras, and how to install it."""

import importlib.util

_INSTALL = "pip install 'gdn_keras[tune]'"

try:
    import keras_tuner
except ImportError as error:
    raise ImportError(f"Tuning needs KerasTuner: {_INSTALL}") from error

__all__ = ["keras_tuner", "require"]


def require(module: str, need: str) -> None:
    """An error that says how to install a module, where it is missing.

    Args:
        module: Its name, as it is imported.
        need: What needs it, such as "KerasTuner needs TensorBoard".
    """
    if not importlib.util.find_spec(module):
        raise ImportError(f"{need}: {_INSTALL}")
