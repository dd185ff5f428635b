"""The CUDA driver's calls that streams and plans need, through ctypes: no package, no toolkit.

Calls act on the primary context, which PyTorch and the runtime API share. Every code is checked;
the message of the `EngineError` is the driver's own. Most errors are sticky: the process is of no
use afterwards, and the run replaces it.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineError, EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Our own kernels, as PTX: the driver compiles them when they are loaded.
#
# ``bench_empty`` does nothing. ``bench_gate`` holds the stream until the word in pinned host memory
# has reached a generation, or until its time is over: then it says so in the next word. It opens by
# itself whatever the host does. ``bench_clock`` counts cycles and nanoseconds from one tick of the
# global timer to a later one. ``bench_read`` reads a buffer, 16 bytes at a time. ``bench_look``
# keeps single bytes of a buffer, one a thread, and ``bench_put`` overwrites them.

NAMES = ("bench_empty", "bench_gate", "bench_clock", "bench_read", "bench_look", "bench_put")

PTX = b"""
.version 6.3
.target sm_70
.address_size 64

.visible .entry bench_empty() { ret; }

.visible .entry bench_gate(.param .u64 word, .param .u32 generation, .param .u64 limit_ns)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [word];
  ld.param.u32 %r1, [generation];
  ld.param.u64 %d2, [limit_ns];
  mov.u64 %d3, %globaltimer;
WAIT:
  ld.volatile.global.u32 %r2, [%d1];
  sub.s32 %r3, %r2, %r1;
  setp.ge.s32 %p1, %r3, 0;
  @%p1 bra OPEN;
  nanosleep.u32 100;
  mov.u64 %d4, %globaltimer;
  sub.u64 %d5, %d4, %d3;
  setp.lt.u64 %p2, %d5, %d2;
  @%p2 bra WAIT;
  st.volatile.global.u32 [%d1+4], %r1;
OPEN:
  ret;
}

.visible .entry bench_clock(.param .u64 result, .param .u64 duration_ns)
{
  .reg .pred %p<4>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [result];
  ld.param.u64 %d2, [duration_ns];
  mov.u64 %d3, %globaltimer;
FIRST:
  mov.u64 %d4, %globaltimer;
  setp.eq.u64 %p1, %d4, %d3;
  @%p1 bra FIRST;
  mov.u64 %d5, %clock64;
  add.u64 %d6, %d4, %d2;
MIDDLE:
  mov.u64 %d7, %globaltimer;
  setp.lt.u64 %p2, %d7, %d6;
  @%p2 bra MIDDLE;
LAST:
  mov.u64 %d8, %globaltimer;
  setp.eq.u64 %p3, %d8, %d7;
  @%p3 bra LAST;
  mov.u64 %d9, %clock64;
  sub.u64 %d10, %d9, %d5;
  sub.u64 %d11, %d8, %d4;
  st.global.u64 [%d1], %d10;
  st.global.u64 [%d1+8], %d11;
  ret;
}

.visible .entry bench_read(.param .u64 buffer, .param .u64 vectors, .param .u64 result)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [buffer];
  ld.param.u64 %d2, [vectors];
  ld.param.u64 %d3, [result];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mov.u32 %r5, %nctaid.x;
  mul.lo.u32 %r6, %r5, %r2;
  cvt.u64.u32 %d4, %r4;
  cvt.u64.u32 %d5, %r6;
  mov.u32 %r11, 0;
NEXT:
  setp.ge.u64 %p1, %d4, %d2;
  @%p1 bra DONE;
  shl.b64 %d6, %d4, 4;
  add.u64 %d7, %d1, %d6;
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%d7];
  or.b32 %r7, %r7, %r8;
  or.b32 %r9, %r9, %r10;
  or.b32 %r11, %r11, %r7;
  or.b32 %r11, %r11, %r9;
  add.u64 %d4, %d4, %d5;
  bra NEXT;
DONE:
  setp.ne.u32 %p2, %r11, 0x9e3779b9;
  @%p2 ret;
  st.global.u32 [%d3], %r11;
  ret;
}

.visible .entry bench_look(.param .u64 base, .param .u64 offsets, .param .u64 kept)
{
  .reg .b16 %h<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<10>;
  ld.param.u64 %d1, [base];
  ld.param.u64 %d2, [offsets];
  ld.param.u64 %d3, [kept];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d4, %r1;
  shl.b64 %d5, %d4, 3;
  add.u64 %d6, %d2, %d5;
  ld.global.u64 %d7, [%d6];
  add.u64 %d8, %d1, %d7;
  add.u64 %d9, %d3, %d4;
  ld.global.u8 %h1, [%d8];
  st.global.u8 [%d9], %h1;
  ret;
}

