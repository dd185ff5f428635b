"""The protocol of a stream, and optional abilities of streams. No code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    import numpy as np
    import numpy.typing as npt


class Stream(Protocol):
    """The queue work goes to, and its clock."""

    clock: str
    """``host``: marks are host instants, there is no device series. ``events``: device clock."""
    gate_depth: int
    """Iterations of one operation that may wait behind a closed gate; 0 where there is no gate."""

    def mark(self) -> object:
        """Enqueue an instant."""

    def elapsed_ns(self, begin: object, end: object) -> int:
        """Nanoseconds between two marks whose work is done."""

    def gate(self) -> AbstractContextManager[None]:
        """Hold back what is enqueued inside the block until it ends, however it ends."""

    def flush(self) -> None:
        """Enqueue what brings the caches into the chosen state before one iteration."""

    def synchronize(self) -> None:
        """Wait for everything enqueued."""

    def correction_ns(self) -> float:
        """What two marks around nothing but an empty kernel measure too much, in this mode."""


@runtime_checkable
class SupportsClockProbe(Protocol):
    """A stream that can count the device's clock by a kernel of its own."""

    def probe_clock_mhz(self) -> float | None:
        """The clock at this moment; None where this device gives no way to count it."""


@runtime_checkable
class SupportsKernelRecords(Protocol):
    """A stream whose kernels CUPTI sees, where CUPTI is installed."""

    timer: str
    """The timer that was asked for: ``auto``, ``events``, ``cupti`` or ``host``."""
    flushes: bool
    """Whether something that brings the caches into their state runs before every iteration."""


@runtime_checkable
class Flushes(Protocol):
    """A stream that says whether it does anything before each iteration."""

    @property
    def flushes(self) -> bool:
        """Whether `flush` brings the caches into their state."""


@runtime_checkable
class RunsBefore(Protocol):
    """A stream that has something run before each iteration, outside of the samples."""

    runs_before: bool
    """Whether it does."""

    def run_before(self, run: Callable[[], None], left_bytes: int) -> AbstractContextManager[None]:
        """Within the block, after so many other bytes were touched."""


@runtime_checkable
class PausesFlush(Protocol):
    """A stream that can leave the caches as the iteration before left them."""

    def without_flush(self) -> AbstractContextManager[None]:
        """Within the block, whatever its cache state is."""


@runtime_checkable
class GateOpensByForce(Protocol):
    """A stream whose gate may open before its block ends; what was enqueued behind is void."""

    forced_gates: int
    """How often it did for this plan; read after `synchronize`."""
    no_gate_because: str | None
    """Why this plan is measured without a gate, in a few words; None: it has one, or none was there
    to begin with."""

    def leave_gate_open(self, why: str) -> None:
        """No gate until the next plan."""


@runtime_checkable
class RestoresGate(Protocol):
    """A stream whose gate is that of the plan made last: of plans that stay and take turns, each
    brings its own back."""

    def gate_settings(self) -> tuple[object, ...]:
        """Of the plan at hand."""

    def restore_gate(self, settings: tuple[Any, ...]) -> None:
        """As `gate_settings` told them when another plan was at hand."""


WAITED = "the engine waited for the device behind the closed gate"
"""The usual reason of a gate that opens by force."""
TOO_MANY = "one iteration is more launches than fit behind it"


@runtime_checkable
class ExpectsLaunches(Protocol):
    """A stream whose queue holds so much and no more."""

    def expect(self, launches: int) -> None:
        """Of an iteration of the plan at hand: it has a gate, unless not even one fits behind."""


@runtime_checkable
class GateWearsOut(Protocol):
    """A stream whose process may have no gate any more once one opened by force."""

    gate_is_gone: bool
    """Whether a new process would have a gate and this one may not."""


class DeviceWatch(Protocol):
    """Reads and writes a few bytes of device memory in stream order."""

    def look(self, address: int) -> None:
        """Enqueue: keep the watched bytes as they are now."""

    def put_out(self, address: int) -> None:
        """Enqueue: overwrite the watched bytes."""

    def drain(self) -> Iterable[npt.NDArray[np.uint8]]:
        """Wait; then what each `look` since the last call saw, in order."""

    def close(self) -> None:
        """Give its memory back."""


@runtime_checkable
class WatchesMemory(Protocol):
    """Optional, of a stream."""

    def watch(
        self, offsets: npt.NDArray[np.int64], values: npt.NDArray[np.uint8]
    ) -> DeviceWatch | None:
        """For bytes at these offsets of an address, to be overwritten with these values. None
        where this build of the library has no way to."""


class DeviceMemory(Protocol):
    """Memory of a stream's device, by address. Raises `EngineError`, also where there is none
    left."""

    def allocate(self, size: int) -> int:
        """So many bytes, which `free` gives back."""

    def free(self, address: int) -> None:
        """Waits for what uses them."""

    def copy(self, to: int, address: int, size: int) -> None:
        """Enqueue: within the device."""

    def copy_out(self, host: int, address: int, size: int) -> None:
        """Enqueue: to the host."""


@runtime_checkable
class CopiesMemory(Protocol):
    """Optional, of a stream."""

    def memory(self) -> DeviceMemory | None:
        """None where this build of the library has no way to."""


# Cache states, and how much a stream touches before each iteration for them.
#
# ``hot``: nothing. ``cold``: so much that no cache keeps anything. ``pass``: as much as a pass of
# the pipeline touches, so that a graph finds the caches as in a network that runs over and over.
# ``rotate`` and ``weights-cold`` are the engine's work, which cycles through copies of its buffers.

CACHES = ("hot", "cold", "rotate", "weights-cold", "pass")


def flushed_bytes(cache: str, everything: int, pass_bytes: int | None) -> int | None:
    """None: nothing is touched. `everything`: so much that no cache keeps anything."""
    if cache == "cold":
        return everything
    if cache == "pass" and pass_bytes is not None:
        return max(16, min(pass_bytes, everything))
    return None
