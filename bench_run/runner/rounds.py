"""A whole run: cases in reshuffled rounds, engines interleaved, every run of a case journalled.

Rounds are the independent unit of the statistics, so the iterations of a case are split over
rounds, each with fresh workers and a new order. Engines take turns on each graph (A B, then B A),
so that drift hits all of them alike.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
from bench_schema.document import Case, Outcome

from bench_run.graph.dtypes import DTYPES
from bench_run.measure.loop import REST_S, SamplingBudget
from bench_run.runner.case_state import CaseState
from bench_run.runner.references import ReferenceStore
from bench_run.runner.stopping import until_decided, until_precise
from bench_run.worker.case_record import case_of
from bench_run.worker.messages import RunCase
from bench_run.worker.process import GATE_PHASE

if TYPE_CHECKING:
    from bench_run.graph.model import Graph
    from bench_run.measure.time_breakdown import TimeBreakdown
    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase, PlannedEngine
    from bench_run.progress import Progress
    from bench_run.runner.decisions import Referee
    from bench_run.tensors.data import Data
    from bench_run.worker.pool import WorkerPool


HUNG = "the engine hung behind the closed gate"

Save = Callable[[Case], None]


class Rounds:
    """Runs the cases of one run; `save` is called with the partial case that each round leaves."""

    def __init__(
        self,
        options: Options,
        cases: Sequence[PlannedCase],
        save: Save,
        progress: Progress,
        pool: WorkerPool,
        breakdown: TimeBreakdown,
        referee: Referee | None = None,
    ) -> None:
        self._options = options
        self._referee = referee
        self._save = save
        self._progress = progress
        self.states = {case.id: CaseState(case) for case in cases}
        engines = {case.engine.key: case.engine for case in cases}
        self._references = ReferenceStore(options, engines, breakdown)
        self.pool = pool

    def resume(self, done: Sequence[Case]) -> None:
        """Count what an earlier run measured; nothing of it is measured again."""
        for case in done:
            if case.id in self.states:
                self.states[case.id].take(case)

    def completed(self) -> list[PlannedCase]:
        """The cases that nothing ended, in order."""
        return [state.case for state in self.open_states()]

    def data(self, case: PlannedCase) -> Data:
        """Where the case's inputs come from."""
        return self._references.data(case.graph)

    def run(self) -> None:
        """All rounds; then more where a rule adds some."""
        try:
            self.measure(self._options.rounds, self.completed())
            if self._options.precision_ratio is not None:
                until_precise(self, self._options)
            if self._referee is not None:
                until_decided(self, self._options, self._referee, self._progress)
        finally:
            self.pool.kill()
            self._references.close()

    def open_states(self) -> Iterator[CaseState]:
        """The cases that nothing ended, in order."""
        return (state for state in self.states.values() if state.ended is None)

    def measure(self, count: int, cases: Sequence[PlannedCase]) -> None:
        """The first `count` rounds of these cases, as far as they are not measured and nothing
        ended them; then those that were void since."""
        for again in (False, True):
            for index in range(count):
                states = (self.states[case.id] for case in cases)
                due = [s.case for s in states if s.ended is None and index not in s.indices]
                if again or index >= self._options.rounds:
                    self._progress.more(len(due))
                self._round(index, due)

    def note_end(self, states: Sequence[CaseState], rule: str) -> None:
        """Put on record which rule ended the sampling of these cases."""
        for state in states:
            assert state.last is not None
            bare = replace(state.last, init={}, rounds=(), summary={}, validation=None)
            self._save(replace(bare, memory=None, stopped_by=rule))

    def _round(self, index: int, cases: Sequence[PlannedCase]) -> None:
        if not cases:
            return
        self._progress.round(index, max(self._options.rounds, index + 1), len(cases))
        order = shuffle_cases(cases, self._options.seed, index)
        self._references.announce(
            (case.graph, case.engine.reference)
            for case in order
            if lack_of_memory(case.graph.loaded.graph) is None
        )
        for position, case in enumerate(order):
            self._progress.start_case(case.graph.id.name, case.engine.key)
            if self.states[case.id].ended is None:
                result = self._run_case(case, index, position)
                self.states[case.id].take(result)
                self._save(result)
            self._progress.finish_case()
        self.pool.close()

    def _run_case(self, case: PlannedCase, index: int, position: int) -> Case:
        problem = lack_of_memory(case.graph.loaded.graph)
        reference = case.engine.reference if problem is None else "none"
        request = self._request(case, index, position, reference)
        if problem is not None:
            return case_of(request, Outcome("skipped", problem, "plan"))
        result = self.pool.run_case(case.engine, request)
        if (result.outcome.status, result.outcome.phase) != ("timed out", GATE_PHASE):
            return result
        return self.pool.run_case(case.engine, replace(request, no_gate=HUNG))

    def _request(self, case: PlannedCase, index: int, position: int, reference: str) -> RunCase:
        graph = case.graph
        return RunCase(
            case_id=case.id,
            graph=graph.loaded.graph,
            graph_id=graph.id,
            engine=case.engine.key,
            variant=case.variant,
            work=graph.work,
            round_index=index,
            position=position,
            load_ns=graph.loaded.load_ns,
            data=self._references.data(graph),
            validation_settings=self._references.validation_settings(graph, reference),
            budget=budget(self._options, index),
            notes=graph.loaded.notes,
            energy=self._options.energy,
            no_gate=self.states[case.id].no_gate,
        )


def shuffle_cases(cases: Sequence[PlannedCase], seed: int, index: int) -> list[PlannedCase]:
    """Graphs in an order drawn from (seed, round); the engines of a graph side by side, their
    order turned round by round."""
    groups: dict[str, list[PlannedCase]] = defaultdict(list)
    for case in cases:
        groups[case.graph.id.path].append(case)
    keys = sorted(groups)
    random.Random(f"{seed}:{index}").shuffle(keys)  # noqa: S311 - an order, not a secret
    turn = -1 if index % 2 else 1
    return [case for key in keys for case in groups[key][::turn]]


def budget(options: Options, index: int) -> SamplingBudget:
    """This round's share of the iterations and of the time."""
    rounds = options.rounds
    share, rest = divmod(options.iterations, rounds)
    minimum, maximum = options.min_time_s, options.max_time_s
    return SamplingBudget(
        warmup=options.warmup,
        iterations=share + (1 if index < rest else 0),
        min_time_ns=0 if minimum is None else round(minimum / rounds * 1e9),
        max_time_ns=None if maximum is None else round(maximum / rounds * 1e9),
        executions=options.executions,
        rest_s=REST_S if options.duty == "cool" else 0.0,
    )


def lack_of_memory(graph: Graph) -> str | None:
    """Why the graph does not fit into this host: its tensors once, and float64 outputs beside."""
    tensors = sum(t.span * DTYPES[t.data_type].bits // 8 for t in graph.tensors)
    needed = tensors + 8 * sum(t.elements for t in graph.outputs)
    available = psutil.virtual_memory().available
    if needed <= available:
        return None
    return (
        f"the tensors need about {needed / 2**30:.1f} GiB of host memory, "
        f"{available / 2**30:.1f} GiB are available"
    )


def engines_of(cases: Sequence[PlannedCase]) -> tuple[PlannedEngine, ...]:
    return tuple({case.engine.key: case.engine for case in cases}.values())