.visible .entry bench_put(.param .u64 base, .param .u64 offsets, .param .u64 values)
{
  .reg .b16 %h<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<10>;
  ld.param.u64 %d1, [base];
  ld.param.u64 %d2, [offsets];
  ld.param.u64 %d3, [values];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d4, %r1;
  shl.b64 %d5, %d4, 3;
  add.u64 %d6, %d2, %d5;
  ld.global.u64 %d7, [%d6];
  add.u64 %d8, %d1, %d7;
  add.u64 %d9, %d3, %d4;
  ld.global.u8 %h1, [%d9];
  st.global.u8 [%d8], %h1;
  ret;
}
"""


LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
OUT_OF_MEMORY = 2
MULTIPROCESSORS, L2_BYTES, MAJOR, MINOR = 16, 38, 75, 76  # CU_DEVICE_ATTRIBUTE_*
RELAXED_CAPTURE = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

_OUT = POINTER(c_void_p)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_char_p, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuCtxGetLimit": (POINTER(c_size_t), c_int),
    "cuCtxSetLimit": (c_int, c_size_t),
    "cuCtxResetPersistingL2Cache": (),
    "cuStreamCreate": (_OUT, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _OUT),
    "cuGraphGetNodes": (c_void_p, c_void_p, POINTER(c_size_t)),
    "cuGraphInstantiateWithFlags": (_OUT, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuEventCreate": (_OUT, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemHostAlloc": (_OUT, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuModuleLoadData": (_OUT, c_char_p),
    "cuModuleGetFunction": (_OUT, c_void_p, c_char_p),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), c_void_p),
    "cuProfilerStart": (),
    "cuProfilerStop": (),
}


LOCAL_SIZE_BYTES = 3
"""CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"""


@dataclass(frozen=True)
class DeviceFacts:
    index: int
    name: str
    uuid: str
    arch: str
    multiprocessors: int
    l2_bytes: int


class Driver:
    """The loaded library; `call` checks the code that every function returns."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, types in SIGNATURES.items():
            getattr(library, name).argtypes = types
        self._functions: dict[str, c_void_p] = {}
        self._module = c_void_p()

    def bind(self, signatures: Mapping[str, tuple[Any, ...]]) -> None:
        """Set the types of further functions. Raises `EngineError` if one is missing."""
        for name, types in signatures.items():
            function = getattr(self._library, name, None)
            if function is None:
                raise EngineError(f"CUDA: the driver has no {name}")
            function.argtypes = types

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise EngineError(self.message(name, code))

    def message(self, name: str, code: int) -> str:
        text = c_char_p()
        self._library.cuGetErrorName(c_int(code), ctypes.byref(text))
        error = f"error {code}" if text.value is None else text.value.decode()
        what = "out of memory on the device: " if code == OUT_OF_MEMORY else ""
        return f"CUDA: {what}{name} ended with {error}"

    def pointer(self, name: str, *arguments: Any) -> c_void_p:
        """Return the pointer that a creating function stores in its first argument."""
        made = c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def number(self, name: str, *arguments: Any, kind: Any = c_int) -> Any:
        found = kind()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def take(self, index: int) -> DeviceFacts:
        """Make the device's primary context the current one of this thread."""
        device = self.number("cuDeviceGet", index)
        self.call("cuCtxSetCurrent", self.pointer("cuDevicePrimaryCtxRetain", device))
        return self.facts(index)

    def facts(self, index: int) -> DeviceFacts:
        device = self.number("cuDeviceGet", index)
        name, raw = ctypes.create_string_buffer(128), ctypes.create_string_buffer(16)
        self.call("cuDeviceGetName", name, 128, device)
        self.call("cuDeviceGetUuid_v2", raw, device)

        def attribute(number: int) -> int:
            return int(self.number("cuDeviceGetAttribute", number, device))

        return DeviceFacts(
            index=index,
            name=name.value.decode(errors="replace"),
            uuid=uuid_text(raw.raw),
            arch=f"sm_{attribute(MAJOR)}{attribute(MINOR)}",
            multiprocessors=attribute(MULTIPROCESSORS),
            l2_bytes=attribute(L2_BYTES),
        )

    def kernel(self, name: str) -> c_void_p:
        """Return one of our own kernels, loaded once for the current context."""
        if name not in self._functions:
            if not self._module:
                self._module = self.pointer("cuModuleLoadData", PTX)
            found = self.pointer("cuModuleGetFunction", self._module, name.encode())
            self._functions[name] = found
        return self._functions[name]

    def local_bytes(self, kernel: int) -> int | None:
        """Return the local memory of a thread, for the kernel of a launch; None if the driver
        does not report it."""
        function, found = c_void_p(), c_int()
        of_kernel = getattr(self._library, "cuKernelGetFunction", None)  # since CUDA 12
        if of_kernel is None or of_kernel(ctypes.byref(function), c_void_p(kernel)) != 0:
            function = c_void_p(kernel)
        asked = self._library.cuFuncGetAttribute
        wrong = asked(ctypes.byref(found), c_int(LOCAL_SIZE_BYTES), function)
        return None if wrong else found.value

    def launch(
        self, kernel: c_void_p, stream: c_void_p, *arguments: Any, blocks: int = 1, threads: int = 1
    ) -> None:
        """`arguments` are ctypes values in the kernel's order."""
        places = [ctypes.cast(ctypes.byref(a), c_void_p) for a in arguments]
        packed = (c_void_p * max(1, len(places)))(*places)
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, stream, packed, None)


def uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    cuts = (0, 8, 12, 16, 20, 32)
    return "GPU-" + "-".join(digits[a:b] for a, b in pairwise(cuts))


def device_count() -> int:
    """Return the number of devices that the driver shows to this process. Raises
    `EngineUnavailableError` without a driver."""
    return int(driver().number("cuDeviceGetCount"))


@lru_cache(maxsize=1)
def driver() -> Driver:
    """Return the initialised driver. Raises `EngineUnavailableError` if there is none."""
    try:
        loaded = Driver(ctypes.CDLL(LIBRARY))
    except OSError:
        raise EngineUnavailableError("there is no NVIDIA driver on this machine") from None
    except AttributeError as error:
        raise EngineUnavailableError(f"the NVIDIA driver is too old: {error}") from None
    try:
        loaded.call("cuInit", 0)
        count = loaded.number("cuDeviceGetCount")
    except EngineError as error:
        raise EngineUnavailableError(str(error)) from error
    if count == 0:
        raise EngineUnavailableError("the NVIDIA driver sees no GPU")
    return loaded
