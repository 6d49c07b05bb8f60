"""Graphs in which the size of the images is not known: of TensorFlow alone."""

from collections.abc import Callable
from typing import Any


class TracedFunctions:
    """Functions that a graph holds once, however often they are called.

    Without it the operators of all channels and layers are tens of thousands of operations.
    """

    def __init__(self):
        self._functions: dict[Any, Callable] = {}

    def __call__(self, key: Any, function: Callable) -> Callable:
        """The function of a key, which stands for all of them."""
        import tensorflow as tf

        if key not in self._functions:
            # Inlined, they would be many again.
            options = {"autograph": False, "experimental_attributes": {"_noinline": True}}
            self._functions[key] = tf.function(function, **options)
        return self._functions[key]
