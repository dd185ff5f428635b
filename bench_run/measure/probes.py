"""Runs among the samples that are no samples: what an engine can recognise must not slow it down.

Timed iterations all look alike: the same inputs, the right outputs left from the run before, and
the same calls before each. An engine that keeps answers by the contents of its inputs, works only
where somebody changed its outputs, or does its work in `flush`, `synchronize` or `poison` is fast
in these and nowhere else. So a few runs go without these calls, on inputs of which a block was
changed, on overwritten or poisoned outputs. Each is held against runs before which the same places
were written with the bytes that were there: these disturb caches as much.

An engine that cheats is slower every time: the fastest run of a kind is held against the median of
the others, so that a busy machine accuses nobody. What seems slower is measured again, in turns
with runs that differ from it in nothing but these calls: the machine may be another one by then,
and threads that slept wake up late on a busy one.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_run.engines.arrange import MOST_COPIES
from bench_run.engines.reported import Reports
from bench_run.measure.clock import read_clock
from bench_run.measure.contents import Contents, draw_moves
from bench_run.measure.loop import flushes_caches
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from bench_run.engines.base import Plan
    from bench_run.measure.canaries import Canaries
    from bench_run.streams.base import Stream

SLOWER = 1.5
"""So many times the others' median."""
HOST_SLACK_NS = 8_000
DEVICE_SLACK_NS = 30_000
"""What runs after other calls may take longer on the host, and where a device is waited for."""
BARE = 2.0
BARE_SLACK_NS = 30_000
"""The same for a run right after code of ours, against samples."""
HOOK_SAMPLES, HOOK_SLACK_NS = 2.0, 100_000
HOOK_NS_PER_BYTE = 2.0
"""What a call that copies or fills memory may take."""
CONFIRMING = 9
SHORT_NS, LONG_NS = 2_000_000, 20_000_000
CHANGED_SHARE = 0.02
"""Of an input, in a timed run."""
MOST_FILLED_BYTES = 64 * 1024**2
"""More is not poisoned between samples."""
COPIES = {str(count) for count in range(1, MOST_COPIES + 1)}
"""Numbers of copies of its buffers that a plan may report."""
SAME, CHANGED, OVERWRITTEN, POISONED = "same", "changed", "overwritten", "poisoned"
LIKE_SAMPLES = "like samples"
"""As `SAME`, with the calls before it that samples have."""
WORDS = {
    CHANGED: "a run on changed inputs takes {}, one on the same inputs {}",
    OVERWRITTEN: "a run on overwritten outputs takes {}, one on those of the run before {}",
    POISONED: "a run after poison takes {}, one without it before {}",
}


