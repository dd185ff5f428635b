"""Memory of a CUDA device that one process allocated and another one reads."""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING

from bench_run.errors import EngineError
from bench_run.streams.cuda_driver import driver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_run.streams.cuda_driver import Driver

LAZY_PEER_ACCESS = 1


class Handle(ctypes.Structure):
    """Name of an allocation for other processes (CUipcMemHandle)."""

    _fields_ = (("raw", c_char * 64),)


SIGNATURES = {
    "cuIpcGetMemHandle": (c_void_p, c_uint64),
    "cuIpcOpenMemHandle_v2": (c_void_p, Handle, c_uint),
    "cuIpcCloseMemHandle": (c_uint64,),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
}


def handle_of(cuda: Driver, address: int) -> str:
    """Return the name of an allocation for other processes, in hex. Raises `EngineError` if the
    device does not share its memory."""
    cuda.bind(SIGNATURES)
    handle = Handle()
    cuda.call("cuIpcGetMemHandle", ctypes.addressof(handle), address)
    return bytes(handle).hex()


def read_shared(device: str, handle: str, copies: Iterable[tuple[int, int, int]]) -> None:
    """Copy to the host's memory. `copies`: offset in the allocation, address on the host, bytes;
    `device`: uuid. Raises `EngineError`, and `EngineUnavailableError` without a driver."""
    cuda = driver()
    cuda.bind(SIGNATURES)
    count = cuda.number("cuDeviceGetCount")
    indices = [index for index in range(count) if cuda.facts(index).uuid == device]
    if not indices:
        raise EngineError(f"the process that compares does not see the device {device}")
    cuda.take(indices[0])
    opened, begin = Handle.from_buffer_copy(bytes.fromhex(handle)), c_uint64()
    cuda.call("cuIpcOpenMemHandle_v2", ctypes.addressof(begin), opened, LAZY_PEER_ACCESS)
    try:
        for offset, host, size in copies:
            if size:
                cuda.call("cuMemcpyDtoH_v2", host, begin.value + offset, size)
    finally:
        cuda.call("cuIpcCloseMemHandle", begin.value)
