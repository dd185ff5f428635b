"""One round of a case: prepare, check, measure, leave the outputs. Runs inside a worker.

The only place where an engine's exceptions become outcomes. A wrong result is still timed.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from bench_schema.document import INIT_PHASES, Case, DeviceTiming, Outcome, Round
from bench_schema.estimate import WarmupCut, warmup_cut

from bench_run.engines.reported import converted
from bench_run.engines.within_pass import whole_pass, within_pass
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.machine.telemetry import highest_clock_mhz
from bench_run.measure import observers
from bench_run.measure.blocks import BlockLoop, Blocks
from bench_run.measure.bursts import run_bursts
from bench_run.measure.canaries import canaries_of
from bench_run.measure.checks import SampleChecks
from bench_run.measure.clock import read_clock
from bench_run.measure.clock_wait import clock_is_back, wait_for_clock
from bench_run.measure.inputs import own_inputs
from bench_run.measure.kernel_pass import (
    KernelTimes,
    Recorded,
    asks_for_records,
    count_launches,
    is_recorded,
    prepare_records,
    record_kernels,
)
from bench_run.measure.loop import Measured, measure
from bench_run.measure.marks import why_ungated
from bench_run.measure.memory import ProcessPeak
from bench_run.measure.observers import base
from bench_run.measure.placements import Placements
from bench_run.measure.prepared import Prepared, Steps, prepare_plan
from bench_run.measure.reading import OutputReader, told_whole
from bench_run.tensors.data import inputs_of
from bench_run.tensors.slots import SharedFile, Slots
from bench_run.tensors.uniform import uniform_notes
from bench_run.text import time_text
from bench_run.worker.left import Left
from bench_run.worker.messages import (
    BURST,
    FIRST,
    LAST,
    SAMPLES,
    AskBlock,
    AskBurst,
    AskRead,
    Claim,
    case_of,
    outcome_of,
)

if TYPE_CHECKING:
    from bench_run.engines.base import Engine
    from bench_run.engines.within_pass import Within
    from bench_run.measure.budget import SamplingBudget
    from bench_run.measure.bursts import BurstWork
    from bench_run.streams.base import DeviceUse, Stream
    from bench_run.tensors.layout import Storages
    from bench_run.worker.messages import Question, RunCase

BYTES_EACH_ROUND = 64 * 1024**2
"""Larger inputs are put back and compared in the first round only."""
Phase = Callable[[str, int], None]
"""Called with each phase, and how many nanoseconds of the one before went into checks."""


def no_answer(question: Question) -> Any:
    """Answer nothing: no process shares the device."""
    raise AssertionError(question)


@dataclass(frozen=True)
class RunHooks:
    """A case's ways to its run."""

    announce: Phase
    ask: Callable[[Question], Any] = no_answer
    threads: int | None = None
    """Threads, and processors, that the worker is held to; None: as many as there are."""
    guardian: int | None = None
    """Id of the process below which everything stays that the worker starts."""


@dataclass
class Timeline(Steps):
    """Duration of each initialisation phase, which phase is under way, and what they took."""

    run: RunHooks
    phases: dict[str, int] = field(default_factory=dict)
    shares: bool = False
    """True if other workers use the device too."""
    no_gate: str | None = None
    current: str = "load"
    peak: ProcessPeak | None = None
    ready: Callable[[], object] = lambda: None
    """Called once the graph is built and its inputs are there."""

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        self.current = name
        self.run.announce(name, 0)
        begin = read_clock()
        yield
        took_ns = read_clock() - begin
        self.phases[f"{name}_ns"] = self.phases.get(f"{name}_ns", 0) + took_ns

    def enter(self, name: str, checked_ns: int = 0) -> None:
        self.current = name
        self.run.announce(name, checked_ns)

    def before_plan(self) -> None:
        self.ready()
        self.peak = ProcessPeak()

    def claim(self, use: DeviceUse) -> None:
        """Claim a shared device before another use of it."""
        if self.shares:
            if use != "free":
                self.run.announce("wait", 0)
            self.run.ask(Claim(use))

    def init(self) -> dict[str, Any]:
        """Return the phases as a document has them."""
        known = (name for name in INIT_PHASES if name in self.phases)
        return {name: np.array([self.phases[name]], np.int64) for name in known}


