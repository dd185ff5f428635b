"""A graph as a flat list of calls over buffers that exist before the first of them.

Arrays have a *home*: a one-dimensional storage of the tensor's own type and `Tensor.span` elements.
Kernels read and write *forms* of it: the home itself where its type is the compute type, else a
dense array of the compute type in the same axis order, converted by a call of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_run.engines.numpy_engine.views import (
    coalesce,
    dense_like,
    flat_view,
    is_matrix,
    memory_order,
    strided,
)
from bench_run.graph.dtypes import DTYPES, array_type

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Tensor

Array: TypeAlias = npt.NDArray[Any]
Operand: TypeAlias = "Array | float"
Step: TypeAlias = Callable[[], object]

LINE_BYTES = 64
"""Of the processor's caches."""
OUT_BY_NAME = (np.maximum, np.minimum)
"""For the rest, `out` as the last argument is faster by the time of parsing a name."""


class Program:
    """Buffers and calls of one graph; kernels add to `steps` while the graph is planned."""

    def __init__(self, graph: Graph, homes: dict[int, Array] | None = None) -> None:
        """`homes` are allocated unless given."""
        self.graph = graph
        self.steps: list[Step] = []
        self.workspace_bytes = 0
        if homes is None:
            homes = {t.uid: _home(t) for t in graph.tensors if _used(graph, t)}
        self.homes: dict[int, Array] = homes
        self._forms: dict[tuple[int, np.dtype[Any]], Array] = {}
        self._frames: list[list[Array]] = []
        self._free: dict[int, list[Array]] = {}

    def inner(self) -> Program:
        """A program of its own over the same homes, for calls that are made while this one runs."""
        return Program(self.graph, self.homes)

    def call(self, function: Callable[..., object], *args: Any, **named: Any) -> None:
        self.steps.append(partial(function, *args, **named))

    def lasting(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """A zeroed buffer whose contents stay from run to run."""
        array = _zeros(shape, np.dtype(dtype))
        self.workspace_bytes += array.nbytes
        return array

    def scratch(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """A buffer with any contents, for calls added before the surrounding `frame` ends."""
        wanted = np.dtype(dtype)
        size = max(1, math.prod(shape)) * wanted.itemsize
        free = self._free.get(size)
        memory = free.pop() if free else self.lasting((size,), np.uint8)
        if self._frames:
            self._frames[-1].append(memory)
        return memory[: math.prod(shape) * wanted.itemsize].view(wanted).reshape(tuple(shape))

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Scratch buffers taken inside are free for others after it."""
        self._frames.append([])
        yield
        for memory in self._frames.pop():
            self._free.setdefault(memory.nbytes, []).append(memory)

    def scratch_like(self, array: Array, dtype: npt.DTypeLike | None = None) -> Array:
        """Dense, with the axes in the same order in memory."""
        order = memory_order(array)
        shape = [array.shape[axis] for axis in order]
        like = self.scratch(shape, array.dtype if dtype is None else dtype)
        return like.transpose(np.argsort(order))

    def home(self, uid: int) -> Array:
        """The tensor's elements in its own type, in logical order of the axes."""
        return strided(self.homes[uid], self.graph.by_uid[uid])

    def read(self, uid: int, dtype: np.dtype[Any]) -> Array:
        """The tensor in `dtype`; adds the conversion where there is none yet."""
        home = self.home(uid)
        if home.dtype == dtype:
            return home
        if (uid, dtype) not in self._forms:
            form = dense_like(home, dtype)
            self.workspace_bytes += form.nbytes
            self._forms[uid, dtype] = form
            if self.graph.by_uid[uid].value is None:
                self.copy(form, home)
            else:
                np.copyto(form, home, casting="unsafe")
        return self._forms[uid, dtype]

    @contextmanager
    def writing(self, uid: int, dtype: npt.DTypeLike) -> Iterator[Array]:
        """What a kernel fills inside the block; the conversion to the home's type comes after."""
        home = self.home(uid)
        if home.dtype == dtype:
            yield home
            return
        form = self.scratch_like(home, dtype)
        yield form
        self._saturate(form, self.graph.by_uid[uid].data_type)
        self.copy(home, form)

    def copy(self, to: Array, source: Array) -> None:
        target, origin = coalesce(to, source)
        self.call(np.copyto, target, origin, casting="unsafe")

    def each(self, ufunc: Callable[..., object], *inputs: Operand, out: Array) -> None:
        """An elementwise call; inputs are broadcast to `out`, axes merged as far as they allow."""
        arrays = [a for a in inputs if isinstance(a, np.ndarray)]
        target, *views = coalesce(out, *arrays)
        rest = iter(views)
        operands = (next(rest) if isinstance(a, np.ndarray) else a for a in inputs)
        if ufunc in OUT_BY_NAME:
            self.call(ufunc, *operands, out=target)
        else:
            self.call(ufunc, *operands, target)

    def source(self, array: Array, shape: Sequence[int]) -> Array:
        """`array` reshaped to stacked matrices that BLAS takes, packed by a call if need be."""
        view = flat_view(array, shape)
        if view is not None and is_matrix(view):
            return view
        packed = self.scratch(array.shape, array.dtype)
        self.copy(packed, array)
        return packed.reshape(tuple(shape))

    @contextmanager
    def target(self, array: Array, shape: Sequence[int]) -> Iterator[Array]:
        """Stacked matrices to fill inside the block, which then are the elements of `array`."""
        view = flat_view(array, shape)
        if view is not None and is_matrix(view):
            yield view
            return
        packed = self.scratch(array.shape, array.dtype)
        yield packed.reshape(tuple(shape))
        self.copy(array, packed)

    def _saturate(self, form: Array, data_type: str) -> None:
        """Clips what the conversion of NumPy would not: 8-bit floats and integers stay within the
        range of their type. Fractions of integers are cut off by the conversion itself."""
        row = DTYPES[data_type]
        if form.dtype.kind != "f":
            return
        if row.kind == "integer" and data_type != "int64":
            limits = np.iinfo(array_type(data_type))
            self.each(np.clip, form, float(limits.min), float(limits.max), out=form)
        elif row.bits == 8 and row.kind in ("float", "scale"):
            low = row.smallest if row.kind == "scale" else -row.largest
            self.each(np.clip, form, low, row.largest, out=form)


def _used(graph: Graph, tensor: Tensor) -> bool:
    return tensor.uid in graph.consumed or tensor.uid in graph.produced


def _home(tensor: Tensor) -> Array:
    dtype = array_type(tensor.data_type)
    if tensor.value is not None:
        return np.full(tensor.span, tensor.value).astype(dtype)
    return _zeros((tensor.span,), dtype)


def _zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Zeros that begin on a cache line. NumPy's own may begin in the middle of one, anew in each
    process: an addition of 64 KiB then takes 3.6 µs in one round and 1.9 µs in the next."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    return memory[first : first + size].view(dtype).reshape(tuple(shape))
