"""The protocol of a stream, and the record of what some streams can do beside."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the fields' types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    import numpy as np
    import numpy.typing as npt


DeviceUse: TypeAlias = Literal["free", "shared", "cooling", "alone"]
"""Use of the device by a worker: none, copies and runs, waiting for the clock with its turn,
measuring."""


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


class DeviceMemory(Protocol):
    """Memory of a stream's device, by address. Raises `EngineError`, also if there is none left."""

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes, to be released with `free`."""

    def free(self, address: int) -> None:
        """Wait for users of the memory, then free it."""

    def copy(self, to: int, address: int, size: int) -> None:
        """Enqueue: within the device."""

    def copy_out(self, host: int, address: int, size: int) -> None:
        """Enqueue: to the host."""

    def handle_of(self, address: int) -> str:
        """Return the name of an allocation for other processes. Raises `EngineError` if the device
        does not share its memory."""


@dataclass(frozen=True)
class Shared:
    """Copies of outputs in one allocation of a device."""

    handle: str
    """Name of the allocation for other processes."""
    offsets: Mapping[int, Mapping[int, int]]
    """Offset of each output by slot and uid, in bytes."""


@dataclass
class EmptyKernel:
    """A kernel that does nothing, around which the cost of two marks is measured
    (`bench_run.measure.marks`)."""

    launch: Callable[[], None]
    """Enqueues it."""
    bound_ns: float | None = None
    """Largest error of a corrected time, as it was measured; None: it was not on such a device."""
    own_ns: float | None = None
    """Its own time; None until it is measured."""
    replay: Callable[[], None] | None = None
    """Enqueues it as a device graph; None until it was captured."""


LEAD, TAIL, FEWEST = 6, 12, 10
"""Pairs of marks around the empty kernel before and after the samples of a block, and how many
between are measured at least. On an H200 two marks cost 3.3 µs where more than nine such pairs
follow in the queue, 2.7 µs at the end of the queue, and 0.15 µs less for the first six: with these
around it a block of any length has one cost."""
PAIR_COMMANDS = 3
"""Commands of such a pair."""
REPLAY, REPLAY_COMMANDS = 0, 6
"""Word for `expect` in place of a number where a device graph is replayed, and launches that its
launch counts for: behind a closed gate a block of 60 samples blocked the host where it counted
as one (H200)."""

WAITED = "the engine waited for the device behind the closed gate"
"""The usual reason of a gate that opens by force."""
TOO_MANY = "one iteration is more launches than fit behind it"


@dataclass(frozen=True)
class StreamAbilities:
    """Optional abilities of a stream."""

    probe_clock_mhz: Callable[[], float | None] | None = None
    """Counts the device's clock at this moment by a kernel of its own; gives None if this device
    gives no way to count it."""
    kernel_timer: str | None = None
    """The timer that was asked for (``auto``, ``events``, ``cupti`` or ``host``), of a stream whose
    kernels CUPTI sees, where CUPTI is installed."""

    flushes: Callable[[], bool] | None = None
    """True if `flush` currently changes the caches, False if it does nothing."""
    without_flush: Callable[[], AbstractContextManager[None]] | None = None
    """Within the block the caches are left as the iteration before left them, whatever the cache
    state is."""
    run_before: Callable[[Callable[[], None], int], AbstractContextManager[None]] | None = None
    """Within the block this runs before each iteration, outside of the samples, after so many other
    bytes were touched."""

    empty: Callable[[], EmptyKernel | None] | None = None
    """The empty kernel of this stream, always the same; gives None if none can be launched."""
    try_gate: Callable[[], None] | None = None
    """Find out, once for each plan, if it can be held back; that may hang."""
    expect: Callable[[int], None] | None = None
    """An iteration of the plan at hand is so many launches, and the stream's queue holds so much
    and no more: the plan has a gate, unless not even one iteration fits behind."""
    forced_gates: Callable[[], int] | None = None
    """Return the number of gates of this plan that opened before their block ended, which
    invalidates the work behind them; read after `synchronize`."""
    no_gate_because: Callable[[], str | None] | None = None
    """Why this plan is measured without a gate, in a few words; None: it has one, or none was there
    to begin with."""
    leave_gate_open: Callable[[str], None] | None = None
    """No gate until the next plan, for this reason."""
    gate_is_gone: Callable[[], bool] | None = None
    """True if a new process would have a gate and this one may not, after one opened by force."""
    gate_settings: Callable[[], tuple[object, ...]] | None = None
    """Return the gate settings of the current plan. The gate belongs to the plan made last; plans
    that stay and take turns restore theirs."""
    restore_gate: Callable[[tuple[Any, ...]], None] | None = None
    """Restore settings from `gate_settings`."""

    watch: Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint8]], DeviceWatch | None] | None = (
        None
    )
    """Watch bytes at these offsets of an address, to be overwritten with these values. Returns None
    if this build of the library cannot."""
    wait_for_device: Callable[[], None] | None = None
    """Waits for everything on the device, whichever stream of this process it is on."""
    memory: Callable[[], DeviceMemory | None] | None = None
    """Copies memory; gives None if this build of the library has no way to."""


class Stream(Protocol):
    """The queue work goes to, and its clock."""

    clock: str
    """Clock of marks: ``host`` instants without a device series, or device ``events``."""
    gate_depth: int
    """Iterations of one operation that may wait behind a closed gate; 0 without a gate."""

    @property
    def abilities(self) -> StreamAbilities:
        """Optional abilities of the stream."""

    def mark(self) -> object:
        """Enqueue an instant."""

    def elapsed_ns(self, begin: object, end: object) -> int:
        """Return the nanoseconds between two marks whose work is done."""

    def gate(self) -> AbstractContextManager[None]:
        """Hold back what is enqueued inside the block until it ends, however it ends."""

    def flush(self) -> None:
        """Enqueue what brings the caches into the chosen state before one iteration."""

    def synchronize(self) -> None:
        """Wait for everything enqueued."""


# Cache states, and how much a stream touches before each iteration for them.
#
# ``hot``: nothing. ``cold``: so much that no cache keeps anything. ``pass``: as much as a pass of
# the pipeline touches, so that a graph finds the caches as in a network that runs over and over.
# ``rotate`` and ``weights-cold`` are the engine's work, which cycles through copies of its buffers.

CACHES = ("hot", "cold", "rotate", "weights-cold", "pass")


def flushed_bytes(cache: str, everything: int, pass_bytes: int | None) -> int | None:
    """Return the bytes to touch; None for none. `everything`: more than any cache holds."""
    if cache == "cold":
        return everything
    if cache == "pass" and pass_bytes is not None:
        return max(16, min(pass_bytes, everything))
    return None
