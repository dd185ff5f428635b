"""One round of a case: build, plan, first run, validate, measure. Runs inside a worker.

The only place where an engine's exceptions become outcomes. A wrong result is still timed.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from bench_schema.document import (
    INIT_PHASES,
    Case,
    DeviceTiming,
    Memory,
    Outcome,
    Round,
)
from bench_schema.estimate import WarmupCut, warmup_cut

from bench_run.engines import chain
from bench_run.engines.reported import Bytes, Reports, Words, converted
from bench_run.engines.within_pass import whole_pass, within_pass
from bench_run.errors import EngineError, UnsupportedGraphError, message_of
from bench_run.machine.surroundings import HostWatch, others_on
from bench_run.machine.telemetry import disturbances, highest_clock_mhz, observe
from bench_run.measure.blocks import BlockLoop, Blocks
from bench_run.measure.bursts import run_bursts
from bench_run.measure.canaries import canaries_of
from bench_run.measure.checks import SampleChecks
from bench_run.measure.clock import read_clock
from bench_run.measure.clock_wait import clock_is_back, wait_for_clock
from bench_run.measure.energy import Used, measure_energy
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
from bench_run.measure.loop import Measured, SamplingBudget, measure
from bench_run.measure.marks import why_ungated
from bench_run.measure.memory import ProcessPeak
from bench_run.measure.placements import Placements
from bench_run.measure.processors import ProcessorWatch
from bench_run.measure.reading import OutputReader, told_whole
from bench_run.measure.settle import Settler
from bench_run.tensors.data import inputs_of
from bench_run.tensors.slots import SharedFile, Slots
from bench_run.tensors.uniform import uniform_notes
from bench_run.text import time_text
from bench_run.worker.left import Left
from bench_run.worker.messages import BURST, FIRST, LAST, SAMPLES, case_of, outcome_of

if TYPE_CHECKING:
    from bench_run.engines.base import Engine, Plan
    from bench_run.measure.blocks import NextBlock
    from bench_run.measure.bursts import NextBurst
    from bench_run.streams.base import Shared, Stream
    from bench_run.tensors.layout import Storages
    from bench_run.worker.messages import DeviceUse, RunCase

BYTES_EACH_ROUND = 64 * 1024**2
"""Larger inputs are put back and compared in the first round only."""
Phase = Callable[[str, int], None]
"""Called with each phase, and how many nanoseconds of the one before went into checks."""


@dataclass(frozen=True)
class RunHooks:
    """Callbacks of a case to its run."""

    announce: Phase
    claim: Callable[[DeviceUse], None] | None = None
    """Waits until a device that others use too is free for that; None if it is not shared."""
    threads: int | None = None
    """Threads, and processors, that the worker is held to; None: as many as there are."""
    guardian: int | None = None
    """Id of the process below which everything stays that the worker starts."""
    next_block: NextBlock | None = None
    """Waits for the next block; None if other sides do not alternate with this one."""
    read: Callable[[Shared], bool] | None = None
    """Lets another process read outputs from the device; False if it cannot."""
    next_burst: NextBurst | None = None
    """Waits for the iterations that the run times by its own clock; None if it times none."""


@dataclass
class Timeline:
    """Duration of each initialisation phase, which phase is under way, and what they took."""

    run: RunHooks
    phases: dict[str, int] = field(default_factory=dict)
    current: str = "load"
    host_peak_bytes: int | None = None
    """Most memory that planning and the first run took in this process."""

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

    @property
    def shares(self) -> bool:
        """True if other workers use the device too."""
        return self.run.claim is not None

    def claim(self, use: DeviceUse) -> None:
        """Claim a shared device before another use of it."""
        if self.run.claim is not None:
            if use != "free":
                self.run.announce("wait", 0)
            self.run.claim(use)


def run_case(engine: Engine, request: RunCase, import_ns: int, run: RunHooks) -> Case:
    """Run the case; return it with its round, or with the reason why there is none. A shared device
    is claimed only for steps that need it, and alone only for measuring."""
    phases = {"load_ns": request.load_ns, "import_ns": import_ns}
    timeline = Timeline(run, phases)
    started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    plan: Plan | None = None
    try:
        with ExitStack() as stack:
            with timeline.time("build"):
                built = chain.build(engine, request.graph, request.variant)
            timeline.enter("inputs")
            inputs = inputs_of(request.graph, request.data)
            slots = _slots(request, stack)
            slots.touch(FIRST)
            host_peak = ProcessPeak()
            with timeline.time("plan"):
                plan = chain.plan(engine, built)
            _first_run(engine, plan, inputs, request, timeline)
            timeline.host_peak_bytes = host_peak.taken_bytes()
            plan = told_whole(plan, engine.stream, request.graph, inputs)
            reader = stack.enter_context(
                closing(OutputReader(plan, engine.stream, request.graph, slots))
            )
            reader.take(FIRST)
            outputs = slots.slot(FIRST)
            if request.round_index == 0:
                uniform = uniform_notes(request.graph, inputs, outputs)
                request = replace(request, notes=(*request.notes, *uniform))
            within = stack.enter_context(
                whole_pass(engine)
                if request.is_pass
                else within_pass(engine, plan, request.graph, inputs, request.surroundings)
            )
            left = outputs if within.run_in_place is None else within.run_in_place()
            canaries = stack.enter_context(
                closing(canaries_of(plan, engine.stream, request.graph, left, request.secret))
            )
            stays = request.surroundings is not None or not request.validation_settings.wanted
            checks = SampleChecks(
                plan,
                engine.stream,
                own_inputs(plan, engine.stream, request.graph, inputs, request.secret, stay=stays),
                canaries,
                reader,
                range(SAMPLES, min(BURST, slots.count)) if within.restore is None else range(0),
                request.secret,
                request.budget.executions,
            )
            if engine.stream.clock == "host":
                for slot in range(SAMPLES, slots.count):
                    slots.touch(slot)
            else:
                reader.reserve(slots.count - SAMPLES + request.strict)
            timeline.claim("free")
            size = sum(storage.nbytes for storage in inputs.values())
            kept = inputs if size <= BYTES_EACH_ROUND else None
            del left, outputs, inputs
            this = Measuring(plan, reader, slots, checks, within.restore, dict(within.facts), kept)
            return _measured_case(engine, this, request, timeline, started)
    except (UnsupportedGraphError, EngineError, MemoryError) as error:
        return case_of(request, outcome_of(error, timeline.current))
    finally:
        if plan is not None:
            with suppress(EngineError):  # it is about to be replaced; the outcome is known already
                plan.close()


@dataclass(frozen=True)
class Measuring:
    """A plan that ran once, with what checks its samples."""

    plan: Plan
    reader: OutputReader
    slots: Slots
    checks: SampleChecks
    restore: Callable[[], None] | None
    """Puts the inputs in place that outputs are checked for; None: samples run on these."""
    facts: Mapping[str, str]
    inputs: Storages | None
    """The usual inputs, unless they are large."""


def _slots(request: RunCase, stack: ExitStack) -> Slots:
    """Return the memory for outputs: this process's own if they are not compared."""
    path, count = request.outputs_file, request.slots
    if path is None:
        path = stack.enter_context(closing(SharedFile(Path(tempfile.gettempdir())))).path
        count = SAMPLES
    return Slots(path, request.graph, count, write=True)