def run_case(engine: Engine, request: RunCase, import_ns: int, run: RunHooks) -> Case:
    """Run the case; return it with its round, or with the reason why there is none. A shared device
    is claimed only for steps that need it, and alone only for measuring."""
    phases = {"load_ns": request.load_ns, "import_ns": import_ns}
    timeline = Timeline(run, phases, request.shares_device, request.no_gate)
    started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    try:
        with ExitStack() as stack:
            found: list[Slots] = []
            timeline.ready = lambda: found.append(_slots(request, stack))
            prepared = stack.enter_context(
                prepare_plan(engine, request.graph, request.data, request.variant, timeline)
            )
            prepare_records(engine.stream)
            if request.no_gate is None:
                count_launches(prepared.plan, engine.stream)
            assert timeline.peak is not None
            peak_bytes = timeline.peak.taken_bytes()
            this = _checked(prepared, found[0], request, stack)
            timeline.claim("free")
            return _measured_case(this, timeline, started, peak_bytes)
    except (UnsupportedGraphError, EngineError, MemoryError) as error:
        return case_of(request, outcome_of(error, timeline.current))


@dataclass(frozen=True)
class Measuring:
    """A plan that ran once, with what checks its samples."""

    request: RunCase
    prepared: Prepared
    reader: OutputReader
    slots: Slots
    checks: SampleChecks
    within: Within
    """The case's place in a pass, if it has one."""
    inputs: Storages | None
    """The usual inputs, unless they are large."""


def _slots(request: RunCase, stack: ExitStack) -> Slots:
    """Return the memory for outputs, there for those of the first run: this process's own if they
    are not compared."""
    path, count = request.outputs_file, request.slots
    if path is None:
        path = stack.enter_context(closing(SharedFile(Path(tempfile.gettempdir())))).path
        count = SAMPLES
    slots = Slots(path, request.graph, count, write=True)
    slots.touch(FIRST)
    return slots


def _checked(prepared: Prepared, slots: Slots, request: RunCase, stack: ExitStack) -> Measuring:
    """Keep the outputs of the first run, and return what checks those of samples."""
    graph, stream, inputs = request.graph, prepared.stream, prepared.inputs
    plan = prepared.plan = told_whole(prepared.plan, stream, graph, inputs)
    reader = stack.enter_context(closing(OutputReader(plan, stream, graph, slots)))
    reader.take(FIRST)
    outputs = slots.slot(FIRST)
    if request.round_index == 0:
        uniform = uniform_notes(graph, inputs, outputs)
        request = msgspec.structs.replace(request, notes=(*request.notes, *uniform))
    within = stack.enter_context(
        whole_pass(prepared.engine)
        if request.is_pass
        else within_pass(prepared.engine, plan, graph, inputs, request.surroundings)
    )
    left = outputs if within.run_in_place is None else within.run_in_place()
    canaries = stack.enter_context(closing(canaries_of(plan, stream, graph, left, request.secret)))
    stays = request.surroundings is not None or not request.validation_settings.wanted
    checks = SampleChecks(
        plan,
        stream,
        own_inputs(plan, stream, graph, inputs, request.secret, stay=stays),
        canaries,
        reader,
        range(SAMPLES, min(BURST, slots.count)) if within.restore is None else range(0),
        request.secret,
        request.budget.executions,
    )
    if stream.clock == "host":
        for slot in range(SAMPLES, slots.count):
            slots.touch(slot)
    else:
        reader.reserve(slots.count - SAMPLES + request.strict)
    size = sum(storage.nbytes for storage in inputs.values())
    prepared.inputs = {}  # large ones would stay in memory
    kept = inputs if size <= BYTES_EACH_ROUND else None
    return Measuring(request, prepared, reader, slots, checks, within, kept)


