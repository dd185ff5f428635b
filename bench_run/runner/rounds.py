"""A whole run: cases in reshuffled rounds, engines interleaved, every run of a case journalled.
On a GPU several rounds are prepared side by side (`lanes.py`); one case is measured at a time.

Rounds are the independent unit of the statistics, so the iterations of a case are split over
rounds, each with fresh workers and a new order. Engines take turns on each graph (A B, then B A),
so that drift hits all of them alike.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from bench_schema.document import Case, Outcome, Surroundings
from msgspec.structs import replace as but

from bench_run.measure.budget import SamplingBudget
from bench_run.measure.loop import REST_S
from bench_run.runner.bundles import enforced, too_small
from bench_run.runner.memory import MemoryBytes, case_need, free_memory, lack_of_memory
from bench_run.runner.outside import OutsideClock
from bench_run.runner.parallel.gate import CaseRun
from bench_run.runner.parallel.lanes import Lanes, turn_of
from bench_run.runner.parallel.sharing import ALONE, Sharing, room_here
from bench_run.runner.rules import End
from bench_run.runner.states import CaseState
from bench_run.worker.messages import READ, SAMPLES, AskBurst, AskRead, RunCase, case_of
from bench_run.worker.parent.process import GATE_PHASE

if TYPE_CHECKING:
    from bench_run.options import Sampling
    from bench_run.plan.cases import PlannedCase
    from bench_run.plan.engines import PlannedEngine
    from bench_run.progress import Progress
    from bench_run.runner.forecast import Forecast
    from bench_run.runner.parallel.gate import CaseTurn, DeviceGate
    from bench_run.runner.references import ReferenceStore
    from bench_run.runner.rules import Rule, Step
    from bench_run.streams.base import Shared
    from bench_run.tensors.data import Data
    from bench_run.validate.settings import ValidationSettings
    from bench_run.worker.parent.pool import WorkerPool


def request_of(
    case: PlannedCase,
    references: ReferenceStore,
    validation_settings: ValidationSettings,
    budget: SamplingBudget,
    place: tuple[int, int] = (0, 0),
) -> RunCase:
    """Return the request of a case. `references` give the source of inputs; `place`: the round, and
    the position in it."""
    graph = case.graph
    return RunCase(
        case_id=case.id,
        graph=graph.loaded.graph,
        graph_id=graph.id,
        engine=case.engine.key,
        variant=case.variant,
        work=graph.work,
        round_index=place[0],
        position=place[1],
        load_ns=graph.loaded.load_ns,
        data=references.data(graph),
        validation_settings=validation_settings,
        budget=budget,
        notes=graph.loaded.notes,
        surroundings=graph.loaded.surroundings,
        is_pass=graph.loaded.is_pass,
    )


SECRET_BYTES = 16
UNREAD = "--strict: outputs were copied by the engine's process: the device does not share memory"
HUNG = "the engine hung behind the closed gate"

Save = Callable[[Case], None]


class Rounds:
    """Runs the cases of one run; `save` is called with the partial case that each round leaves."""

    def __init__(
        self,
        sampling: Sampling,
        cases: Sequence[PlannedCase],
        rule: Rule,
        save: Save,
        progress: Progress,
        pool: WorkerPool,
        references: ReferenceStore,
        gate: DeviceGate,
        sharing: Sharing = ALONE,
        forecast: Forecast | None = None,
    ) -> None:
        """`rule` says which cases are measured next. `sharing`: the devices on which rounds are
        prepared at the same time. `references` are closed when the rounds are over. `forecast`
        estimates how long the rounds take."""
        self._sampling, self._rule, self._forecast = sampling, rule, forecast
        self.save, self._progress = save, progress
        self.say = progress.say
        self.states = {case.id: CaseState(case) for case in cases}
        self._gate, self._references, devices = gate, references, sharing.devices
        if gate.problem is not None:
            progress.say(f"note: {gate.problem}: other runs on the device are not kept away")
        self._shares = bool(devices)
        self._side_by_side = False
        self._free: dict[str, MemoryBytes] = {}
        """Free memory by device when lanes began that run at the same time."""
        self.pool = pool
        self._lanes = Lanes(sharing.lanes, pool, self._gate, room_here(devices), self._run_case)

    def resume(self, done: Sequence[Case]) -> None:
        """Count what an earlier run measured; nothing of it is measured again."""
        for case in done:
            if case.id in self.states:
                self.states[case.id].take(case)

    def open_states(self) -> Iterator[CaseState]:
        """Yield the cases that nothing ended, in order."""
        return (state for state in self.states.values() if state.ended is None)

    def completed(self) -> list[PlannedCase]:
        """Return the cases that nothing ended, in order."""
        return [state.case for state in self.open_states()]

    def data(self, case: PlannedCase) -> Data:
        """Return the source of the case's inputs."""
        return self._references.data(case.graph)

    def run(self) -> None:
        """Make the moves of the rule, to its end."""
        try:
            forecast = self._forecast
            if forecast is not None:
                forecast.begin(len(self.completed()))
            for move in self._rule(self):
                if isinstance(move, End):
                    for state in move.states:
                        self.save(replace(state.bare(), stopped_by=move.rule))
                    continue
                self._measure(move)
                if forecast is not None:
                    forecast.remember()
                    forecast = None
            if self._shares and self._lanes.are_side_by_side(self._sampling.rounds):
                self.say(f"{self._gate.name}: {self._gate.time.listed()}")
        finally:
            self._references.stop()
            self._lanes.stop()
            self.pool.breakdown.add_workers([*self._lanes.times, *self._references.times])
            self.pool.kill()
            self._references.close()

    def _measure(self, step: Step) -> None:
        """Measure rounds that are not there already, of cases that did not end; then the rounds
        that became void."""
        for _ in range(2):
            due = {
                index: [s.case for s in step.due if s.ended is None and index not in s.measured]
                for index in range(step.rounds)
            }
            self._progress.more(sum(map(len, due.values())))
            self._rounds_at_once(due)

    def _rounds_at_once(self, due: Mapping[int, Sequence[PlannedCase]]) -> None:
        rounds = []
        for index, cases in due.items():
            if cases:
                order = enumerate(shuffle_cases(cases, self._sampling.seed, index))
                rounds.append([CaseRun(case, index, position) for position, case in order])
        self._side_by_side = self._lanes.are_side_by_side(len(rounds))
        if not self._side_by_side:
            for done, case_runs in enumerate(rounds):
                self.pool.ahead.rounds = len(rounds) - done
                self._batch([case_runs])
            return
        with self.pool.breakdown.on("rounds side by side"):
            self._batch(rounds)

    def _batch(self, rounds: Sequence[Sequence[CaseRun]]) -> None:
        """Run rounds at the same time."""
        begin, self._free = time.monotonic(), {}
        for case_runs in rounds:
            index = case_runs[0].index
            self._progress.round(index, self._sampling.rounds, len(case_runs))
        self._references.announce(
            (case_run.case.graph, case_run.case.engine.reference)
            for case_run in sorted(
                chain.from_iterable(rounds), key=lambda case_run: case_run.position
            )
            if self.states[case_run.case.id].ended is None
            and self._lack_of_memory(case_run.case) is None
        )
        if self._side_by_side:
            # Lanes take memory while others ask what is free: `Room` lets in what fits.
            engines = engines_of([case_run.case for case_run in chain.from_iterable(rounds)])
            devices = {self.pool.facts(engine).device for engine in engines}
            self._free = {device: free_memory(device) for device in devices}
            self._references.compute_ahead()
        for _, result in self._lanes.results(rounds):
            if result is not None:
                self.states[result.id].take(result)
                self.save(result)
            self._progress.finish_case()
            left = None if self._forecast is None else self._forecast.left(self.pool.breakdown)
            if left is not None:
                self._progress.say(left)
        if self._forecast is not None:
            self._forecast.end_batch(len(rounds), time.monotonic() - begin)

    def _lack_of_memory(self, case: PlannedCase) -> str | None:
        """Return the reason why the case cannot run here; None if it can."""
        device = self.pool.facts(case.engine).device
        checked = case.engine.reference != "none"
        need = case_need(case.graph.loaded.graph, case.engine, device, checked=checked)
        found = lack_of_memory(need, self._free.get(device) or free_memory(device))
        if found is not None and self.pool.ahead.kill():
            found = lack_of_memory(need, free_memory(device))
        return found or too_small(case.graph.loaded.bundle, device)

    def _run_case(self, case_run: CaseRun, pool: WorkerPool, turn: CaseTurn) -> Case | None:
        """Run the case in this round. Thread-safe."""
        begin = time.monotonic()
        result = self._run_case_now(case_run, pool, turn)
        if self._forecast is not None:
            self._forecast.took(case_run.case, time.monotonic() - begin)
        return result

    def _run_case_now(self, case_run: CaseRun, pool: WorkerPool, turn: CaseTurn) -> Case | None:
        case = case_run.case
        if self.states[case.id].ended is not None:
            return None
        self._progress.start_case(case.graph.id.name, case.engine.key)
        problem = self._lack_of_memory(case)
        reference = case.engine.reference if problem is None else "none"
        # On a device references are computed while rounds are prepared; on a processor before.
        store, math = self._references, case.engine.options.math
        settings_now = store.early_settings if self._side_by_side else store.validation_settings
        request = but(
            request_of(
                case,
                store,
                settings_now(case.graph, reference, math),
                budget(self._sampling, case_run.index),
                (case_run.index, case_run.position),
            ),
            energy=self._sampling.energy,
            observers=self._sampling.observer,
            no_gate=self.states[case.id].no_gate,
            shares_device=self._shares or turn.sides > 1,
            settle=self._sampling.settle,
            placements=self._sampling.placements,
            in_blocks=turn.sides > 1 and self._sampling.interleave == "blocks",
            secret=os.urandom(SECRET_BYTES).hex(),
        )
        is_alone = request.surroundings is None and not request.is_pass
        is_outside = is_alone and (case.engine.is_foreign or store.is_strict)
        request = but(request, outside=is_outside)
        if problem is not None:
            return case_of(request, Outcome("skipped", problem, "plan"))
        with closing(store.outputs_file()) as outputs:
            request = with_outputs(request, outputs.path)
            request = but(request, strict=store.is_strict)
            device = self.pool.facts(case.engine).device
            clock, reader = OutsideClock(), Reader(partial(store.read_device, request, device))
            turn.answers |= {AskBurst: clock.answer, AskRead: reader.answer}
            result = pool.run_case(case.engine, request, turn)
            if (result.outcome.status, result.outcome.phase) == ("timed out", GATE_PHASE):
                clock = OutsideClock()
                turn.answers[AskBurst] = clock.answer
                result = pool.run_case(case.engine, but(request, no_gate=HUNG), turn)
            if request.outside:
                result = timed_outside(result, clock)
            result = enforced(result, case, device)
            if store.is_strict and device != "cpu" and not reader.was_asked:
                store.notes[UNREAD] = None
            settings = partial(store.validation_settings, case.graph, reference, math)
            result = store.judge(result, request, settings)
        return with_companions(result, self._sampling.companions)