def _first_run(
    engine: Engine, plan: Plan, inputs: Storages, request: RunCase, timeline: Timeline
) -> None:
    """Run once on poisoned outputs; the device is held from here on."""
    timeline.claim("shared")
    with timeline.time("plan"):
        plan.upload(inputs)
    leave_gate_open = engine.stream.abilities.leave_gate_open
    if request.no_gate is not None and leave_gate_open is not None:
        leave_gate_open(request.no_gate)
    plan.poison()
    engine.stream.synchronize()
    if plan.abilities.searches:
        with timeline.time("search"):
            plan.run()
            engine.stream.synchronize()
    with timeline.time("first_run"):
        plan.run()
        engine.stream.synchronize()
    prepare_records(engine.stream)
    if request.no_gate is None:
        count_launches(plan, engine.stream)


def _measured_case(
    engine: Engine, this: Measuring, request: RunCase, timeline: Timeline, started: str
) -> Case:
    plan, checks, stream = this.plan, this.checks, engine.stream
    host = HostWatch()
    unsettled = _take_device(engine, plan, request, timeline)
    host.begin()
    before = observe(engine.facts.device, stream, at_once=True)
    timeline.enter("measure")
    budget = affordable(request.budget, timeline.phases["first_run_ns"])
    processors = ProcessorWatch(timeline.run.threads, timeline.run.guardian)
    # Within a pass all buffers lie as the pass has them.
    count = 1 if request.surroundings is not None else request.placements
    places = Placements(plan, stream, checks, count, request.secret)
    next_block = timeline.run.next_block
    checks.begin()
    measured, blocks = _measure(plan, stream, budget, checks, places, next_block)
    implausible = processors.reason(sum(measured.series["e2e_ns"]))
    after = observe(engine.facts.device, stream)
    host.end()
    if asks_for_records(stream, measured.series.get("device_ns", ())):
        _wait_for_clock(engine, request.budget.rest_s, timeline)
    timeline.enter("measure", checks.spent_ns)
    if next_block is not None:
        places.count = 1  # it was moved among the blocks, and only the names of kernels are new
    recorded = record_kernels(plan, stream, budget, measured, places)
    recorded = in_blocks(recorded, measured, blocks)
    used = measure_energy(plan, stream, engine.facts.device) if request.energy else Used()
    reports = Reports(request.engine)
    facts = {**this.facts, **_ask_witness(plan, reports)}
    if timeline.run.next_burst is not None and this.restore is None:
        slot = BURST if this.slots.count > BURST else None
        found = recorded.measured.series
        run_bursts(engine, plan, checks, found, timeline.run.next_burst, slot)
    timeline.claim("free")
    surroundings = replace(host.surroundings(), device_processes=others_on(engine.facts.device))
    _leave_outputs(engine, this, request, timeline)
    notes = (*unsettled, *recorded.notes, *disturbances(before, after), *used.notes)
    measured_round = _round(
        request,
        recorded,
        started,
        engine,
        telemetry_before=before,
        telemetry_after=after,
        energy_j_per_iteration=used.j_per_iteration,
        energy_window_s=used.window_s,
        notes=notes,
        surroundings=surroundings,
        blocks={name: np.array(b, np.int64) for name, b in blocks.begins.items()},
        block_places=tuple(blocks.places),
    )
    # The device allocator's peak where there is one, the process's where the processor works.
    peak_bytes = reports.read("peak_bytes()", engine.peak_bytes, Bytes | None, None)
    plan_facts = reports.plan_facts(plan)
    if peak_bytes is None and engine.facts.device == "cpu":
        peak_bytes = timeline.host_peak_bytes
    return case_of(
        request,
        Outcome("completed", None),
        init={
            name: np.array([timeline.phases[name]], np.int64)
            for name in INIT_PHASES
            if name in timeline.phases
        },
        rounds=(measured_round,),
        memory=Memory(peak_bytes, plan_facts.workspace_bytes, plan_facts.buffer_bytes),
        plan={**plan_facts.chosen, **facts},
        stopped_by=measured.stopped_by,
        kernels=recorded.kernels,
        notes=(*request.notes, *notes, *reports.notes),
        implausible=implausible,
    )