@dataclass
class Probes:
    """Of one plan, in one round. `contents` are None where nothing reaches its inputs."""

    plan: Plan
    stream: Stream
    canaries: Canaries
    contents: Contents | None
    draw: Random
    _filled_bytes: int = 0
    """By `poison`."""
    _copied_bytes: int = 0
    """By `upload`."""
    _taken: dict[str, list[int]] = field(default_factory=dict)
    _hooks: dict[str, list[int]] = field(default_factory=dict)
    _due: set[int] = field(default_factory=set)
    _cycles: int = 0

    def expect(
        self, iterations: int, first_run_ns: int, output_bytes: int, input_bytes: int
    ) -> None:
        """So many iterations are timed, none of which takes much longer than the first run."""
        # The field itself is reported with the case; here it only widens what hooks may take.
        word = Reports("plan").plan_facts(lambda: self.plan.facts).chosen.get("buffer copies", "")
        copies = int(word) if word in COPIES else 1
        self._filled_bytes, self._copied_bytes = copies * output_bytes, copies * input_bytes
        long = 1 if first_run_ns > LONG_NS else 3
        self._cycles = 6 if first_run_ns < SHORT_NS else long
        among = range(iterations - 1)  # what the last one leaves is read
        self._due = set(self.draw.sample(among, min(len(among), self._cycles - self._cycles // 3)))

    def after_sample(self, iteration: int) -> bool:
        """Whether runs of ours followed it."""
        if iteration not in self._due:
            return False
        self._due.discard(iteration)
        self._cycle()
        return True

    def _cycle(self) -> None:
        """One run of each kind, in any order."""
        self._cycles -= 1
        self._time_hooks()
        kinds = list(self._kinds())
        for kind in self.draw.sample(kinds, len(kinds)):
            self._take(kind, self._taken)

    def _kinds(self) -> tuple[str, ...]:
        inputs = () if self.contents is None else (CHANGED,)
        outputs = (OVERWRITTEN,) if self.canaries.watching else ()
        filled = (POISONED,) if self._filled_bytes <= MOST_FILLED_BYTES else ()
        return (SAME, *inputs, *outputs, *filled)

    def _take(self, kind: str, taken: dict[str, list[int]]) -> None:
        self.stream.synchronize()
        changes = {CHANGED: self._change, OVERWRITTEN: self.canaries.overwrite}
        changes[POISONED] = self._poison
        changes.get(kind, self._rewrite)()
        if kind == LIKE_SAMPLES:
            self.stream.flush()
            self.stream.synchronize()
        if self.stream.clock != "host":
            self.stream.synchronize()
        begin = read_clock()
        self.plan.run()
        self.stream.synchronize()
        taken.setdefault(kind, []).append(read_clock() - begin)
        if self.contents is not None and kind in (CHANGED, SAME, LIKE_SAMPLES):
            self.contents.restore()
        if kind not in (
            SAME,
            LIKE_SAMPLES,
        ):  # the next one begins with the outputs that belong to the inputs
            self.plan.run()

    def _change(self) -> None:
        assert self.contents is not None
        self.contents.change(draw_moves(self.contents.tensors, CHANGED_SHARE, self.draw))

    def _rewrite(self) -> None:
        if self.contents is None:
            return
        rewrite = self.contents.rewrite
        moves = draw_moves(self.contents.tensors, CHANGED_SHARE, self.draw)
        if self.contents.upload_is_timed:
            self._time("upload", lambda: rewrite(moves))
        else:
            rewrite(moves)

    def _poison(self) -> None:
        self._time("poison", self.plan.poison)

    def _time_hooks(self) -> None:
        """What precedes each sample, where that has nothing to do."""
        if not flushes_caches(self.stream):
            self._time("flush", self.stream.flush)
        self._time("synchronize", lambda: None)
        self.plan.run()  # whatever these left is used up

    def _time(self, name: str, call: Callable[[], None]) -> None:
        """The call, and the wait for what it enqueued."""
        begin = read_clock()
        call()
        self.stream.synchronize()
        self._hooks.setdefault(name, []).append(read_clock() - begin)

    def reason(self, samples: Sequence[int]) -> str | None:
        """Why the samples are not the time of an execution, in one line."""
        if not samples:
            return None
        while self._cycles > 0:
            self._cycle()
        sample_ns = statistics.median(samples)
        if self._found(self._taken, sample_ns) is None:
            return None
        again: dict[str, list[int]] = {}
        self._hooks.clear()
        for _ in range(CONFIRMING):
            self._time_hooks()
            for kind in (*self._kinds(), LIKE_SAMPLES):
                self._take(kind, again)
        return self._found(again, max(sample_ns, statistics.median(again[LIKE_SAMPLES])))

    def _found(self, taken: dict[str, list[int]], sample_ns: float) -> str | None:
        return self._hidden_in_hooks(sample_ns) or self._seems_slower(taken, sample_ns)

    def _seems_slower(self, taken: dict[str, list[int]], sample_ns: float) -> str | None:
        least = {kind: min(values) for kind, values in taken.items()}
        same_ns = statistics.median(taken[SAME])
        is_host = self.stream.clock == "host"
        slack_ns = HOST_SLACK_NS if is_host else DEVICE_SLACK_NS
        # Filling outputs moves them through the caches, and memory may be taken anew.
        more_ns = {POISONED: self._filled_bytes * HOOK_NS_PER_BYTE / 2}
        for kind, words in WORDS.items():
            limit_ns = SLOWER * same_ns + slack_ns + more_ns.get(kind, 0.0)
            if least.get(kind, 0.0) > limit_ns:
                return words.format(time_text(least[kind]), time_text(same_ns))
        if least[SAME] > BARE * sample_ns + BARE_SLACK_NS:
            took = f"a run without flush and synchronize before it takes {time_text(least[SAME])}"
            return f"{took}, timed iterations {time_text(sample_ns)}"
        return None

    def _hidden_in_hooks(self, sample_ns: float) -> str | None:
        """A call beside the samples that takes longer than it has reason to."""
        moved = {"poison": self._filled_bytes, "upload": self._copied_bytes}
        excess_ns = {
            name: min(taken) - HOOK_SLACK_NS - HOOK_NS_PER_BYTE * moved.get(name, 0)
            for name, taken in self._hooks.items()
        }
        if sum(max(0.0, each) for each in excess_ns.values()) <= HOOK_SAMPLES * sample_ns:
            return None
        name = max(excess_ns, key=lambda each: excess_ns[each])
        took = f"{name} takes {time_text(min(self._hooks[name]))}, a sample {time_text(sample_ns)}"
        return f"work is done beside the samples: {took}"
