"""A HIP stream: events of any binding, and a stall gate if the binding has one.

The gate holds back the stream while work is enqueued, so that launch costs stay out of the samples.
hipDNN's own watchdog opens it after two seconds, since an engine that waits for the device inside
`execute` would wait for ever, and reports it (`timed_out`). Then `forced_gates` counts up, the
samples behind it are void, and the plan goes on without a gate: its events then include the host's
delays, which the plan's facts record. That is tried once for each plan, before its samples. A gate
that opened by force refuses to close in this process from then on (`gate_is_gone`). A cache flush
that may wait excludes a gate as well.

The cost of two marks is measured around an empty kernel, as on NVIDIA. The bindings have none: the
runtime in this process compiles it (`empty_kernel`). Where it cannot, nothing is subtracted.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, suppress
from ctypes import c_void_p
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from bench_run.errors import BenchRunError, EngineError
from bench_run.streams.base import WAITED, EmptyKernel, StreamAbilities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class StallGate(Protocol):
    def arm(self, stream: int, /) -> None: ...

    def release(self) -> None: ...

    def timed_out(self) -> bool:
        """Return True if the watchdog opened it after the last `arm`."""


GATE_DEPTH = 64
"""Iterations behind one gate: a few launches each stay far below what a queue holds."""


class Events(Protocol):
    """Instants on the device's clock."""

    name: str

    def record(self) -> Any:
        """Enqueue an instant."""

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """Return the milliseconds between two past instants."""


