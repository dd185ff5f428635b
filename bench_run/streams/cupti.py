"""The device's own records of kernels, copies and fills, through CUPTI (`cupti-python` 13).

Whatever fails here is an `EngineUnavailableError`: it costs the records, never the case. One owner
in a process: a profiler that ran before has to be displaced, so callbacks are registered for every
recording. Our own kernels (gate, flush, probe) are left out. Delivering a record to Python costs
about 50 microseconds: a recording is for hundreds of kernels, not for millions.
"""

from __future__ import annotations

import ctypes
import math
import statistics
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bench_schema.document import Launch

from bench_run.errors import BenchRunError, EngineError, EngineUnavailableError
from bench_run.streams.cuda_driver import NAMES, driver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import TypeAlias

    Group: TypeAlias = Sequence["KernelRecord"]
    """The records of one iteration."""

WARP = 32
REGISTERS_UNIT = 256
WARPS_UNIT = 4
SHARED_UNIT = 128


@dataclass(frozen=True)
class Limits:
    """Limits of one multiprocessor."""

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_bytes: int
    """Shared memory of each block that the driver keeps."""


@lru_cache(maxsize=8)
def limits(device: int) -> Limits:
    """`device`: its index. Raises `EngineError`."""
    own, handle = driver(), driver().number("cuDeviceGet", device)
    # CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, MAX_BLOCKS_PER_, MAX_REGISTERS_PER_,
    # MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, RESERVED_SHARED_MEMORY_PER_BLOCK
    return Limits(*(own.number("cuDeviceGetAttribute", n, handle) for n in (39, 106, 82, 81, 111)))