def _measure(
    plan: Plan,
    stream: Stream,
    budget: SamplingBudget,
    checks: SampleChecks,
    places: Placements,
    next_block: NextBlock | None,
) -> tuple[Measured, Blocks]:
    """Return samples, and their blocks if other sides alternate with this one."""
    if next_block is None:
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
    return loop.measure(next_block)


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


_settlers: dict[tuple[str, str], Settler] = {}
"""Looks of earlier cases of this process, by window and device."""


def _settle(engine: Engine, plan: Plan, request: RunCase, timeline: Timeline) -> tuple[str, ...]:
    """Wait as ``--settle`` requires; return a note if that was in vain."""
    device = engine.facts.device
    if request.settle is None or device == "cpu":
        return ()
    timeline.enter("settle")
    key = request.settle, device
    settler = _settlers.setdefault(key, Settler.of(*key))

    def run() -> None:
        plan.run()
        engine.stream.synchronize()

    why = settler.settle(run)
    return () if why is None else (why,)


def _take_device(
    engine: Engine, plan: Plan, request: RunCase, timeline: Timeline
) -> tuple[str, ...]:
    """Wait until the device is ours alone, its gate works, and its clock is right. Return notes on
    waits in vain."""
    if engine.facts.device != "cpu":
        highest_clock_mhz(engine.facts.device)  # loads NVML, which takes 0.1 s
    timeline.claim("alone")
    timeline.enter("gate")
    try_gate = engine.stream.abilities.try_gate
    if try_gate is not None:
        try_gate()
    device, rest_s = engine.facts.device, request.budget.rest_s
    if timeline.shares and device != "cpu":
        if not clock_is_back(device, engine.stream, rest_s):
            timeline.claim("cooling")
            _wait_for_clock(engine, rest_s, timeline)
            timeline.claim("alone")
            _wait_for_clock(engine, rest_s, timeline)
    else:
        _wait_for_clock(engine, rest_s, timeline)
    return _settle(engine, plan, request, timeline)


