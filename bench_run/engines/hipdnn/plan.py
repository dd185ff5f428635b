"""A plan: hipDNN's graph with its plans built, workspace and buffers."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.abilities import field
from bench_run.engines.hipdnn.errors import check, failure, is_good
from bench_run.errors import BenchRunError
from bench_run.text import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_run.engines.base import Home, PlanFacts
    from bench_run.engines.hipdnn.buffers import Buffers
    from bench_run.engines.hipdnn.loading import Library
    from bench_run.streams.hip import HipStream
    from bench_run.tensors.storage import Storage, Storages

STEP = "Graph.execute"
WITNESS, WITNESSED = "Graph.execute_timed_ext", 5
SAYS = "execute_timed_ext says"


@dataclass(frozen=True)
class Compiled:
    """hipDNN's graph with its plan built, and what it is executed with."""

    library: Library
    native: Any
    handle: Any
    workspace: Any
    """A `DeviceBuffer`; None where the plan needs none."""


class HipdnnPlan:
    """Executes into the first set of buffers; with several (cache state *rotate*) into each in
    turn. Enqueues only: `synchronize` waits."""

    def __init__(
        self,
        compiled: Compiled,
        sets: Sequence[Buffers],
        facts: PlanFacts,
        stream: HipStream,
        *,
        searches: bool = False,
    ) -> None:
        library, native, workspace = compiled.library, compiled.native, compiled.workspace
        self._facts, self._version, self._library = facts, library.version, library
        self._native, self._handle, self._sets = native, compiled.handle, list(sets)
        self._workspace = workspace
        with library.calling("DeviceBuffer.ptr"):
            self._workspace_pointer = 0 if workspace is None else int(workspace.ptr())
        self._stream, self._synchronize = stream, stream.synchronize
        self._execute, self._pack, self._turn = native.execute, sets[0].pack, 0
        self._fast = library.can.has("Error.is_good") and callable(library.module.Error.is_good)
        if len(sets) > 1:
            self.run = self._run_in_turn  # type: ignore[method-assign]
        stream.attach(self.run)
        self.searches = searches
        """The first execution with benchmarking on looks for the fastest algorithm."""

    @property
    def facts(self) -> PlanFacts:
        """How it is timed shows only when it was tried."""
        return replace(self._facts, chosen={**self._facts.chosen, "timing": self._stream.timing})

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """For plans of one set of buffers, as parts of a chain are."""
        done = set()
        for uid, home in homes.items():
            assert isinstance(home.plan, HipdnnPlan)
            if self._sets[0].borrow(uid, home.plan._sets[0], home.uid, home.offset):
                done.add(uid)
        return frozenset(done)

    def upload(self, inputs: Storages) -> None:
        for buffers in self._sets:
            buffers.upload(inputs)

    def poison(self) -> None:
        self._synchronize()
        for buffers in self._sets:
            buffers.poison()

    def run(self) -> None:
        try:
            error = self._execute(self._handle, self._pack, self._workspace_pointer)
            if not (error.is_good() if self._fast else is_good(error)):
                check(STEP, error)
        except BenchRunError:
            raise
        except Exception as caught:  # foreign: other releases raise other errors
            raise failure(STEP, caught, self._version) from caught

    def witness(self) -> dict[str, str]:
        """What `execute_timed_ext` says of some executions, by the quality it states: times of
        unlike quality are never mixed. Its clock is hipDNN's: the words stand beside our samples
        and never among them.

        It closes a gate of its own, so a plan that cannot be behind ours is not asked: each
        execution would wait for the watchdog.
        """
        if not self._library.can.has(WITNESS):
            return {}
        if self._stream.gate_left_open:
            return {SAYS: f"not asked: {self._stream.no_gate_because}"}
        with self._library.calling(WITNESS):
            told = list(self._told())
        return {SAYS: "; ".join(told)} if told else {}

    def _told(self) -> Iterator[str]:
        """Words for each quality; executions end with the first whose gate opened by force."""
        times_ns: dict[str, list[float]] = {}
        for _ in range(WITNESSED):
            time_ns, quality, timed_out = self._timed()
            if timed_out:
                yield "a gate opened by force"
                break
            if time_ns is not None:
                times_ns.setdefault(quality, []).append(time_ns)
        for quality, values in sorted(times_ns.items()):
            yield f"{quality}: median {time_text(statistics.median(values))} of {len(values)}"

    def _timed(self) -> tuple[float | None, str, bool]:
        """Nanoseconds where there are any, the quality, and whether the gate opened by force."""
        error, timing = self._native.execute_timed_ext(
            self._handle, self._pack, self._workspace_pointer
        )
        check(WITNESS, error)
        elapsed_ms, quality = field(timing, "elapsed_ms"), field(timing, "quality", "no quality")
        name = str(field(quality, "name", quality)).rpartition(".")[2]
        known = elapsed_ms is not None and name != "INVALID"
        forced = bool(field(timing, "timed_out", False))
        return float(elapsed_ms) * 1e6 if known else None, name, forced

    def _run_in_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._sets)
        self._pack = self._sets[self._turn].pack
        HipdnnPlan.run(self)

    def download(self) -> dict[int, Storage]:
        self._synchronize()
        return self._sets[self._turn].download()

    def close(self) -> None:
        """The graph goes before the handle; what the device still does must end first."""
        self._synchronize()
        self._stream.detach()
        for buffers in self._sets:
            buffers.close()
        self._native = self._execute = self._workspace = None