def _measured_case(
    this: Measuring, timeline: Timeline, started: str, peak_bytes: int | None
) -> Case:
    request, prepared, checks = this.request, this.prepared, this.checks
    plan, stream, device, run = prepared.plan, prepared.stream, prepared.device, timeline.run
    seen = observers.observers_of(
        base.Round(
            request.engine,
            prepared,
            timeline,
            request.settle,
            request.energy,
            run.threads,
            run.guardian,
            request.observers,
            peak_bytes,
        )
    )
    _take_device(prepared, request, timeline)
    timeline.enter("measure")
    for each in seen:
        each.before_round()
    if request.observers:  # the device may have rested
        _wait_for_clock(prepared, request.budget.rest_s, timeline)
    timeline.enter("measure")
    budget = affordable(request.budget, timeline.phases["first_run_ns"])
    # Within a pass all buffers lie as the pass has them.
    count = 1 if request.surroundings is not None else request.placements
    places = Placements(plan, stream, checks, count, request.secret)
    checks.begin()
    measured, blocks = _measure(this, budget, places, run)
    for each in reversed(seen):
        each.after_sample_block(measured)
    if asks_for_records(stream, measured.series.get("device_ns", ())):
        _wait_for_clock(prepared, request.budget.rest_s, timeline)
    timeline.enter("measure", checks.spent_ns)
    if request.in_blocks:
        places.count = 1  # it was moved among the blocks, and only the names of kernels are new
    recorded = record_kernels(plan, stream, budget, measured, places)
    recorded = in_blocks(recorded, measured, blocks)
    for each in seen:
        each.after_round()
    if request.outside and this.within.restore is None:
        slot = BURST if this.slots.count > BURST else None
        found = recorded.measured.series
        ask = partial(_next_burst, run)
        run_bursts(prepared.engine, plan, checks, found, ask, slot)
    timeline.claim("free")
    _leave_outputs(this, timeline)
    results = [each.results() for each in seen]
    case: dict[str, Any] = {}
    fields: dict[str, Any] = {"extra": {}}
    said: list[str] = []
    for result in results:
        case |= result.case
        fields |= result.round
        twice = sorted(fields["extra"].keys() & result.extra.keys())
        fields["extra"] |= result.extra
        said += [*result.notes, *(f"--observer: two files have the number {n}" for n in twice)]
    notes = (*said, *recorded.notes)
    fields |= {
        "notes": notes,
        "blocks": {name: np.array(b, np.int64) for name, b in blocks.begins.items()},
        "block_places": tuple(blocks.places),
    }
    case["plan"] = {**case["plan"], **this.within.facts}
    return case_of(
        request,
        Outcome("completed", None),
        **{
            **case,
            "init": timeline.init(),
            "rounds": (_round(request, recorded, started, stream, device, fields),),
            "stopped_by": measured.stopped_by,
            "kernels": recorded.kernels,
            "notes": (*request.notes, *notes, *case["notes"]),
        },
    )


def _next_burst(run: RunHooks, *asked: Any) -> tuple[int, BurstWork]:
    number, work = run.ask(AskBurst(*asked))
    return number, work


def _measure(
    this: Measuring, budget: SamplingBudget, places: Placements, run: RunHooks
) -> tuple[Measured, Blocks]:
    """Return samples, and their blocks if other sides alternate with this one."""
    plan, stream, checks = this.prepared.plan, this.prepared.stream, this.checks
    if not this.request.in_blocks:
        found = measure(
            plan,
            stream,
            budget,
            checks,
            placements=places,
            has_records=lambda execution_ns: is_recorded(plan, stream, execution_ns),
        )
        return found, Blocks()
    records = KernelTimes(plan, stream) if stream.clock != "host" else None
    loop = BlockLoop(plan, stream, budget, checks, records=records, placements=places)
    return loop.measure(lambda *, enough: run.ask(AskBlock(enough)))


def in_blocks(recorded: Recorded, measured: Measured, blocks: Blocks) -> Recorded:
    """Return the samples taken in blocks; results of the pass after them stay. If the two used
    different clocks, the device's samples are those of the pass, and in no blocks."""
    if "device_ns" not in blocks.begins:
        return recorded
    if recorded.replaces_events != blocks.by_records:
        del blocks.begins["device_ns"]
        return recorded
    series = {**recorded.measured.series, "device_ns": measured.series["device_ns"]}
    moves = {
        **recorded.measured.placements,
        "device_ns": measured.placements.get("device_ns", []),
    }
    return replace(recorded, measured=replace(recorded.measured, series=series, placements=moves))


def _take_device(prepared: Prepared, request: RunCase, timeline: Timeline) -> None:
    """Wait until the device is ours alone, its gate works, and its clock is right."""
    device, stream, rest_s = prepared.device, prepared.stream, request.budget.rest_s
    if device != "cpu":
        highest_clock_mhz(device)  # loads NVML, which takes 0.1 s
    timeline.claim("alone")
    timeline.enter("gate")
    try_gate = stream.abilities.try_gate
    if try_gate is not None:
        try_gate()
    if timeline.shares and device != "cpu":
        if clock_is_back(device, stream, rest_s):
            return
        timeline.claim("cooling")
        _wait_for_clock(prepared, rest_s, timeline)
        timeline.claim("alone")
    _wait_for_clock(prepared, rest_s, timeline)


