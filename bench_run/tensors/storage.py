"""Tensors on the host travel as *storages*: one-dimensional arrays of the tensor's own type and of
`Tensor.span` elements, gaps of the strides included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # engine specs are parsed where NumPy must not be loaded yet
    import numpy.typing as npt

Storage: TypeAlias = "npt.NDArray[Any]"
Storages: TypeAlias = Mapping[int, "Storage"]
"""By tensor uid."""