def _leave_outputs(engine: Engine, this: Measuring, request: RunCase, timeline: Timeline) -> None:
    """Leave the outputs of samples, and of a last run on the usual inputs, for the process that
    compares them."""
    timeline.enter("validate")
    if request.outputs_file is None:
        return
    inputs = this.inputs
    if inputs is None and request.round_index == 0:
        inputs = inputs_of(request.graph, request.data)
    is_repeated = inputs is not None and request.validation_settings.wanted
    timeline.claim("shared")
    timeline.enter("validate")
    if not request.strict:
        this.reader.fetch()
    changed: tuple[int, ...] | None = None
    if inputs is not None and is_repeated:
        changed = _run_again(engine, this, inputs, request.case_id)
    shared = this.reader.share() if request.strict else None
    if shared is None or timeline.run.read is None or not timeline.run.read(shared):
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


def _run_again(
    engine: Engine, this: Measuring, inputs: Storages, case_id: str
) -> tuple[int, ...] | None:
    """Run on the usual inputs, with nothing of other runs in the outputs. Return the inputs that
    were not what they had been; None if the plan cannot tell."""
    plan = this.plan
    if this.restore is None:
        plan.upload(inputs)
    else:
        this.restore()
    plan.poison()
    plan.run()
    engine.stream.synchronize()
    this.reader.take(LAST)
    changed_inputs = plan.abilities.changed_inputs
    if changed_inputs is None:
        return None
    if this.restore is not None:
        this.restore()
    uids: tuple[int, ...] = converted(
        case_id, "changed_inputs()", changed_inputs(inputs), tuple[int, ...]
    )
    if not inputs.keys() >= set(uids):
        raise EngineError(f"{case_id}: changed_inputs() names no input: {uids}")
    return uids


def _wait_for_clock(engine: Engine, rest_s: float, timeline: Timeline) -> None:
    if engine.facts.device != "cpu":
        timeline.enter("settle")
        wait_for_clock(engine.facts.device, engine.stream, rest_s)


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


def _ask_witness(plan: Plan, reports: Reports) -> Mapping[str, str]:
    """Return the results of the library's own clock; if it fails, the reason: the samples are
    already taken."""
    witness = plan.abilities.witness
    if witness is None:
        return {}

    def ask() -> Mapping[str, str]:
        try:
            return witness()
        except EngineError as error:
            return {"witness": f"failed: {message_of(error)}"}

    found: Mapping[str, str] = reports.read("witness()", ask, Words, {})
    return found


def _round(
    request: RunCase,
    recorded: Recorded,
    started: str,
    engine: Engine,
    **observed: Any,
) -> Round:
    stream, measured = engine.stream, recorded.measured
    series = {name: np.array(values, np.int64) for name, values in measured.series.items()}
    begins: Mapping[str, object] = observed["blocks"]
    moves = {n: np.array(m, np.int64) for n, m in measured.placements.items() if m and n in series}
    # Each block, and each place but the first, begins with runs that do not count.
    cuts = {
        name: WarmupCut(0, False)
        if name in begins
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
        device_uuid=unit_of(engine.facts.device),
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
