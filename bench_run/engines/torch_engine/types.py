"""Data types of the graph in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.poison import poison_byte

if TYPE_CHECKING:
    from bench_run.graph.model import Tensor

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
    """Zeros: one-dimensional, the tensor's span."""
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
    """The same memory of a device, whose owner may now give it to others."""
    storage = value.untyped_storage()
    if not storage.nbytes():
        return value
    memory = torch.as_tensor(_Memory(storage), device=value.device).untyped_storage()
    seen = torch.empty(0, dtype=value.dtype, device=value.device)
    return seen.set_(memory, value.storage_offset(), value.size(), value.stride())


def poison(flat: torch.Tensor, data_type: str) -> None:
    flat.view(torch.uint8).fill_(poison_byte(data_type))


def settle(value: torch.Tensor, data_type: str) -> torch.Tensor:
    """The value in its tensor's type. 8-bit floats saturate, integers are cut off and clipped."""
    wanted = TYPES[data_type]
    if value.dtype == wanted:
        return value
    row = DTYPES[data_type]
    if row.bits == 8 and row.kind in ("float", "scale"):
        low = row.smallest if row.kind == "scale" else -row.largest
        value = value.to(_widest(value.dtype)).clamp(low, row.largest)
    elif row.kind == "integer" and data_type != "int64" and value.dtype != torch.bool:
        limits = torch.iinfo(wanted)
        if value.dtype.is_floating_point:
            value = value.to(torch.float64)  # narrower ones do not have these limits
        value = value.clamp(limits.min, limits.max)
    return value.to(wanted)


def _widest(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
