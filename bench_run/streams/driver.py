"""Two calls of the CUDA driver that PyTorch does not offer, through ctypes: a stream that waits for
a value in memory, and a kernel that does nothing."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
WAIT_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ

EMPTY_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
"""


class Driver:
    """The driver's library; calls act on the context that is current in this thread."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.waits = hasattr(library, "cuStreamWaitValue32_v2")

    @classmethod
    def load(cls) -> Driver | None:
        """None where there is no driver."""
        try:
            return cls(ctypes.CDLL(LIBRARY))
        except OSError:
            return None

    def wait_value(self, stream: int, address: int, value: int) -> None:
        """Enqueues a wait until the 32-bit word at `address` is at least `value`, cyclically."""
        code = self._library.cuStreamWaitValue32_v2(
            ctypes.c_void_p(stream),
            ctypes.c_uint64(address),
            ctypes.c_uint32(value & 0xFFFFFFFF),
            ctypes.c_uint(WAIT_AT_LEAST),
        )
        if code != 0:
            raise EngineError(f"cuStreamWaitValue32 failed with CUDA error {code}")

    def empty_kernel(self, stream: int) -> Callable[[], None] | None:
        """Launches a kernel of one thread that returns at once; None where it does not load."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        library = self._library
        if library.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(EMPTY_PTX)) != 0:
            return None
        if library.cuModuleGetFunction(ctypes.byref(function), module, b"empty") != 0:
            return None
        one, none = ctypes.c_uint(1), ctypes.c_void_p()
        arguments = (function, one, one, one, one, one, one, ctypes.c_uint(0))
        queue = ctypes.c_void_p(stream)

        def launch() -> None:
            code = library.cuLaunchKernel(*arguments, queue, none, none)
            if code != 0:
                raise EngineError(f"cuLaunchKernel failed with CUDA error {code}")

        return launch
