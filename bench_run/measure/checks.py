"""Work before and after each sample, outside of its time.

Before a sample its inputs change and canaries are written, after some, drawn at random, its outputs
are read: what is checked are samples. Nothing before a sample tells whether it is going to be read.

On a device that holds for samples that are timed by the host. Before a short one there is one more
iteration, which keeps the host's caches warm: without it a launch takes 5 µs longer.

In a block that is enqueued as a whole, a kernel of ours right before an iteration makes it 0.1 to
0.3 µs longer on an H200 (another kernel's code and shared memory are in place). Long iterations do
not show that. Before some of the short ones inputs change, an iteration follows that is not timed,
and another one without but between marks, which leaves the device as a sample expects it. The
others wait as long on the host, so that no rhythm tells them. The last sample of a block is read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bench_run.engines.base import Plan
    from bench_run.measure.canaries import Canaries
    from bench_run.measure.inputs import OwnInputs
    from bench_run.measure.reading import OutputReader, Places
    from bench_run.streams.base import Stream

LONG_NS = 500_000
"""Duration from which 0.3 µs are below a thousandth."""
WATCHED, WATCHED_SHARE = 30, 0.7
"""Iterations on canaries in the queue for the samples of a round, and their largest ratio to these:
70 in five rounds find a tenth of lazy ones with probability 1 - 0.9**70 = 0.9994."""
RECOVERY_NS, MOST_RUNS = 500_000, 50
"""Executions that bring the device's caches back after its outputs were copied take about so long.
A kernel of 33 MB took 1 to 7 % longer in fifteen executions after that (H200)."""


class Checks(Protocol):
    """Called by the timing loops."""

    @property
    def queue_share(self) -> float:
        """Return the share of the gate's queue that is left for samples."""

    def plan(self, estimate_ns: int, count: int, queued: int) -> None:
        """Draw the samples that are read, of `count` by the host's clock of this duration.
        `queued`: number of samples by the device's clock."""

    def before(self) -> None:
        """Prepare for a sample, before the caches are brought into their state."""

    def touch(self) -> None:
        """Change inputs right before the sample."""

    def after(self, index: int | None) -> bool:
        """Look at what a sample left; return True if it was read, which disturbs the caches.
        `index`: its number in the series; None: it does not count."""

    def drain(self) -> None:
        """Read the findings of the device, which is idle."""

    def before_block(self) -> None:
        """Prepare for a block of samples that are enqueued together."""

    def before_queued(self) -> None:
        """Enqueue what comes before one of them."""

    def after_queued(self) -> None:
        """Enqueue what comes after one of them."""

    def after_block(self) -> None:
        """Read what the last one left; the device is idle."""

    def moved(self) -> None:
        """Note that the buffers moved; the caches are restored afterwards."""


class NoChecks:
    """Checks of passes whose outputs are not used."""

    queue_share = 1.0

    def plan(self, estimate_ns: int, count: int, queued: int) -> None:  # noqa: ARG002
        return None

    def before(self) -> None:
        return None

    def after(self, index: int | None) -> bool:  # noqa: ARG002
        return False

    touch = drain = before_block = before_queued = after_queued = after_block = moved = before


@dataclass(frozen=True)
class Read:
    """Outputs of a sample that were read."""

    slot: int
    iteration: int
    """Number of the sample; -1 for the last one of a block by the device's clock."""
    changes: tuple[tuple[int, ...], ...]
    """Numbers of the changes of each of its inputs, in order."""


