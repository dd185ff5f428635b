"""One round of a case: build, plan, first run, validate, measure. Runs inside a worker.

The only place where an engine's exceptions become outcomes. A wrong result is still timed.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import (
    INIT_PHASES,
    Case,
    Checks,
    DeviceTiming,
    Memory,
    Outcome,
    Round,
    Validation,
)
from bench_schema.estimate import WarmupCut, warmup_cut

from bench_run.engines import chain
from bench_run.engines.reported import Bytes, Reports, Words
from bench_run.engines.within_pass import whole_pass, within_pass
from bench_run.errors import EngineError, UnsupportedGraphError, message_of
from bench_run.machine.surroundings import HostWatch, others_on
from bench_run.machine.telemetry import disturbances, highest_clock_mhz, observe
from bench_run.measure.blocks import BlockLoop, Blocks
from bench_run.measure.canaries import canaries_of
from bench_run.measure.clock import read_clock
from bench_run.measure.clock_wait import clock_is_back, wait_for_clock
from bench_run.measure.energy import Used, measure_energy
from bench_run.measure.kernel_pass import (
    KernelTimes,
    Recorded,
    asks_for_records,
    count_launches,
    is_recorded,
    prepare_records,
    record_kernels,
)
from bench_run.measure.loop import Measured, SamplingBudget, end_to_end, measure
from bench_run.measure.marks import is_ours, why_ungated
from bench_run.measure.memory import ProcessPeak
from bench_run.measure.placements import Placements
from bench_run.measure.rotation import rotate_inputs
from bench_run.measure.settle import Settler
from bench_run.measure.unfinished import (
    DEVICE_NS,
    LARGE_BYTES,
    ThreadWatch,
    find_false_clock,
    find_hidden,
)
from bench_run.tensors.data import inputs_of
from bench_run.tensors.rotation import SETS, input_sets
from bench_run.tensors.uniform import uniform_notes
from bench_run.text import time_text
from bench_run.worker.judge import write_outputs
from bench_run.worker.messages import case_of, outcome_of
from bench_run.worker.outputs import (
    OutputKeeper,
    OutputReader,
    OutputValidator,
    Subject,
)

if TYPE_CHECKING:
    from bench_run.engines.base import Engine, Plan
    from bench_run.measure.blocks import NextBlock
    from bench_run.measure.canaries import Canaries
    from bench_run.measure.rotation import Rotation
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storages
    from bench_run.validate.settings import ValidationSettings
    from bench_run.worker.messages import DeviceUse, RunCase

SETS_FACT = "input sets"
"""Name of the number of sets that took turns, if it is not the usual one."""

SAMPLES_AGAIN = 8
"""Samples that are taken again where the wall clock shows more than the first ones."""
Phase = Callable[[str, int], None]
"""Called with each phase, and how many nanoseconds of the one before went into checks."""


@dataclass(frozen=True)
class RunHooks:
    """Callbacks of a case to its run."""

    announce: Phase
    claim: Callable[[DeviceUse], None] | None = None
    """Waits until a device that others use too is free for that; None if it is not shared."""
    expected: Callable[[], ValidationSettings] | None = None
    """Waits for what was pending in the request."""
    threads: int | None = None
    """Threads, and processors, that the worker is held to; None: as many as there are."""
    next_block: NextBlock | None = None
    """Waits for the next block; None if other sides do not alternate with this one."""


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
    reader: OutputReader | None = None
    try:
        with timeline.time("build"):
            built = chain.build(engine, request.graph, request.variant)
        timeline.enter("inputs")
        inputs = inputs_of(request.graph, request.data)
        host_peak = ProcessPeak()
        with timeline.time("plan"):
            plan = chain.plan(engine, built)
        reader = OutputReader(plan, engine.stream, request.graph)
        reader.expect()
        _first_run(engine, plan, inputs, request, timeline)
        timeline.host_peak_bytes = host_peak.taken_bytes()
        outputs = reader.read()
        if request.round_index == 0:
            uniform = uniform_notes(request.graph, inputs, outputs)
            request = replace(request, notes=(*request.notes, *uniform))
        wanted, in_pass = request.validation_settings.wanted, request.surroundings is not None
        rotation: Rotation | None = None
        if wanted:
            sets = (inputs,) if in_pass else input_sets(request.graph, request.data, inputs)
            rotation = rotate_inputs(plan, engine.stream, sets)
            del sets
        with (
            closing(rotation or reader),
            whole_pass(engine)
            if request.is_pass
            else within_pass(engine, plan, request.graph, inputs, request.surroundings) as within,
        ):
            del inputs
            name = f"{request.case_id} {request.round_index}"
            left = outputs if within.run_in_place is None else within.run_in_place()
            canaries = canaries_of(
                plan, engine.stream, request.graph, left, name, may_change=wanted and not in_pass
            )
            with closing(canaries):
                subject = Subject(
                    request.case_id,
                    request.graph,
                    request.validation_settings,
                    request.round_index,
                )
                restore = within.restore
                keeper = OutputKeeper(
                    *(plan, subject, outputs, canaries, reader, rotation, restore),
                    executions=request.budget.executions,
                )
                timeline.claim("free")
                del left, outputs
                facts = dict(within.facts)
                if rotation is not None and rotation.count < SETS:
                    facts[SETS_FACT] = str(rotation.count)
                return _measured_case(engine, keeper, request, timeline, started, facts)
    except (UnsupportedGraphError, EngineError, MemoryError) as error:
        return case_of(request, outcome_of(error, timeline.current))
    finally:
        if reader is not None:
            reader.close()
        if plan is not None:
            with suppress(EngineError):  # it is about to be replaced; the outcome is known already
                plan.close()


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
    engine: Engine,
    keeper: OutputKeeper,
    request: RunCase,
    timeline: Timeline,
    started: str,
    facts: Mapping[str, str],
) -> Case:
    plan = keeper.plan
    host = HostWatch()
    unsettled = _take_device(engine, plan, request, timeline)
    host.begin()
    before = observe(engine.facts.device, engine.stream, at_once=True)
    timeline.enter("measure")
    budget = affordable(request.budget, timeline.phases["first_run_ns"])
    threads = ThreadWatch(timeline.run.threads)
    places = _places(request, plan, engine.stream, keeper.canaries)
    next_block = timeline.run.next_block
    measured, blocks = _measure(plan, engine.stream, budget, keeper, places, next_block)
    keeper.canaries.restore()
    implausible = threads.reason()
    after = observe(engine.facts.device, engine.stream)
    host.end()
    if asks_for_records(engine.stream, measured.series.get("device_ns", ())):
        _wait_for_clock(engine, request.budget.rest_s, timeline)
    timeline.enter("measure", keeper.spent_ns)
    if next_block is not None:
        places.count = 1  # it was moved among the blocks, and only the names of kernels are new
    recorded = record_kernels(plan, engine.stream, budget, measured, places)
    recorded = in_blocks(recorded, measured, blocks)
    used = measure_energy(plan, engine.stream, engine.facts.device) if request.energy else Used()
    reports = Reports(request.engine)
    facts = {**facts, **_ask_witness(plan, reports)}
    implausible = implausible or _find_hidden(engine, keeper, measured)
    timeline.claim("free")
    surroundings = replace(host.surroundings(), device_processes=others_on(engine.facts.device))
    checks, validation = _validate(keeper, request, timeline)
    notes = (*unsettled, *recorded.notes, *disturbances(before, after), *used.notes)
    measured_round = _round(
        request,
        recorded,
        started,
        checks,
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
        validation=validation,
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
    keeper: OutputKeeper,
    places: Placements,
    next_block: NextBlock | None,
) -> tuple[Measured, Blocks]:
    """Return samples, and their blocks if other sides alternate with this one."""
    if next_block is None:
        found = measure(
            plan,
            stream,
            budget,
            keeper,
            canaries=keeper.canaries,
            placements=places,
            has_records=lambda execution_ns: is_recorded(plan, stream, execution_ns),
        )
        return found, Blocks()
    records = KernelTimes(plan, stream) if stream.clock != "host" else None
    loop = BlockLoop(
        plan, stream, budget, keeper, canaries=keeper.canaries, records=records, placements=places
    )
    return loop.measure(next_block)


def _places(request: RunCase, plan: Plan, stream: Stream, canaries: Canaries) -> Placements:
    """Return the places of the buffers. Within a pass all buffers lie as the pass has them."""
    count = 1 if request.surroundings is not None else request.placements
    name = f"{request.case_id} {request.round_index} {os.getpid()}"
    return Placements(plan, stream, canaries, count, name)


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


def _find_hidden(engine: Engine, keeper: OutputKeeper, measured: Measured) -> str | None:
    """Return the reason why samples are not the time of an iteration, in one line."""
    subject, samples = keeper.subject, measured.series["e2e_ns"]
    size = sum(tensor.bytes for tensor in subject.graph.outputs)
    if not samples or (subject.round_index > 0 and size > LARGE_BYTES):
        return None
    run, stream, device_ns = keeper.plan.run, engine.stream, measured.series.get("device_ns", ())
    each_ns = DEVICE_NS if device_ns else 0
    few = SamplingBudget(0, SAMPLES_AGAIN)

    def again() -> Sequence[int]:
        return end_to_end(keeper.plan, stream, few, None, read_clock)

    found = find_hidden(run, stream.synchronize, keeper.arrive, samples, each_ns, again)
    if found is None and device_ns and not is_ours(stream) and subject.round_index == 0:
        return find_false_clock(run, stream, device_ns, samples)
    return found


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


def _validate(
    keeper: OutputKeeper, request: RunCase, timeline: Timeline
) -> tuple[Checks | None, Validation | None]:
    """Validate all stored outputs, or leave them to another process."""
    timeline.enter("validate")
    made: list[Storages] = []

    def inputs() -> Storages:
        if not made:
            made.append(inputs_of(request.graph, request.data))
        return made[0]

    compared = inputs() if keeper.looks_at_inputs else {}
    keeper.expect()
    timeline.claim("shared")
    timeline.enter("validate")
    keeper.finish(compared)
    timeline.claim("free")
    if request.outputs_file is not None:
        write_outputs(request.outputs_file, keeper.left())
        return None, None
    settings = request.validation_settings
    if (settings.pending or settings.lost) and timeline.run.expected is not None:
        timeline.enter("reference")
        settings = timeline.run.expected()
    timeline.enter("validate")
    validator = OutputValidator(keeper.left(), settings, request.data, inputs)
    return validator.checks(), validator.validation()


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
    checks: Checks | None,
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
        checks=checks,
        executions_per_sample=request.budget.executions,
        placements=moves,
        host=platform.node() or None,
        device_uuid=unit_of(engine.facts.device),
        device_correction_ns=0.0 if recorded.replaces_events else measured.cost_of_marks_ns,
        device_timing=timing,
        device_bound_ns=recorded.bound_ns,
        **observed,
    )


def unit_of(device: str) -> str | None:
    """Return the uuid by which an engine names its device; None for the processor and a mere
    index."""
    index = device.rpartition(":")[2].isdecimal()
    return None if device == "cpu" or index else device