@dataclass
class Reader:
    """Lets another process read outputs from the device."""

    read: Callable[[Shared], bool]
    was_asked: bool = False

    def answer(self, _: int, question: AskRead) -> bool:
        self.was_asked = True
        return self.read(question.shared)


def with_outputs(request: RunCase, path: str) -> RunCase:
    """Return the request with memory for its outputs: of samples too, if they are going to be
    compared. Its worker does not learn where the expected outputs lie."""
    settings = request.validation_settings
    hidden = replace(settings, expected=None, sums={}, pending=settings.wanted)
    slots = SAMPLES + (READ + request.outside) * settings.wanted
    return but(request, validation_settings=hidden, outputs_file=path, slots=slots)


def timed_outside(case: Case, clock: OutsideClock) -> Case:
    """Return the case of a round with what the clock of this process says of its samples."""
    if not case.rounds:
        return case
    (measured,) = case.rounds
    note = clock.note(measured)
    notes = case.notes if note is None else (*case.notes, note)
    return replace(
        case,
        rounds=(replace(measured, outside_ns=clock.time_ns),),
        notes=notes,
        implausible=case.implausible or clock.contradiction(measured),
    )


def shuffle_cases(cases: Sequence[PlannedCase], seed: int, index: int) -> list[PlannedCase]:
    """Return the cases, graph by graph in an order drawn from (seed, round); the engines of a graph
    are side by side, their order reversed in every second round."""
    groups: dict[str, list[PlannedCase]] = defaultdict(list)
    for case in cases:
        groups[turn_of(case)].append(case)
    keys = sorted(groups)
    random.Random(f"{seed}:{index}").shuffle(keys)  # noqa: S311 - an order, not a secret
    turn = -1 if index % 2 else 1
    return [case for key in keys for case in groups[key][::turn]]


