"""A plan: buffers, the program over them, and where its results are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from bench_run.engines.base import PlanFacts
from bench_run.engines.torch_engine.errors import foreign_errors
from bench_run.engines.torch_engine.types import poison, seen_only, storage, strided
from bench_run.graph.dtypes import array_type
from bench_run.tensors.host_memory import holds_same_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from bench_run.engines.base import Captured, Home
    from bench_run.engines.torch_engine.program import Program
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage, Storages

T: TypeAlias = torch.Tensor
Function = Callable[[Sequence[T]], list[T]]

_NOTHING = torch.empty(0)
FOREIGN = (RuntimeError, TypeError, ValueError, IndexError, MemoryError)


class TorchPlan:
    """Results that PyTorch allocates in the very layout of their tensor are the outputs; others
    are copied into buffers of that layout, as part of the run. Which is which shows in the first
    run and stays so.
    """

    def __init__(
        self,
        graph: Graph,
        program: Program,
        function: Function,
        device: torch.device,
        *,
        replays: bool = False,
    ) -> None:
        """`replays`: it will be captured, and so keep memory of its own for its results."""
        self._replays = replays
        self._graph, self._program, self._function = graph, program, function
        self._device, self.launches = device, program.launches
        self._homes = {t.uid: storage(t, device) for t in (*graph.inputs, *graph.outputs)}
        self._inputs: list[T] = [strided(self._homes[t.uid], t) for t in graph.inputs]
        self._buffers = [strided(self._homes[t.uid], t) for t in graph.outputs]
        self._copied: tuple[int, ...] | None = None
        self._results: list[T] = []
        self._sources: tuple[tuple[int, Callable[[], T]], ...] = ()
        """Inputs that lie elsewhere: their index, and what finds them before a run."""
        self._borrowed: set[int] = set()
        self._twins: list[TorchPlan] = []
        """Plans whose results may go once this one runs: their memory is used again."""
        self.captured: Captured | None = None
        self._kept = False
        """Whether the results are a captured graph's: they stay in their memory."""
        self._leaves = False
        """Whether that memory is also for what is captured later."""
        self.facts = PlanFacts(buffer_bytes=sum(home.nbytes for home in self._homes.values()))

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """Inputs are other plans' inputs or results; results take the place of other plans'."""
        places = {tensor.uid: i for i, tensor in enumerate(self._graph.inputs)}
        for uid, home in homes.items():
            assert isinstance(home.plan, TorchPlan)
            if uid not in places:
                self._share_result(uid, home.plan, home.uid)
                continue
            tensor = self._graph.by_uid[uid]
            others = (source for source in self._sources if source[0] != places[uid])
            self._sources = (*others, (places[uid], home.plan.finder(home, tensor)))
            self._borrowed.add(uid)
            self._homes.pop(uid, None)
            self._inputs[places[uid]] = _NOTHING
        return frozenset(homes)

    def _share_result(self, uid: int, other: TorchPlan, its: int) -> None:
        """Two plans that never run beside each other leave their results in the same memory."""
        if self._replays:
            self._leaves = other._leaves = True
        else:
            self._twins.append(other)
            other._twins.append(self)
        mine, theirs = self._graph.by_uid[uid], other._graph.by_uid[its]
        if (mine.dims, mine.strides, mine.data_type) == (
            theirs.dims,
            theirs.strides,
            theirs.data_type,
        ):
            here, there = self._graph.outputs.index(mine), other._graph.outputs.index(theirs)
            self._homes[uid] = other._homes[its]
            self._buffers[here] = other._buffers[there]

    def finder(self, home: Home, tensor: Tensor) -> Callable[[], T]:
        """What gives a tensor of another plan in this one's memory, before each run."""
        outputs = [t.uid for t in self._graph.outputs]
        if home.uid not in outputs:
            (index,) = (i for i, t in enumerate(self._graph.inputs) if t.uid == home.uid)
            return lambda: _seen_as(self._input(index), tensor, home.offset)
        place = outputs.index(home.uid)
        return lambda: _seen_as(self._result(place), tensor, home.offset)

    def _input(self, index: int) -> T:
        """Where it lies now: it may be borrowed too."""
        found = dict(self._sources)
        return found[index]() if index in found else self._inputs[index]

    def _result(self, place: int) -> T:
        return self._results[place] if self._results else self._buffers[place]

    def upload(self, inputs: Storages) -> None:
        with foreign_errors("upload"):
            for tensor in self._graph.inputs:
                if tensor.uid not in self._borrowed:
                    self._homes[tensor.uid].view(torch.uint8).copy_(_bytes(inputs[tensor.uid]))

    def poison(self) -> None:
        """Results that are captured stay where they are; others are freed."""
        self.forget()
        with foreign_errors("poison"):
            for tensor, result in zip(self._graph.outputs, self._found(), strict=True):
                poison(result.as_strided((tensor.span,), (1,)), tensor.data_type)

    def _found(self) -> list[T]:
        return self._results if self._results else self._buffers

    def run(self) -> None:
        self._results = []  # its memory is reused: one set of outputs, as caches see it
        for twin in self._twins:
            twin.forget()
        for index, find in self._sources:
            self._inputs[index] = find()
        try:
            found = self._function(self._inputs)
            for index in self._layouts(found) if self._copied is None else self._copied:
                found[index] = self._buffers[index].copy_(found[index])
        except FOREIGN as error:
            self._raise(error)
        self._results = found
        for index, _ in self._sources:
            self._inputs[index] = _NOTHING  # else the memory could not be used again

    def forget(self) -> None:
        if not self._kept:
            self._results = []

    def keep(self) -> None:
        self._kept = True
        if self._leaves:
            self._results = [seen_only(value) for value in self._results]

    def replay(self, captured: Captured) -> None:
        self.keep()
        self.captured = captured
        self.run = captured.launch  # type: ignore[method-assign]

    @contextmanager
    def uncaptured(self) -> Iterator[Callable[[], None]]:
        """Its results lie elsewhere meanwhile."""
        results = self._results
        try:
            yield partial(TorchPlan.run, self)
        finally:
            self._results = results

    def download(self) -> dict[int, Storage]:
        with foreign_errors("download"):
            outputs = zip(self._graph.outputs, self._found(), strict=True)
            return {tensor.uid: _storage(tensor, value) for tensor, value in outputs}

    def locate_outputs(self, *, upcoming: bool) -> dict[int, Storage | int]:  # noqa: ARG002
        """Results that are allocated anew lie where those before them did, once these are freed."""
        outputs = zip(self._graph.outputs, self._found(), strict=True)
        if self._device.type != "cpu":
            return {tensor.uid: value.data_ptr() for tensor, value in outputs}
        return {
            tensor.uid: value.as_strided((tensor.span,), (1,)).view(torch.uint8).numpy()
            for tensor, value in outputs
        }

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        with foreign_errors("download"):
            return tuple(
                tensor.uid
                for tensor in self._graph.inputs
                if tensor.uid in inputs and tensor.uid not in self._borrowed
                if not holds_same_bytes(inputs[tensor.uid], partial(self._read, tensor.uid))
            )

    def _read(self, uid: int, into: npt.NDArray[np.uint8], begin: int) -> None:
        """Of an input: bytes from this one on."""
        raw = self._homes[uid].view(torch.uint8)
        torch.from_numpy(into).copy_(raw[begin : begin + into.size])

    def close(self) -> None:
        if self.captured is not None:
            self.captured.close()
        self._results, self._inputs, self._buffers = [], [], []
        self._sources, self._twins = (), []
        self._homes.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _layouts(self, found: list[T]) -> tuple[int, ...]:
        """Indices of results that are not the output as they are: another layout, or memory that
        belongs to an input or to another output."""
        held = (*self._homes.values(), *self._inputs)
        taken = {value.untyped_storage().data_ptr() for value in held}
        copied = []
        for index, (tensor, value) in enumerate(zip(self._graph.outputs, found, strict=True)):
            place = value.untyped_storage().data_ptr()
            if not _in_layout(tensor, value) or place in taken:
                copied.append(index)
            taken.add(place)
        self._copied = tuple(copied)
        return self._copied

    def _raise(self, error: Exception) -> None:
        """Ours in place of PyTorch's, with the node's name where it comes from one."""
        if not isinstance(error, torch.OutOfMemoryError):
            self._program.blame(self._inputs)
        with foreign_errors("run"):
            raise error


def _seen_as(value: T, tensor: Tensor, offset: int) -> T:
    """Another plan's tensor as this one's dims and strides have it."""
    if offset == 0 and value.shape == tensor.dims and value.stride() == tensor.strides:
        return value
    return value.as_strided(tensor.dims, tensor.strides, value.storage_offset() + offset)


def _in_layout(tensor: Tensor, value: T) -> bool:
    axes = zip(value.shape, value.stride(), tensor.strides, strict=True)
    return value.shape == tensor.dims and all(n == 1 or have == want for n, have, want in axes)


def _bytes(array: Storage) -> T:
    """The bytes of a NumPy array; PyTorch does not know the types of ml_dtypes."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]).view(np.uint8))


def _storage(tensor: Tensor, value: T) -> Storage:
    data = np.empty(tensor.span, array_type(tensor.data_type))
    raw = value.as_strided((tensor.span,), (1,)).view(torch.uint8)
    torch.from_numpy(data.view(np.uint8)).copy_(raw)
    return data
