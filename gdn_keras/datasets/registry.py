"""Data sets by name: those of this package, and those that users register."""

import os
from collections.abc import Callable
from typing import Any

from gdn_keras.datasets.image_data import ImageData

Loader = Callable[..., ImageData]

_LOADERS: dict[str, Loader] = {}


def register_dataset(name: str) -> Callable[[Loader], Loader]:
    """Decorator that makes a function a data set: `(directory=None, **options) -> ImageData`.

    Example:

    >>> @register_dataset("two_dots")  # doctest: +SKIP
    ... def load_two_dots(directory=None, *, frame=32):
    ...     return ImageData(name="two_dots", …)
    >>> load_dataset("two_dots", frame=48)  # doctest: +SKIP

    Args:
        name: The name; it must not be taken by another function.
    """

    def register(loader: Loader) -> Loader:
        taken = _LOADERS.setdefault(name, loader)
        if _origin(taken) != _origin(loader):
            raise ValueError(
                f"`name` must not be taken by another data set. Received: name={name!r}, which is "
                f"{'.'.join(_origin(taken))}"
            )
        _LOADERS[name] = loader
        return loader

    return register


def load_dataset(
    name: str, directory: str | os.PathLike | None = None, **options: Any
) -> ImageData:
    """A data set by its name.

    Example:

    >>> data = load_dataset("mnist_large_scale", train_sizes=(2,))  # doctest: +SKIP
    >>> images, labels = data.test(4)  # doctest: +SKIP

    Args:
        name: One of `dataset_names()`.
        directory: Where its files are, as its makers give them out. `None` for data that come
            with the package.
        **options: As the function of this name takes them.
    """
    if name not in _LOADERS:
        raise ValueError(f"`name` must be one of {dataset_names()}. Received: name={name!r}")
    return _LOADERS[name](directory, **options)


def dataset_names() -> tuple[str, ...]:
    """All names that `load_dataset` knows, sorted."""
    return tuple(sorted(_LOADERS))


def _origin(loader: Loader) -> tuple[str, str]:
    return loader.__module__, loader.__qualname__