class HipStream:
    """Without events its clock is the host's and only `synchronize` matters."""

    def __init__(
        self,
        wait: Callable[[], None],
        events: Events | None,
        gate: StallGate | str | None = None,
        flush: Callable[[], None] | None = None,
        *,
        number: int = 0,
        flush_may_wait: bool = True,
        wait_for_device: Callable[[], None] | None = None,
        make_empty: Callable[[], Callable[[], None] | None] | None = None,
        library: str = "hip",
    ) -> None:
        """`gate`: or why there is none, where one was looked for. `number`: the stream's pointer.
        `wait_for_device`: where the runtime is within reach. `make_empty` returns what launches an
        empty kernel, or None."""
        self._wait_for_device, self.number = wait_for_device, number
        self._make_empty = make_empty
        self._empty: EmptyKernel | None = None
        self._wait, self._events, self._library = wait, events, library
        self._made_gate = None if isinstance(gate, str) else gate
        if flush is not None and flush_may_wait and gate is not None:
            gate = "flushing the caches may wait for the device"
        self._gate = None if events is None or isinstance(gate, str) else gate
        self._flush = flush
        self._untried: Callable[[], None] | None = None
        self._gated_block = False
        self.gate_depth = 0
        self.forced_gates = 0
        self._gate_missing = self.no_gate_because = gate if isinstance(gate, str) else None
        self._gate_closed_once = self.gate_is_gone = False
        self.gate_left_open = False
        self.clock = "host" if events is None else "events"

    @property
    def abilities(self) -> StreamAbilities:
        return StreamAbilities(
            without_flush=self.without_flush,
            empty=self.empty,
            try_gate=self.try_gate,
            forced_gates=lambda: self.forced_gates,
            no_gate_because=lambda: self.no_gate_because,
            leave_gate_open=self.leave_gate_open,
            gate_is_gone=lambda: self.gate_is_gone,
            gate_settings=self.gate_settings,
            restore_gate=self.restore_gate,
            wait_for_device=self._wait_for_device,
        )

    @property
    def timing(self) -> str:
        """Return the method of timing, in words."""
        if self._events is None:
            return "host clock around synchronised runs"
        if self.gate_depth:
            return f"{self._events.name}, behind a stall gate"
        why = "" if self.no_gate_because is None else f" ({self.no_gate_because})"
        return f"{self._events.name}, no gate: times hold the host's launch delays{why}"

    @contextmanager
    def without_flush(self) -> Iterator[None]:
        kept, self._flush = self._flush, None
        try:
            yield
        finally:
            self._flush = kept

    def attach(self, run: Callable[[], None]) -> None:
        """Take note of a new plan: its first gated use tries whether it can be held back."""
        self._untried, self.forced_gates, self.gate_left_open = run, 0, False
        self.no_gate_because = self._gate_missing
        self.gate_depth = 0 if self._gate is None else GATE_DEPTH

    def detach(self) -> None:
        """Forget a plan that is closed."""
        self._untried = None

    def leave_gate_open(self, why: str) -> None:
        if self.gate_depth:
            self.gate_depth, self.no_gate_because = 0, why
            self.gate_left_open = True

    def gate_settings(self) -> tuple[object, ...]:
        return self.gate_depth, self.no_gate_because, self.gate_left_open

    def restore_gate(self, settings: tuple[Any, ...]) -> None:
        self.gate_depth, self.no_gate_because, self.gate_left_open = settings

    def mark(self) -> Any:
        if self._events is None:
            return perf_counter_ns()
        try:
            return self._events.record()
        except Exception as error:  # foreign: a driver's words
            raise self._failure("event record", error) from error

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        if self._events is None:
            return int(end - begin)
        try:
            return round(self._events.elapsed_ms(begin, end) * 1e6)
        except Exception as error:  # foreign: as above
            raise self._failure("event elapsed_time", error) from error

    @contextmanager
    def gate(self) -> Iterator[None]:
        if self._gate is None or not self.gate_depth:
            yield
            return
        try:
            self._gate.arm(self.number)
        except Exception as error:  # foreign: a gate that was forced open refuses to close
            self._lose_gate(f"the gate does not close: {error}")
            yield
            return
        self._gated_block = self._gate_closed_once = True
        try:
            yield
        finally:
            try:
                self._gate.release()
            except Exception as error:  # foreign: as above
                raise self._failure("HipStallGate.release", error) from error

    def close(self) -> None:
        """Close the gates; later ones keep a thread of their own until then."""
        close = getattr(self._made_gate, "close", None)
        self._gate = self._made_gate = None
        if close is not None:
            with suppress(Exception):  # foreign: nothing measured hangs on it
                close()

    def _lose_gate(self, why: str) -> None:
        """Do without a gate for the rest of this process; the block is void, since others were
        gated."""
        self._gate, self._gate_missing = None, why
        self.gate_is_gone = self._gate_closed_once
        self.forced_gates += 1
        self.leave_gate_open(why)

    def flush(self) -> None:
        if self._flush is not None:
            self._flush()

    def synchronize(self) -> None:
        try:
            self._wait()
        except BenchRunError:
            raise
        except Exception as error:  # foreign: as above
            raise self._failure("synchronise", error) from error
        if self._gated_block:
            self._gated_block = False
            self._judge_gate()

    def _judge_gate(self) -> None:
        """Check the gate after every gated block: one that opened by force voids the work behind
        it."""
        assert self._gate is not None
        try:
            forced = bool(self._gate.timed_out())
        except Exception as error:  # foreign: as above
            self._lose_gate(str(self._failure("HipStallGate.timed_out", error)))
            return
        if forced:
            self.forced_gates += 1
            self.gate_is_gone = True
            self.leave_gate_open(WAITED)

    def try_gate(self) -> None:
        """Run the plan once behind the gate; the first call for a plan."""
        if self._untried is not None and self.gate_depth:
            run, self._untried = self._untried, None
            with self.gate():
                run()
            self.synchronize()

    def empty(self) -> EmptyKernel | None:
        make, self._make_empty = self._make_empty, None
        launch = None if make is None or self._events is None else make()
        if launch is not None:
            with suppress(EngineError):  # a launch that fails leaves times uncorrected
                launch()  # loads what loading behind a closed gate could hang on
                self.synchronize()
                self._empty = EmptyKernel(launch)
        return self._empty

    def _failure(self, step: str, error: Exception) -> EngineError:
        text = str(error) or type(error).__name__
        return EngineError(f"{self._library}: {step}: {text}", detail=text)


# What hipDNN's bindings do not have: a memset that does not wait, a stream, and its capture, and an
# empty kernel.
#
# Through ctypes on the very library that is in this process already: a second copy of the runtime
# would have a device state of its own.

LIBRARY, COMPILER = "libamdhip64", "libhiprtc"
EMPTY = b'extern "C" __global__ void bench_empty() {}'
NON_BLOCKING, RELAXED_CAPTURE = 1, 2


