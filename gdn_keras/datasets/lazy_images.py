"""Arrays of images that are read or made when they are indexed."""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np


class LazyImages(abc.ABC):
    """Images indexed along the first axis as an array is; `np.asarray` makes all of them.

    Args:
        shape: `(n, height, width, channels)`.
        dtype: Of the pixels.
    """

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.ndim = len(self.shape)

    @abc.abstractmethod
    def read(self, indices: np.ndarray) -> np.ndarray:
        """The images of these indices `[m]`, none of them negative, as `[m, height, width, c]`."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        indices = np.arange(len(self))[index]
        return self.read(np.ravel(indices)).reshape(*np.shape(indices), *self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


class ConcatenatedImages(LazyImages):
    """Arrays of images of one shape, one after the other."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = arrays
        self._ends = np.cumsum([len(array) for array in arrays])
        super().__init__((int(self._ends[-1]), *arrays[0].shape[1:]), arrays[0].dtype)

    def read(self, indices: np.ndarray) -> np.ndarray:
        which = np.searchsorted(self._ends, indices, side="right")
        result = np.empty((len(indices), *self.shape[1:]), self.dtype)
        for k, array in enumerate(self._arrays):
            start = self._ends[k] - len(array)
            result[which == k] = array[indices[which == k] - start]
        return result