def occupancy(of: Limits, threads: int, registers: int, shared_bytes: int) -> float:
    """Share of the warps' places that are taken, by blocks of so many threads."""
    warps = _up(threads, WARP) // WARP
    places = of.threads // WARP
    blocks = min(of.blocks, places // warps)
    if registers:
        held = of.registers // _up(registers * WARP, REGISTERS_UNIT)
        blocks = min(blocks, held // WARPS_UNIT * WARPS_UNIT // warps)
    shared = _up(shared_bytes + of.reserved_bytes, SHARED_UNIT)
    blocks = min(blocks, of.shared_bytes // shared) if shared else blocks
    return blocks * warps / places


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


BUFFER_BYTES = 8 * 1024 * 1024
DRIVER_CALLS = ("DriverApiTraceCbid", "driver_api_trace_cbid")
"""Names of the enumeration of the driver's calls: since cupti-python 13.4, and before."""


@dataclass(frozen=True)
class KernelRecord:
    """One piece of work of the device; instants in nanoseconds of its own clock."""

    name: str
    start_ns: int
    end_ns: int
    launch: Launch | None = None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class HostCall:
    """One call of the driver or the runtime, on the same clock."""

    name: str
    start_ns: int
    end_ns: int
    thread: int


def available() -> bool:
    return find_spec("cupti") is not None


def load() -> Any:
    """Load CUPTI's bindings. Raises `EngineUnavailableError`."""
    try:
        from cupti import cupti
    except Exception as error:
        what = f"CUPTI does not load: {error}; pip install 'dnn-bench[cupti]'"
        raise EngineUnavailableError(what) from error
    return cupti


@contextmanager
def errors() -> Iterator[None]:
    """Raise what the bindings raise as `EngineUnavailableError`."""
    try:
        yield
    except BenchRunError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise EngineUnavailableError(f"CUPTI does not record: {kind}: {error}") from error


def timestamp_ns() -> int:
    """Return the instant by the clock of the records. Raises `EngineUnavailableError`."""
    cupti = load()
    with errors():
        return int(cupti.get_timestamp())


@lru_cache(maxsize=1)
def prepare() -> None:
    """Record nothing, once: what the first recording of a process costs is paid then. Raises
    `EngineUnavailableError`."""
    with Recorder():
        pass


class Recorder:
    """Records what the device does inside the block; synchronise before it ends. Raises
    `EngineUnavailableError` at either end of the block, unless the block itself raised."""

    def __init__(self, *, calls: bool = False) -> None:
        """Start recording. `calls`: record calls of the host's API too."""
        self._cupti = load()
        with errors():
            kinds = self._cupti.ActivityKind
            self._kinds = [kinds.CONCURRENT_KERNEL, kinds.MEMSET, kinds.MEMCPY]
            if calls:
                self._kinds += [kinds.RUNTIME, kinds.DRIVER]
            self._works = {kinds.MEMSET: "[fill]", kinds.MEMCPY: "[copy]"}
        self._problem: Exception | None = None
        self.records: list[KernelRecord] = []
        self.calls: list[HostCall] = []
        self._launches: dict[str, Launch] = {}
        """First launch of each kernel, by name."""

    def __enter__(self) -> Recorder:
        try:
            with errors():
                self._cupti.activity_register_callbacks(requested, self._completed)
                for kind in self._kinds:
                    self._cupti.activity_enable(kind)
        except EngineUnavailableError:
            self._disable()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with errors():
                self._cupti.activity_flush_all(1)
                if self._problem is not None:
                    raise self._problem
        except EngineUnavailableError:
            if error is None:
                raise
        finally:
            self._disable()
        self.records.sort(key=lambda record: record.start_ns)

    def _disable(self) -> None:
        """Stop recording, which slows down every launch."""
        for kind in self._kinds:
            with suppress(Exception):
                self._cupti.activity_disable(kind)

    def _completed(self, activities: Any) -> None:
        """Keep the records of a buffer. CUPTI calls it: an error waits for the block's end."""
        try:
            self._copy(activities)
        except Exception as error:
            self._problem = error

    def _copy(self, activities: Any) -> None:
        """Copy the fields: the objects die with the buffer."""
        kernel = self._cupti.ActivityKind.CONCURRENT_KERNEL
        for activity in activities:
            if activity.kind == kernel:
                if activity.name not in NAMES:
                    self.records.append(self._kernel(activity))
            elif activity.kind in self._works:
                name = self._works[activity.kind]
                self.records.append(KernelRecord(name, activity.start, activity.end))
            else:
                self.calls.append(self._call(activity))

    def _kernel(self, activity: Any) -> KernelRecord:
        name = activity.name
        if name not in self._launches:
            self._launches[name] = launch_of(activity)
        return KernelRecord(name, activity.start, activity.end, self._launches[name])

    def _call(self, activity: Any) -> HostCall:
        domain = self._cupti.CallbackDomain
        drivers = activity.kind == self._cupti.ActivityKind.DRIVER
        place = domain.DRIVER_API if drivers else domain.RUNTIME_API
        name = str(self._cupti.get_callback_name(place, activity.cbid))
        return HostCall(name, activity.start, activity.end, int(activity.thread_id))


class LocalMemory:
    """Local memory of the kernels that are launched inside the block, which records do not tell:
    the driver is asked as each is launched. Empty where another tool watches the launches."""

    LAUNCHES: Mapping[str, int] = {
        "cuLaunchKernel": 0,
        "cuLaunchKernel_ptsz": 0,
        "cuLaunchKernelEx": 8,
        "cuLaunchKernelEx_ptsz": 8,
    }
    """Calls of the driver, and where among their parameters the kernel lies, in bytes."""

    def __init__(self) -> None:
        self._cupti = load()
        self._subscriber: int | None = None
        self.bytes_by_name: dict[str, int] = {}
        """Bytes of one thread."""

    def __enter__(self) -> LocalMemory:
        with errors():
            api = self._cupti.CallbackDomain.DRIVER_API
            new, former = DRIVER_CALLS
            ids = getattr(self._cupti, new, None) or getattr(self._cupti, former)
        try:
            self._subscriber = self._cupti.subscribe(self._launched, None)
        except Exception:
            return self
        try:
            with errors():
                for name in self.LAUNCHES:
                    self._cupti.enable_callback(1, self._subscriber, api, ids[name])
        except EngineUnavailableError:
            self._unsubscribe()
            raise
        return self

    def _launched(self, _given: Any, _domain: int, _number: int, call: Any) -> None:
        """Read the kernel of a launch; errors must not reach the launch itself."""
        with suppress(Exception):
            name = call.symbol_name
            place = self.LAUNCHES.get(call.function_name)
            if call.callback_site != 0 or place is None or name in self.bytes_by_name:
                return
            kernel = ctypes.c_uint64.from_address(call.function_params + place).value
            found = driver().local_bytes(kernel)
            if found is not None:
                self.bytes_by_name[name] = found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unsubscribe()

    def _unsubscribe(self) -> None:
        if self._subscriber is not None:
            with suppress(Exception):
                self._cupti.unsubscribe(self._subscriber)
            self._subscriber = None


def requested() -> tuple[int, int]:
    """Return the size of a buffer, and the largest number of records in it: unlimited."""
    return BUFFER_BYTES, 0


def launch_of(activity: Any) -> Launch:
    """Return the launch of a kernel from its record."""
    grid, block, cluster = (_extent(activity, what) for what in ("grid", "block", "cluster"))
    static, dynamic = int(activity.static_shared_memory), int(activity.dynamic_shared_memory)
    registers = int(activity.registers_per_thread)
    try:
        ratio = occupancy(
            limits(int(activity.device_id)), math.prod(block), registers, static + dynamic
        )
    except (EngineError, EngineUnavailableError):
        ratio = None
    return Launch(grid, block, cluster, registers, static, dynamic, occupancy_ratio=ratio)


def _extent(activity: Any, what: str) -> tuple[int, int, int]:
    x, y, z = (int(getattr(activity, f"{what}_{axis}", 0)) for axis in "xyz")
    return x, y, z


def iterations(records: Sequence[KernelRecord], count: int) -> list[Group] | None:
    """Return the records of each of `count` iterations, which all launch the same sequence; None if
    they do not divide so."""
    size, rest = divmod(len(records), max(1, count))
    if rest or size == 0:
        return None
    groups = [records[i * size : (i + 1) * size] for i in range(count)]
    names = [[record.name for record in group] for group in groups]
    return groups if all(found == names[0] for found in names) else None


def sum_ns(group: Group) -> int:
    return sum(record.duration_ns for record in group)


def span_ns(group: Group) -> int:
    """Return the time from the first start to the last end."""
    return max(record.end_ns for record in group) - min(record.start_ns for record in group)


def by_name(groups: Sequence[Group]) -> dict[str, tuple[int, float]]:
    """Return, by kernel name, the launches in one iteration and the median duration."""
    durations: dict[str, list[int]] = defaultdict(list)
    for group in groups:
        for record in group:
            durations[record.name].append(record.duration_ns)
    return {
        name: (max(1, len(found) // len(groups)), statistics.median(found))
        for name, found in durations.items()
    }


@lru_cache(maxsize=1024)
def demangle(name: str) -> str:
    """Return ``void f<int>(int*)`` for ``_Z1fIiEvPT_``; the name itself if it is not mangled."""
    library = _library()
    if library is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    place = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not place:
        return name
    text = ctypes.string_at(place).decode(errors="replace")
    library.free(ctypes.c_void_p(place))
    return text


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    return library