class HipError(RuntimeError):
    """A call of the runtime that did not return 0."""


class Runtime:
    """The runtime's functions; anything but success raises `HipError`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise HipError(f"{name} failed with HIP error {code}")

    def memset(self, address: int, value: int, size_bytes: int, stream: int) -> None:
        """Enqueue on the stream; return at once."""
        words = c_void_p(address), ctypes.c_int(value), ctypes.c_size_t(size_bytes)
        self.call("hipMemsetAsync", *words, c_void_p(stream))

    def empty_kernel(self, stream: int) -> Callable[[], None] | None:
        """Return what launches an empty kernel on the stream, compiled for the current device; None
        if it cannot be compiled. Not yet run on hardware."""
        try:
            code = self._compiled(EMPTY)
            module, function = c_void_p(), c_void_p()
            self.call("hipModuleLoadData", ctypes.byref(module), code)
            self.call("hipModuleGetFunction", ctypes.byref(function), module, b"bench_empty")
        except (HipError, OSError, AttributeError):  # AttributeError: a library without it
            return None
        sizes = *(ctypes.c_uint(1),) * 6, ctypes.c_uint(0)
        launch = function, *sizes, c_void_p(stream), None, None
        return lambda: self.call("hipModuleLaunchKernel", *launch)

    def _compiled(self, source: bytes) -> ctypes.Array[ctypes.c_char]:
        """Return the code of a program. The compiler is a library of its own since ROCm 7."""
        compiler = self
        if not hasattr(self._library, "hiprtcCreateProgram"):
            names = Path(self._library._name).parent.glob(f"{COMPILER}.so*")
            compiler = Runtime(ctypes.CDLL(str(min(names, default=f"{COMPILER}.so"))))
        program, size = c_void_p(), ctypes.c_size_t()
        made = ctypes.byref(program), source, b"bench_empty.hip", 0, None, None
        compiler.call("hiprtcCreateProgram", *made)
        compiler.call("hiprtcCompileProgram", program, 0, None)
        compiler.call("hiprtcGetCodeSize", program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        compiler.call("hiprtcGetCode", program, code)
        compiler.call("hiprtcDestroyProgram", ctypes.byref(program))
        return code

    def make_stream(self) -> int:
        """Make a stream and return its pointer. Work on the default stream cannot be captured."""
        made = c_void_p()
        self.call("hipStreamCreateWithFlags", ctypes.byref(made), ctypes.c_uint(NON_BLOCKING))
        return made.value or 0

    def capture(self, stream: int, work: Callable[[], None]) -> CapturedWork:
        """Return a HIP graph of what `work` enqueues; it does not run."""
        graph, executable = c_void_p(), c_void_p()
        self.call("hipStreamBeginCapture", c_void_p(stream), ctypes.c_int(RELAXED_CAPTURE))
        try:
            work()
        finally:
            self.call("hipStreamEndCapture", c_void_p(stream), ctypes.byref(graph))
        nothing = None, None, ctypes.c_size_t(0)
        self.call("hipGraphInstantiate", ctypes.byref(executable), graph, *nothing)
        self.call("hipGraphDestroy", graph)
        return CapturedWork(self, c_void_p(stream), executable)


class CapturedWork:
    """A HIP graph of one execution; `launch` replays it. Not yet run on hardware."""

    def __init__(self, runtime: Runtime, stream: c_void_p, executable: c_void_p) -> None:
        self._runtime, self._stream, self._executable = runtime, stream, executable

    def launch(self) -> None:
        self._runtime.call("hipGraphLaunch", self._executable, self._stream)

    def close(self) -> None:
        self._runtime.call("hipGraphExecDestroy", self._executable)


def loaded_runtime(maps: str = "/proc/self/maps") -> Runtime | None:
    """Return the runtime in this process's memory; None if there is none."""
    try:
        lines = Path(maps).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = (line.split(None, 5)[-1] for line in lines)
    path = next((path for path in paths if Path(path).name.startswith(LIBRARY)), None)
    if path is None:
        return None
    try:
        return Runtime(ctypes.CDLL(path))
    except OSError:
        return None
