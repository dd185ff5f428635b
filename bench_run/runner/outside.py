"""The time of an execution by the clock of the run's own process.

A process can make up the times that it reports. So the run requests some iterations of a worker and
then twice as many, and keeps the time of both: the difference is the time of these iterations, with
all that the worker's process did for them. An execution that takes longer than its samples say
contradicts them. Before that is reported it is measured again, and the shortest time counts.

A busy machine makes iterations longer, too. The kernel reports how long the worker's threads waited
for a processor when they were ready to run: that is subtracted. An engine's own wait for such a
thread is subtracted with it, so an execution takes at least the time that is found. This process
may wait as well: of several requests of one length the shortest counts.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from bench_run.machine.surroundings import waited_ns
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from bench_schema.document import Round

    from bench_run.measure.bursts import BurstWork
    from bench_run.worker.messages import AskBurst

WINDOW_NS = 4_000_000
"""Time of the shorter request, if an iteration does not take longer: messages take 0.2 ms."""
PAIRS, PAIRS_NS = 6, 40_000_000
"""Largest number of requests of each length, of which the shortest counts, and their time."""
MOST = 500
"""Largest number of iterations in it: inputs of few elements change in each."""
FEWEST = 2
TRIES = 3
"""Requests of one iteration, of which the shortest counts: one may be held up for milliseconds."""
LAST = 20
"""Largest number of executions before outputs are read: at a number that is the same in each round
an answer that was kept for five changes of the inputs was right in most rounds."""
GROWTH = 16
"""Factor of the numbers of iterations that are tried."""
SAMPLES, SAMPLES_NS = 10, 50_000_000
"""Largest number of samples after each pair of requests, and their time: none of long ones, which
are compared with those of the round."""
ATTEMPTS, MOST_ATTEMPTS = 3, 6
"""Attempts before a contradiction is reported, and all of them where others were not quiet."""
ALONE_SHARE = 0.05
"""Part of all requests' time that threads wait for a processor which they have to themselves."""
SHARE, CALL_NS = 0.8, 1000
"""Samples may be shorter by this factor and by the time of a call."""
LARGEST_SHARE = 1.25
"""Marks of a clock that is not ours may show more than this clock by this factor."""
DRIFT = 4.0
"""Samples of the whole round may be shorter than those right at the attempts by this factor: on two
busy processors a kernel of 4 µs took 13 a second later."""
HELD_NS = 50_000
"""Difference of an execution and its samples that is not evidence where threads waited: iterations
of 5 µs took 15 to 20 there, and samples escaped what others did; those of 900 µs took no longer."""
SPREAD = 2.0
"""Attempts that differ by more than this factor are not evidence."""
QUIET_SHARE = 0.5
"""Part of a request's time that threads may wait for a processor."""
BUSY = "the machine was too busy to tell"
SILENT = "its process did not run the iterations that the clock of the run was to time"


class Took(NamedTuple):
    """Times of one request."""

    ns: int
    """Time by this process's clock, without what threads waited."""
    quiet: bool
    marked_ns: int | None
    wall_ns: int