class SampleChecks:
    """Checks of one plan's samples."""

    def __init__(
        self,
        plan: Plan,
        stream: Stream,
        inputs: OwnInputs,
        canaries: Canaries,
        reader: OutputReader,
        slots: range,
        secret: str,
        executions: int = 1,
    ) -> None:
        """`slots`: numbers of those for outputs of samples; none if nothing is going to be
        compared."""
        self._plan, self._stream, self.inputs, self.canaries = plan, stream, inputs, canaries
        self._reader, self._slots, self._executions = reader, slots, executions
        self._draw = Random(f"{secret} samples")  # noqa: S311 - repeatable
        self._lots = SystemRandom()
        """Draws samples once they are over: nothing that lies in memory before tells which."""
        self._count = self._blocks = 0
        self._estimate_ns = 1
        self._last: int | None = None
        """Number of the last sample."""
        self._reads: dict[int, Read] = {}
        """Reads by slot."""
        self._expected: Places = {}
        self._on_host = stream.clock == "host"
        self._beside = False
        self._share = WATCHED_SHARE
        self._pause_ns = 0
        self.spent_ns = 0
        """Time of reading."""

    @property
    def reads(self) -> list[Read]:
        return sorted(self._reads.values(), key=lambda each: each.iteration)

    @property
    def queue_share(self) -> float:
        return 0.28 if self._beside else 0.4

    def begin(self) -> None:
        """Change a part of all inputs: none of the samples runs on the usual ones."""
        self.inputs.change_much()
        self.inputs.read_by(self._executions)  # finds the copies that take turns

    def plan(self, estimate_ns: int, count: int, queued: int) -> None:
        self._estimate_ns, self._beside = max(1, estimate_ns), estimate_ns < LONG_NS
        self._share = min(WATCHED_SHARE, WATCHED / max(1, queued))
        self._count = count

    @property
    def _own(self) -> range:
        """Slots of samples by the host's clock."""
        return self._slots if self._on_host else self._slots[:-1]

    def before(self) -> None:
        if self._on_host:
            self.inputs.find()
            self._expected = self._reader.places()
            self.canaries.write(self._expected)
        elif self._beside:
            self._plan.run()  # the host's caches hold what a launch takes

    def touch(self) -> None:
        if self._on_host:
            self.inputs.change()
            return
        # As little as can be: a launch right after it is to find the host's caches warm.
        if self._last is None or self.inputs.take_turns:
            self.inputs.find()
        self.inputs.change()
        self._stream.synchronize()

    def after(self, index: int | None) -> bool:
        self._last = index
        slot = None if index is None else self._slot_of(index)
        if slot is not None and index is not None:
            self._read(slot, index, self._expected)
            return True
        if self._on_host:
            self.canaries.look()
        return False

    def _read(self, slot: int, index: int, expected: Places, executions: int | None = None) -> None:
        """Read the outputs of the last run, which were `expected` there. Its inputs change before:
        what an engine has left for later works on other ones."""
        begin = time.perf_counter_ns()
        changes = self.inputs.read_by(executions or self._executions)
        self.inputs.change()
        is_taken = self._reader.take_at_once(slot, expected)
        if self._on_host:
            self.canaries.look()
        if not is_taken or self._reader.has_moved(expected):
            self._reader.take(slot)
        self._reads[slot] = Read(slot, index, changes)
        self.spent_ns += time.perf_counter_ns() - begin

    def _slot_of(self, index: int) -> int | None:
        """Return the slot for the outputs of a sample that is over; None if it is not read. Each
        has the same chance (Knuth, "Seminumerical Algorithms", 3.4.2, algorithm S), and so has one
        beyond those that were planned (algorithm R)."""
        own = self._own
        if not own or not self._reader.room:
            return None
        free = [slot for slot in own if slot not in self._reads]
        if index < self._count:
            return free[0] if self._lots.randrange(self._count - index) < len(free) else None
        place = self._lots.randrange(index + 1)
        return own[place] if place < len(own) else None

    def read_last(self, slot: int) -> None:
        """Read the outputs of the last execution, which was not a sample, unless copies of the
        buffers take turns on a device: there another one ran last."""
        if (self._on_host or not self.inputs.take_turns) and self._reader.room:
            self._read(slot, -1, {}, 1)

    def drain(self) -> None:
        """Read the last sample of all if none was drawn: time was up before."""
        self.canaries.drain()
        if self._own and not self._reads and self._last is not None:
            self._read(self._own[0], self._last, {})

    def before_block(self) -> None:
        if not self.inputs.can_queue:
            self.inputs.find()
            self.inputs.change()
        self._stream.synchronize()  # a gate closes on an idle stream

    def before_queued(self) -> None:
        if not self._beside:
            self._change()
        elif self._draw.random() < self._share:
            begin = time.perf_counter_ns()
            self._change()
            self._pause_ns = time.perf_counter_ns() - begin
            self._plan.run()
            self.canaries.look()
            self._stream.mark()
            self._plan.run()
            self._stream.mark()
        else:
            end = time.perf_counter_ns() + self._pause_ns
            while time.perf_counter_ns() < end:
                pass

    def _change(self) -> None:
        if self.inputs.can_queue:
            self.inputs.find()
            self.inputs.change()
        self.canaries.write(None)

    def after_queued(self) -> None:
        if not self._beside:
            self.canaries.look()

    def after_block(self) -> None:
        """Read the last sample of one block, each with the same chance; not where copies of the
        buffers take turns: there another one ran last."""
        self.canaries.drain()
        self._blocks += 1
        is_due = self._lots.randrange(self._blocks) == 0
        if not is_due or not self._slots or self.inputs.take_turns:
            return
        if self._reader.room or self._slots[-1] in self._reads:
            self._read(self._slots[-1], -1, {})
            for _ in range(min(MOST_RUNS, RECOVERY_NS // self._estimate_ns)):
                self._plan.run()
            self._stream.synchronize()

    def moved(self) -> None:
        self._last = None
        self.inputs.moved()
        self.inputs.change_much()
