"""A node as a kernel sees it while it is bound, and what binding gives: a function of tensors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.layout import poison_byte

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.graph.model import Graph, Node, Tensor


TYPES: dict[str, torch.dtype] = {
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "fp8_e4m3_fnuz": torch.float8_e4m3fnuz,
    "fp8_e5m2_fnuz": torch.float8_e5m2fnuz,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "boolean": torch.bool,
}
if hasattr(torch, "float8_e8m0fnu"):  # from PyTorch 2.7
    TYPES["fp8_e8m0"] = torch.float8_e8m0fnu

NATIVE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types that kernels take as they are, computing narrow ones in float32."""


def storage(tensor: Tensor, device: torch.device) -> torch.Tensor:
    """Return a storage of zeros: one-dimensional, the tensor's span."""
    return torch.zeros(tensor.span, dtype=TYPES[tensor.data_type], device=device)


def strided(flat: torch.Tensor, tensor: Tensor) -> torch.Tensor:
    return flat.as_strided(tensor.dims, tensor.strides)


class _Memory:
    """A device's, for `torch.as_tensor`."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.__cuda_array_interface__ = {
            "shape": (storage.nbytes(),),
            "typestr": "|u1",
            "data": (storage.data_ptr(), False),
            "version": 2,
        }


def seen_only(value: torch.Tensor) -> torch.Tensor:
    """Return the same memory of a device, whose owner may now give it to others."""
    storage = value.untyped_storage()
    if not storage.nbytes():
        return value
    memory = torch.as_tensor(_Memory(storage), device=value.device).untyped_storage()
    seen = torch.empty(0, dtype=value.dtype, device=value.device)
    return seen.set_(memory, value.storage_offset(), value.size(), value.stride())


def poison(flat: torch.Tensor, data_type: str) -> None:
    flat.view(torch.uint8).fill_(poison_byte(data_type))


def rounded_to(value: torch.Tensor, data_type: str) -> torch.Tensor:
    """Return the value in its tensor's type. 8-bit floats saturate, integers are cut off and
    clipped."""
    wanted = TYPES[data_type]
    if value.dtype == wanted:
        return value
    row = DTYPES[data_type]
    if row.bits == 8 and row.kind in ("float", "scale"):
        widest = torch.float64 if value.dtype == torch.float64 else torch.float32
        value = value.to(widest).clamp(row.lowest, row.largest)
    elif row.kind == "integer" and data_type != "int64" and value.dtype != torch.bool:
        limits = torch.iinfo(wanted)
        if value.dtype.is_floating_point:
            value = value.to(torch.float64)  # narrower ones do not have these limits
        value = value.clamp(limits.min, limits.max)
    return value.to(wanted)


Values: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"

LAUNCHES = 8
"""Kernels that a node is taken to launch at most, unless its call says more."""

UNKNOWN_LAUNCHES = 32
"""Kernels that a function of a user is taken to launch at most."""

_FLOAT64 = ("double", "int8", "uint8", "int32", "int64")


@dataclass(frozen=True)
class BoundKernel:
    """Computation of a bound node: `function` of the input ports' tensors, in order, gives the
    output ports' values, in order (one value alone for one port)."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., Values]
    launches: int = LAUNCHES
    compiles: bool = True
    """False for what `torch.compile` cannot follow: autograd, memory chosen by address."""


@dataclass(frozen=True)
class TorchOp:
    graph: Graph
    node: Node
    device: torch.device

    @property
    def compute(self) -> torch.dtype:
        """The compute type; float64 stands for integers and is exact up to 2^53."""
        return torch.float64 if self.node.compute_data_type in _FLOAT64 else torch.float32

    def has(self, *ports: str) -> bool:
        return all(port in self.node.inputs or port in self.node.outputs for port in ports)

    def tensor(self, port: str) -> Tensor:
        ports = self.node.inputs if port in self.node.inputs else self.node.outputs
        if port not in ports:
            raise self.refusal(f"it has no {port}")
        return self.graph.by_uid[ports[port]]

    def dims(self, port: str) -> tuple[int, ...]:
        return self.tensor(port).dims

    def dtype(self, port: str) -> torch.dtype:
        return TYPES[self.tensor(port).data_type]

    def working_type(self, *ports: str, result: str) -> torch.dtype:
        """Return the type shared by the ports if a kernel takes it unchanged and it is not narrower
        than allowed, otherwise the compute type. Kernels round to the type of their inputs, which
        must not happen to a result of a finer type."""
        kinds = {self.dtype(port) for port in ports}
        if len(kinds) == 1 and kinds <= set(NATIVE):
            kind = kinds.pop()
            wide_enough = self.compute == torch.float32 or kind == torch.float64
            if wide_enough and not self._is_finer(result, kind):
                return kind
        return self.compute

    def _is_finer(self, port: str, kind: torch.dtype) -> bool:
        """Return True if the type at `port` is finer than `kind`; whole numbers are finer than
        narrow floats, which end too soon."""
        dtype = self.dtype(port) if self.has(port) else kind
        if not dtype.is_floating_point and dtype != torch.bool:
            return kind in (torch.float16, torch.bfloat16)
        return dtype in NATIVE and torch.promote_types(dtype, kind) != kind

    def constant(self, port: str) -> float | None:
        """Return the value of a one-element constant; None if it comes at run time."""
        tensor = self.tensor(port)
        if tensor.elements != 1:
            raise self.refusal(f"{port} has {tensor.elements} elements where one is expected")
        return None if tensor.value is None else float(tensor.value)

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.node.attributes.get(name)
        return default if value is None else value

    def present(self, *ports: str) -> tuple[str, ...]:
        return tuple(port for port in ports if self.has(port))

    def refusal(self, reason: str) -> UnsupportedGraphError:
        return UnsupportedGraphError(f"torch: {self.node.label}: {reason}")


def elementwise(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.dtype == dtype else value.to(dtype)


MISSING = ("not implemented for", "not supported for", "is not currently implemented")
"""Messages of PyTorch for a type without a kernel on this device."""
HOST_ALLOCATOR = "DefaultCPUAllocator"
"""Named where the host's memory is at its end."""


@contextmanager
def foreign_errors(what: str) -> Iterator[None]:
    """Convert foreign errors; `what` names the node or the step in the message."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise EngineError(f"torch: {what}: out of memory: {_line(error)}", detail=str(error)) from (
            error
        )
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if HOST_ALLOCATOR in str(error):
            what = f"torch: {what}: out of memory on the host"
            raise EngineError(what, detail=str(error)) from error
        if any(text in str(error) for text in MISSING):
            raise UnsupportedGraphError(f"torch: {what}: {_line(error)}") from error
        raise EngineError(f"torch: {what}: {_line(error)}", detail=str(error)) from error
    except MemoryError as error:
        raise EngineError(f"torch: {what}: out of memory on the host") from error


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