class OutsideClock:
    """The time of a case's executions in one round. Not thread-safe."""

    def __init__(self) -> None:
        self.slopes_ns: list[float] = []
        """Time of an execution by each attempt."""
        self._claims_ns: list[float] = []
        """Time of an execution as its samples, or its marks, said at each attempt."""
        self._doubt: str | None = None
        self._begun: tuple[int, int] | None = None
        self._steps: Generator[tuple[int, BurstWork], Took, None] | None = None
        self._claimed_ns = 0.0
        self._executions = 1
        self._waited_ns = self._wall_ns = 0

    def answer(self, root: int, asked: AskBurst) -> tuple[int, BurstWork]:
        """Return the next request to a worker, whose last one is over. `root`: id of the process
        above the worker."""
        now = time.perf_counter_ns()
        self._claimed_ns = asked.claimed_ns
        if self._steps is None or self._begun is None:
            self._steps = self._all()
            self._executions, self._doubt = asked.executions, asked.doubt
            found = next(self._steps)
        else:
            began, waited_before = self._begun
            waited = max(0, waited_ns(root) - waited_before)
            wall = max(1, now - began)
            self._waited_ns += waited
            self._wall_ns += wall
            took = Took(max(0, wall - waited), waited <= QUIET_SHARE * wall, asked.marked_ns, wall)
            try:
                found = self._steps.send(took)
            except StopIteration:
                return 0, "nothing"
        waited_before = waited_ns(root)
        self._begun = time.perf_counter_ns(), waited_before
        return found

    def _all(self) -> Generator[tuple[int, BurstWork], Took, None]:
        """Yield all requests; how many executions are the last cannot be foretold."""
        each_ns = yield from self._ask()
        most = between(1, int(WINDOW_NS / max(1.0, each_ns)), LAST)
        yield random.randint(1, most), "executions"  # noqa: S311 - no secret

    def _ask(self) -> Generator[tuple[int, BurstWork], Took, float]:
        """Yield requests until the samples are not contradicted, or all attempts are made. Return
        about how long an iteration takes."""
        count, first = 1, (yield 1, "executions")
        for _ in range(1, TRIES):
            first = min(first, (yield 1, "executions"), key=lambda took: took.ns)
        longer = first
        while longer.ns - first.ns < WINDOW_NS / GROWTH and first.ns < WINDOW_NS and count < MOST:
            count = min(MOST, count * GROWTH)
            longer = yield count, "executions"
        each_ns = float(first.ns)
        if count > 1:
            each_ns = max(1.0, (longer.ns - first.ns) / (count - 1))
            count = between(FEWEST, int(WINDOW_NS / each_ns), MOST)
        has_changes = False
        for _ in range(MOST_ATTEMPTS):
            changes_ns: float | None = 0.0
            if has_changes:
                # Inputs change outside of samples. One time for all attempts would be wrong in each
                # of them alike. The last iterations are executions: their outputs are compared.
                changes_ns, _ = (yield from self._pairs(count, each_ns, "changes")) or (None, 0.0)
            found = yield from self._pairs(count, each_ns)
            if found is None or changes_ns is None or found[0] <= changes_ns:
                continue
            slope, claim = found[0] - changes_ns, found[1]
            fits = self._fits(claim, slope)
            if not fits and self._doubt is None and not has_changes:
                has_changes = True  # marks are around the changes as well
                continue
            self.slopes_ns.append(slope)
            self._claims_ns.append(claim)
            if fits or len(self.slopes_ns) == ATTEMPTS:
                break
        return each_ns

    def _pairs(
        self, count: int, each_ns: float, work: BurstWork = "executions"
    ) -> Generator[tuple[int, BurstWork], Took, tuple[float, float] | None]:
        """Yield requests of `count` iterations of so long, and of twice as many. Return
        the time of an execution, with the change of its inputs, and what to compare it with: the
        samples' time, or that of the marks around the same executions; None if threads waited, or
        twice as many took no longer."""
        short: list[Took] = []
        longer: list[Took] = []
        for _ in range(between(1, int(PAIRS_NS / (count * max(1.0, each_ns))), PAIRS)):
            short.append((yield count, work))
            longer.append((yield 2 * count, work))
            if work == "executions":
                yield between(0, int(SAMPLES_NS / max(1.0, each_ns)), SAMPLES), "samples"
        if self._doubt is not None and longer[0].marked_ns is not None:
            return self._marked(longer, 2 * count)
        quiet = [[took for took in each if took.quiet] for each in (short, longer)]
        if not all(quiet):
            return None
        low, high = (min(each, key=lambda took: took.ns) for each in quiet)
        # So many iterations took no longer than a request of them.
        slope = self._slope(min(high.ns - low.ns, low.ns, high.ns / 2), count)
        return (slope, self._claimed_ns) if slope > 0 else None

    def _marked(self, took: Sequence[Took], count: int) -> tuple[float, float]:
        """Return the time of an execution by this clock and by the marks around it, of the request
        whose two times are most alike."""
        pairs = [(each.wall_ns, max(1, each.marked_ns or 1)) for each in took]
        wall_ns, marked_ns = min(pairs, key=lambda pair: abs(math.log(pair[0] / pair[1])))
        return self._slope(wall_ns, count), self._slope(marked_ns, count)

    def _slope(self, longer_ns: float, count: int) -> float:
        return longer_ns / count / self._executions

    def _fits(self, claim_ns: float, slope_ns: float) -> bool:
        """Return True if executions are not longer than claimed; for marks, neither shorter."""
        is_over = self._doubt is not None and claim_ns * SHARE > LARGEST_SHARE * slope_ns + CALL_NS
        return not is_over and claim_ns >= SHARE * slope_ns - CALL_NS

    @property
    def time_ns(self) -> float | None:
        """Return the time that an execution took at least; None if it was not found."""
        return None if self._doubt is not None or not self.slopes_ns else min(self.slopes_ns)

    def contradiction(self, measured: Round) -> str | None:
        """Return in one line how this clock contradicts the samples of the round; None if it does
        not, or cannot tell."""
        if self._steps is None:
            return SILENT
        found = self._contradicted(measured)
        if found is None or self._is_unclear(*found):
            return None
        slope, claim = found
        whose = "the samples say" if self._doubt is None else "the device's clock shows"
        return (
            f"an execution takes {time_text(slope)} by the clock of the run, "
            f"{whose} {time_text(claim)}"
        )

    def _contradicted(self, measured: Round) -> tuple[float, float] | None:
        """Return the shortest time of an execution, and a time that does not fit it."""
        if not self.slopes_ns:
            return None
        fastest = min(range(len(self.slopes_ns)), key=self.slopes_ns.__getitem__)
        slope, claim = self.slopes_ns[fastest], self._claims_ns[fastest]
        if not self._fits(claim, slope):
            return slope, claim
        samples = measured.series.get("device_ns", measured.series["e2e_ns"])
        earlier = float(statistics.median(samples))
        is_far = self._doubt is None and not self._fits(DRIFT * earlier, slope)
        return (slope, earlier) if is_far else None

    def _is_unclear(self, slope_ns: float, claim_ns: float) -> bool:
        """Return True if the attempts do not show that an execution takes longer than claimed: too
        few of them were left, they differ too much, or something else ran and may be the cause."""
        slopes = self.slopes_ns
        is_few = len(slopes) < ATTEMPTS and not self._fits(self._claims_ns[-1], slopes[-1])
        if is_few or max(slopes) > SPREAD * min(slopes):
            return True
        is_alone = self._waited_ns <= ALONE_SHARE * self._wall_ns
        return not is_alone and abs(slope_ns - claim_ns) < HELD_NS

    def note(self, measured: Round) -> str | None:
        """Return why the samples of the round were not checked by this clock; None if they were."""
        if self._steps is None:
            return None
        found = self._contradicted(measured)
        is_unclear = found is not None and self._is_unclear(*found)
        if not self.slopes_ns or is_unclear:
            return f"{NOT_CHECKED}: {BUSY}"
        if self._doubt is not None:
            return f"{NOT_CHECKED}: {self._doubt}; the device's clock was"
        return None


def between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))


NOT_CHECKED = "samples not checked by the clock of the run"