def _leave_outputs(this: Measuring, timeline: Timeline) -> None:
    """Leave the outputs of samples, and of a last run on the usual inputs, for the process that
    compares them."""
    request, inputs = this.request, this.inputs
    timeline.enter("validate")
    if request.outputs_file is None:
        return
    if inputs is None and request.round_index == 0:
        inputs = inputs_of(request.graph, request.data)
    is_repeated = inputs is not None and request.validation_settings.wanted
    timeline.claim("shared")
    timeline.enter("validate")
    if not request.strict:
        this.reader.fetch()
    changed: tuple[int, ...] | None = None
    if inputs is not None and is_repeated:
        changed = _run_again(this, inputs)
    shared = this.reader.share() if request.strict else None
    if shared is None or not timeline.run.ask(AskRead(shared)):
        this.reader.fetch()
    this.reader.close()
    timeline.claim("free")
    canaries = this.checks.canaries
    left = Left(
        reads=tuple(this.checks.reads),
        uids=this.checks.inputs.uids,
        repeats=int(is_repeated),
        changed_inputs=changed,
        looked=canaries.looked,
        untouched=canaries.untouched,
    )
    this.slots.write_report(msgspec.json.encode(left))


def _run_again(this: Measuring, inputs: Storages) -> tuple[int, ...] | None:
    """Run on the usual inputs, with nothing of other runs in the outputs. Return the inputs that
    were not what they had been; None if the plan cannot tell."""
    plan, restore, case_id = this.prepared.plan, this.within.restore, this.request.case_id
    if restore is None:
        plan.upload(inputs)
    else:
        restore()
    plan.poison()
    this.prepared.run()
    this.reader.take(LAST)
    changed_inputs = plan.abilities.changed_inputs
    if changed_inputs is None:
        return None
    if restore is not None:
        restore()
    uids: tuple[int, ...] = converted(
        case_id, "changed_inputs()", changed_inputs(inputs), tuple[int, ...]
    )
    if not inputs.keys() >= set(uids):
        raise EngineError(f"{case_id}: changed_inputs() names no input: {uids}")
    return uids


def _wait_for_clock(prepared: Prepared, rest_s: float, timeline: Timeline) -> None:
    if prepared.device != "cpu":
        timeline.enter("settle")
        wait_for_clock(prepared.device, prepared.stream, rest_s)


def affordable(budget: SamplingBudget, first_run_ns: int) -> SamplingBudget:
    """Return a budget without warm-up if a single run takes as long as all of it may: the first run
    was one. Raises `EngineError` if no sample would end in time, even if the first run, which is
    slower than others, took ten times as long as these."""
    budget = replace(budget, first_run_ns=first_run_ns)
    sample_ns, longest_ns = budget.executions * first_run_ns, budget.longest_ns
    if budget.executions > 1 and longest_ns is not None and sample_ns > 10 * longest_ns:
        took = f"the first took {time_text(first_run_ns)}"
        raise EngineError(
            f"{budget.executions} executions in one sample do not end within --timeout ({took}): "
            "fewer --executions, or a longer --timeout"
        )
    limit_ns = budget.max_time_ns
    if limit_ns is None or first_run_ns < limit_ns // 2:
        return budget
    return replace(budget, warmup=0)


def _round(
    request: RunCase,
    recorded: Recorded,
    started: str,
    stream: Stream,
    device: str,
    observed: dict[str, Any],
) -> Round:
    measured = recorded.measured
    series = {name: np.array(values, np.int64) for name, values in measured.series.items()}
    moves = {n: np.array(m, np.int64) for n, m in measured.placements.items() if m and n in series}
    # Each block, and each place but the first, begins with runs that do not count.
    cuts = {
        name: WarmupCut(0, False)
        if name in observed["blocks"]
        else warmup_cut(values[: moves[name][0]] if name in moves else values)
        for name, values in series.items()
    }
    timing: DeviceTiming | None = None
    if recorded.replaces_events:
        timing = "kernel records"
    elif "device_ns" in series:
        gated = stream.gate_depth > 0 and why_ungated(stream) is None
        timing = "gated events" if gated else "events"
    return Round(
        index=request.round_index,
        started=started,
        pid=os.getpid(),
        position=request.position,
        series=series,
        warmup={name: np.array(values, np.int64) for name, values in measured.warmup.items()},
        cut={name: cut.cut for name, cut in cuts.items()},
        not_warm=tuple(name for name, cut in cuts.items() if cut.not_warm),
        executions_per_sample=request.budget.executions,
        placements=moves,
        host=platform.node() or None,
        device_uuid=unit_of(device),
        device_correction_ns=0.0 if recorded.replaces_events else measured.cost_of_marks_ns,
        device_timing=timing,
        device_bound_ns=recorded.bound_ns,
        secret=request.secret or None,
        **observed,
    )


def unit_of(device: str) -> str | None:
    """Return the uuid by which an engine names its device; None for the processor and a mere
    index."""
    index = device.rpartition(":")[2].isdecimal()
    return None if device == "cpu" or index else device
