"""Graphs whose candidates are built at the same time, each by workers of its own.

Building takes most of what comes before the rounds, and nearly all of it is work of the host. So on
an accelerator the candidates of a few graphs are built side by side; then these graphs race, one
after the other, while nobody builds: what is timed has the device to itself.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from bench_run.errors import BenchRunError
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.runner.parallel.sharing import likely_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_run.options import Options
    from bench_run.plan.engines import PlannedEngine
    from bench_run.worker.parent.pool import WorkerPool

MOST = 4
"""Graphs at a time; more would wait for the device's memory and for each other."""

PlaceT = TypeVar("PlaceT")
GivenT = TypeVar("GivenT")
MadeT = TypeVar("MadeT")


def side_by_side(options: Options, devices: Sequence[str], engines: int, graphs: int) -> int:
    """How many graphs are built at a time. On a processor nothing happens beside anything."""
    if "cpu" in devices or not devices:
        return 1
    return max(1, min(MOST, graphs, likely_lanes(options, max(1, engines))))


class Bench(Generic[PlaceT]):
    """Builds and races one graph at a time. It has a thread of its own: a worker ends with the
    thread that started it."""

    def __init__(self, pool: WorkerPool, furnish: Callable[[WorkerPool], PlaceT]) -> None:
        self.time = TimeBreakdown()
        self.pool = pool.beside(self.time)
        self.place = furnish(self.pool)
        self.thread = ThreadPoolExecutor(1)


Job: TypeAlias = "tuple[Bench[PlaceT], Callable[..., MadeT], tuple[object, ...]]"


class Benches(Generic[PlaceT]):
    """`count` of them; `furnish` makes what each works with out of its pool."""

    def __init__(
        self, pool: WorkerPool, count: int, furnish: Callable[[WorkerPool], PlaceT]
    ) -> None:
        self._pool = pool
        self._benches = [Bench(pool, furnish) for _ in range(count)]
        self._running: set[Future[Any]] = set()

    def open(self, engines: Sequence[PlannedEngine]) -> None:
        """Open the engines on all benches at the same time; the first one takes over what is open
        already. What cannot be opened is met again when it is asked for a graph."""

        def open_all(pool: WorkerPool) -> None:
            for engine in engines:
                with suppress(BenchRunError):
                    pool.facts(engine)

        for engine in engines:
            self._pool.hand_over(engine, self._benches[0].pool)
        self._all([(bench, open_all, (bench.pool,)) for bench in self._benches[1:]])

    def at_once(
        self, work: Callable[[PlaceT, GivenT], MadeT], given: Sequence[GivenT]
    ) -> list[MadeT]:
        """What becomes of each of these, at most one a bench."""
        return self._all(
            [(b, work, (b.place, g)) for b, g in zip(self._benches, given, strict=False)]
        )

    def in_turn(
        self, work: Callable[[PlaceT, GivenT], MadeT], given: Sequence[GivenT]
    ) -> Iterator[MadeT]:
        """The same, one after the other, each on the bench that `at_once` gave it to."""
        for bench, each in zip(self._benches, given, strict=False):
            yield from self._all([(bench, work, (bench.place, each))])

    def _all(self, jobs: Sequence[Job[PlaceT, MadeT]]) -> list[MadeT]:
        futures = [bench.thread.submit(work, *given) for bench, work, given in jobs]
        self._running = set(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """Their workers end."""
        self._all([(bench, bench.pool.close, ()) for bench in self._benches])
        self._end()

    def stop(self) -> None:
        """End everything at once, whatever it does."""
        left = self._running
        while left:
            for bench in self._benches:
                bench.pool.kill()
            left = wait(left, timeout=0.1).not_done  # one may have been starting its worker
        for bench in self._benches:
            bench.pool.kill()
        self._end()

    def _end(self) -> None:
        for bench in self._benches:
            bench.thread.shutdown()
        self._pool.breakdown.add_workers([bench.time for bench in self._benches])