def with_companions(case: Case, companions: tuple[str, ...]) -> Case:
    """Return the case whose rounds name the devices on which other shards measured at the same
    time."""
    if not companions:
        return case
    rounds = (
        replace(r, surroundings=replace(r.surroundings or Surroundings(), companions=companions))
        for r in case.rounds
    )
    return replace(case, rounds=tuple(rounds))


SHARE_OF_TIMEOUT = 0.25
"""Share of the timeout that a pass of samples takes at most."""


def budget(sampling: Sampling, index: int) -> SamplingBudget:
    """Return this round's share of the iterations and of the time."""
    rounds = sampling.rounds
    share, rest = divmod(sampling.iterations or 0, rounds)
    minimum, maximum = sampling.min_time_s, sampling.max_time_s
    # Two passes and the warm-up have to end before --timeout does.
    longest_s = sampling.timeout_s * SHARE_OF_TIMEOUT
    pass_s = min(longest_s, math.inf if maximum is None else maximum / rounds)
    return SamplingBudget(
        warmup=sampling.warmup,
        iterations=share + (1 if index < rest else 0),
        min_time_ns=0 if minimum is None else round(minimum / rounds * 1e9),
        max_time_ns=round(pass_s * 1e9),
        longest_ns=round(longest_s * 1e9),
        executions=sampling.executions,
        rest_s=REST_S if sampling.duty == "cool" else 0.0,
        by_time=sampling.iterations is None,
    )


def engines_of(cases: Sequence[PlannedCase]) -> tuple[PlannedEngine, ...]:
    return tuple({case.engine.key: case.engine for case in cases}.values())
