"""Plans that stay built from one sampling to the next: where variants of a graph race, building
them costs more than running them. Runs inside a worker.

A sampling gives a midmean to compare with others of its block. What is shown as a time comes from
ordinary rounds (`run_case`), in fresh processes and with every check.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import Memory, Outcome, Validation

from bench_run.engines.reported import Reports
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.clock_wait import wait_for_clock
from bench_run.measure.kernel_pass import KernelTimes, prepare_records
from bench_run.measure.loop import end_to_end, on_device, quiet
from bench_run.measure.prepared import Prepared, prepare_plan
from bench_run.tensors.data import inputs_of
from bench_run.validate.expected import make_checker
from bench_run.validate.outputs import CheckResult, validation
from bench_run.worker.messages import (
    BuildPlan,
    PlanBuilt,
    PlanSamples,
    Release,
    Repeat,
    SamplePlan,
    case_of,
    outcome_of,
)
from bench_run.worker.run_case import RunHooks, Timeline, affordable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from bench_run.engines.base import Engine
    from bench_run.tensors.layout import Storages
    from bench_run.validate.outputs import OutputChecker
    from bench_run.worker.messages import RunCase
    from bench_run.worker.run_case import Phase

NORMAL_MAD = 1.4826
"""Standard deviation of normal samples in their median absolute deviation."""


@dataclass(frozen=True)
class StoredPlan:
    prepared: Prepared
    held: ExitStack
    """Closes the plan."""
    first_run_ns: int
    kernels: KernelTimes
    gate: tuple[object, ...]
    """The stream's settings for it, if they differ from plan to plan."""
    run: RunCase
    checked: list[CheckResult]
    """Results of its runs."""


class PlanStore:
    """The plans of one engine, by a name that the asking side gives them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._plans: dict[str, StoredPlan] = {}
        self._checkers: dict[tuple[str | None, str], OutputChecker | None] = {}
        """Checker of the last graph."""

    def keep(self, request: BuildPlan, import_ns: int, announce: Phase) -> PlanBuilt:
        """Build the case's plan, run it, validate it; one that does not come so far is not kept."""
        self.release(Release((request.name,)))
        run = request.run
        timeline = Timeline(RunHooks(announce), {"load_ns": run.load_ns, "import_ns": import_ns})
        try:
            with ExitStack() as undo:
                prepared = undo.enter_context(
                    prepare_plan(self._engine, run.graph, run.data, run.variant, timeline)
                )
                return self._kept(request, prepared, undo, timeline)
        except (UnsupportedGraphError, EngineError, MemoryError) as error:
            self.release(Release((request.name,)))
            return PlanBuilt(case_of(run, outcome_of(error, timeline.current)))

    def _kept(
        self, request: BuildPlan, prepared: Prepared, undo: ExitStack, timeline: Timeline
    ) -> PlanBuilt:
        run, plan, stream = request.run, prepared.plan, prepared.stream
        timeline.enter("validate")
        outputs, results = plan.download(), list[CheckResult]()
        checked = self._check(run, lambda: prepared.inputs, outputs, results)
        prepared.inputs = {}
        timeline.enter("gate")
        try_gate = stream.abilities.try_gate
        if try_gate is not None:
            try_gate()
        prepare_records(stream)
        settings = stream.abilities.gate_settings
        gate = () if settings is None else settings()
        first_run_ns = timeline.phases["first_run_ns"]
        self._plans[request.name] = StoredPlan(
            prepared, undo.pop_all(), first_run_ns, KernelTimes(plan, stream), gate, run, results
        )
        if request.twice:
            checked = self.repeat(Repeat(request.name))
        reports = Reports(run.engine)
        facts = reports.plan_facts(plan)
        case = case_of(
            run,
            Outcome("completed", None),
            init=timeline.init(),
            validation=checked,
            memory=Memory(None, facts.workspace_bytes, facts.buffer_bytes),
            plan=facts.chosen,
            notes=(*run.notes, *reports.notes),
        )
        return PlanBuilt(case)

    def _check(
        self,
        run: RunCase,
        inputs: Callable[[], Storages],
        outputs: Storages,
        results: list[CheckResult],
    ) -> Validation:
        """Return the validation of these outputs; their result is added to those of earlier
        runs."""
        settings = run.validation_settings
        key = settings.expected, settings.math
        if key not in self._checkers:
            self._checkers.clear()
            self._checkers[key] = make_checker(run.graph, inputs, settings)
        checker = self._checkers[key]
        if checker is None:
            reason = settings.reason or "no reference was requested"
            return Validation("not checked", settings.reference, reason)
        results.append(checker.check(outputs))
        return validation(settings.reference, run.graph, results)

    def repeat(self, request: Repeat) -> Validation:
        """Run a kept plan again: equal bytes to the first run show that it is deterministic."""
        kept = self._plans[request.name]
        run = kept.run
        kept.prepared.plan.poison()
        kept.prepared.run()
        outputs = kept.prepared.plan.download()
        return self._check(run, lambda: inputs_of(run.graph, run.data), outputs, kept.checked)

    def sample(self, request: SamplePlan, announce: Phase) -> PlanSamples:
        """Return a few samples of a kept plan."""
        engine, kept = self._engine, self._plans[request.name]
        stream, began = engine.stream, time.perf_counter_ns()
        budget = affordable(request.budget, kept.first_run_ns)
        restore_gate = stream.abilities.restore_gate
        if restore_gate is not None:
            restore_gate(kept.gate)
        if engine.facts.device != "cpu":
            announce("settle", 0)
            wait_for_clock(engine.facts.device, stream, budget.rest_s)
        announce("measure", 0)
        warm = SamplingBudget(budget.warmup, budget.warmup, 0, budget.max_time_ns)
        with quiet():
            first = end_to_end(kept.prepared.plan, stream, warm, time.perf_counter_ns)
            ready = time.perf_counter_ns()
            samples = self._samples(kept, budget, min(first, default=0))
        before_ns = ready - began
        sampling_ns = time.perf_counter_ns() - ready
        values = np.maximum(1, np.array(samples, np.float64))
        logs = np.log(values)
        deviation = NORMAL_MAD * float(np.median(np.abs(logs - np.median(logs))))
        cost = before_ns * len(samples) / max(1, sampling_ns)
        took_s = (before_ns + sampling_ns) / 1e9
        return PlanSamples(math.log(midmean(values)), deviation, cost, len(samples), took_s)

    def _samples(self, kept: StoredPlan, budget: SamplingBudget, estimate_ns: int) -> Sequence[int]:
        """Return samples by the clock of an ordinary round."""
        plan, stream = kept.prepared.plan, self._engine.stream
        if stream.clock == "host":
            return end_to_end(plan, stream, budget, time.perf_counter_ns)
        recorded = kept.kernels.sample(budget, estimate_ns)
        return on_device(plan, stream, budget, estimate_ns) if recorded is None else recorded

    def release(self, request: Release) -> None:
        for name in request.names:
            kept = self._plans.pop(name, None)
            if kept is not None:
                kept.held.close()

    def close(self) -> None:
        self.release(Release(tuple(self._plans)))


def midmean(values: npt.NDArray[np.float64]) -> float:
    """Return the mean of the middle half of the values, or of all if they are fewer than four. As a
    median it does not mind a few that were disturbed; beside it, it resolves what lies between two
    steps of a clock, and varies less (Tukey 1977, "Exploratory Data Analysis"). One look at a plan:
    no case's time."""
    cut = len(values) // 4
    return float(np.sort(values)[cut : len(values) - cut].mean())
