"""A plan: buffers, the program over them, and where its results are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from bench_run.engines.base import PlanFacts
from bench_run.engines.torch_engine.errors import foreign_errors
from bench_run.engines.torch_engine.types import poison, storage, strided
from bench_run.graph.dtypes import array_type
from bench_run.tensors.layout import same_bytes

if TYPE_CHECKING:
    from bench_run.engines.torch_engine.program import Program
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.storage import Storage, Storages

T: TypeAlias = torch.Tensor
Function = Callable[[Sequence[T]], list[T]]

FOREIGN = (RuntimeError, TypeError, ValueError, IndexError, MemoryError)


class TorchPlan:
    """Results that PyTorch allocates in the very layout of their tensor are the outputs; others
    are copied into buffers of that layout, as part of the run. Which is which shows in the first
    run and stays so.
    """

    def __init__(
        self, graph: Graph, program: Program, function: Function, device: torch.device
    ) -> None:
        self._graph, self._program, self._function = graph, program, function
        self._device = device
        self._homes = {t.uid: storage(t, device) for t in (*graph.inputs, *graph.outputs)}
        self._inputs = [strided(self._homes[t.uid], t) for t in graph.inputs]
        self._buffers = [strided(self._homes[t.uid], t) for t in graph.outputs]
        self._copied: tuple[int, ...] | None = None
        self._results: list[T] = []
        self.facts = PlanFacts(buffer_bytes=sum(home.nbytes for home in self._homes.values()))

    def upload(self, inputs: Storages) -> None:
        with foreign_errors("upload"):
            for tensor in self._graph.inputs:
                self._homes[tensor.uid].view(torch.uint8).copy_(_bytes(inputs[tensor.uid]))

    def poison(self) -> None:
        self._results = []
        with foreign_errors("poison"):
            for tensor in self._graph.outputs:
                poison(self._homes[tensor.uid], tensor.data_type)

    def run(self) -> None:
        self._results = []  # its memory is reused: one set of outputs, as caches see it
        try:
            found = self._function(self._inputs)
            for index in self._layouts(found) if self._copied is None else self._copied:
                found[index] = self._buffers[index].copy_(found[index])
        except FOREIGN as error:
            self._raise(error)
        self._results = found

    def download(self) -> dict[int, Storage]:
        with foreign_errors("download"):
            outputs = self._graph.outputs
            found = self._results if self._results else self._buffers
            return {t.uid: _storage(t, value) for t, value in zip(outputs, found, strict=True)}

    def locate_outputs(self, *, upcoming: bool) -> dict[int, Storage | int]:  # noqa: ARG002
        """Results that are allocated anew lie where those before them did, once these are freed."""
        found = self._results if self._results else self._buffers
        outputs = zip(self._graph.outputs, found, strict=True)
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
                if not same_bytes(_storage(tensor, self._homes[tensor.uid]), inputs[tensor.uid])
            )

    def close(self) -> None:
        self._results, self._inputs, self._buffers = [], [], []
        self._homes.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _layouts(self, found: list[T]) -> tuple[int, ...]:
        """Indices of results that are not the output as they are: another layout, or memory that
        belongs to an input or to another output."""
        taken = {home.untyped_storage().data_ptr() for home in self._homes.values()}
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


def _in_layout(tensor: Tensor, value: T) -> bool:
    axes = zip(value.shape, value.stride(), tensor.strides, strict=True)
    return value.shape == tensor.dims and all(n == 1 or have == want for n, have, want in axes)


def _bytes(array: Storage) -> T:
    """The bytes of a NumPy array; PyTorch does not know the types of ml_dtypes."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]).view(np.uint8))


def _storage(tensor: Tensor, value: T) -> Storage:
    flat = value.as_strided((tensor.span,), (1,)).cpu()
    raw = flat.view(torch.uint8).numpy()
    return np.array(raw.view(array_type(tensor.data_type)))
