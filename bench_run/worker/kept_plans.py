"""Plans that stay built from one visit to the next: where variants of a graph race, building them
costs more than running them. Runs inside a worker.

A visit gives a median to compare within its block. What is shown as a time comes from ordinary
rounds (`run_case`), in fresh processes and with every check.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import INIT_PHASES, Memory, Outcome, Validation

from bench_run.engines import chain
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.measure.clock_wait import wait_for_clock
from bench_run.measure.loop import SamplingBudget, end_to_end, on_device, quiet
from bench_run.tensors.data import inputs_of
from bench_run.validate.expected import make_checker
from bench_run.validate.outputs import validation
from bench_run.worker.case_record import case_of
from bench_run.worker.messages import Keep, Kept, Release, Visit, Visited
from bench_run.worker.run_case import Run, Timeline, affordable

if TYPE_CHECKING:
    import numpy.typing as npt

    from bench_run.engines.base import Engine, Plan
    from bench_run.tensors.storage import Storages
    from bench_run.worker.run_case import Phase

NORMAL_MAD = 1.4826
"""Standard deviation of normal samples in their median absolute deviation."""


class KeptPlans:
    """The plans of one engine, by a name that the asking side gives them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._plans: dict[str, Plan] = {}
        self._first_run_ns: dict[str, int] = {}

    def keep(self, request: Keep, import_ns: int, announce: Phase) -> Kept:
        """Build the case's plan, run it, validate it; one that does not come so far is not kept."""
        self.release(Release((request.name,)))
        run = request.run
        timeline = Timeline(Run(announce), {"load_ns": run.load_ns, "import_ns": import_ns})
        try:
            plan = self._plan(request, timeline)
            with ExitStack() as undo:
                undo.callback(_close, plan)
                kept = self._kept(request, plan, timeline)
                undo.pop_all()  # from here on it is kept
                return kept
        except UnsupportedGraphError as error:
            outcome = Outcome("unsupported", str(error), timeline.current)
        except EngineError as error:
            outcome = Outcome("failed", str(error), timeline.current, error.detail)
        except MemoryError as error:
            reason = str(error) or "out of memory on the host"
            outcome = Outcome("failed", reason, timeline.current)
        return Kept(case_of(run, outcome))

    def _plan(self, request: Keep, timeline: Timeline) -> Plan:
        with timeline.time("build"):
            built = chain.build(self._engine, request.run.graph, request.run.variant)
        with timeline.time("plan"):
            return chain.plan(self._engine, built)

    def _kept(self, request: Keep, plan: Plan, timeline: Timeline) -> Kept:
        run = request.run
        timeline.enter("inputs")
        inputs = inputs_of(run.graph, run.data)
        plan.upload(inputs)
        plan.poison()
        self._engine.stream.synchronize()
        with timeline.time("first_run"):
            plan.run()
            self._engine.stream.synchronize()
        timeline.enter("validate")
        outputs = plan.download()
        checked = self._validated(request, plan, inputs, outputs)
        timeline.enter("gate")
        self._engine.stream.correction_ns()
        self._plans[request.name] = plan
        self._first_run_ns[request.name] = timeline.phases["first_run_ns"]
        facts = plan.facts
        case = case_of(
            run,
            Outcome("completed", None),
            init=_init(timeline),
            validation=checked,
            memory=Memory(None, facts.workspace_bytes, facts.buffer_bytes),
            plan=facts.chosen,
        )
        return Kept(case)

    def _validated(
        self, request: Keep, plan: Plan, inputs: Storages, outputs: Storages
    ) -> Validation:
        """Of the first run and of a second one: their bytes tell whether it is deterministic."""
        settings = request.run.validation_settings
        made = make_checker(request.run.graph, lambda: inputs, settings)
        if made is None:
            reason = settings.reason or "no reference was requested"
            return Validation("not checked", settings.reference, reason)
        checker, known = made
        results = [checker.check(outputs)]
        plan.poison()
        plan.run()
        self._engine.stream.synchronize()
        results.append(checker.check(plan.download()))
        known.save()
        return validation(settings.reference, request.run.graph, results)

    def visit(self, request: Visit, announce: Phase) -> Visited:
        """A few samples of a kept plan."""
        engine, plan = self._engine, self._plans[request.name]
        stream, began = engine.stream, time.perf_counter_ns()
        budget = affordable(request.budget, self._first_run_ns[request.name])
        if engine.facts.device != "cpu":
            announce("settle", 0)
            wait_for_clock(engine.facts.device, stream, budget.rest_s)
        announce("measure", 0)
        warm = SamplingBudget(budget.warmup, budget.warmup, 0, budget.max_time_ns)
        with quiet():
            first = end_to_end(plan, stream, warm, None, time.perf_counter_ns)[0]
            if stream.clock == "host":
                samples, _ = end_to_end(plan, stream, budget, None, time.perf_counter_ns)
            else:
                samples = on_device(plan, stream, budget, min(first, default=0))
        return _summary(samples, time.perf_counter_ns() - began)

    def release(self, request: Release) -> None:
        for name in request.names:
            plan = self._plans.pop(name, None)
            if plan is not None:
                plan.close()

    def close(self) -> None:
        self.release(Release(tuple(self._plans)))


def _init(timeline: Timeline) -> dict[str, npt.NDArray[np.int64]]:
    known = (name for name in INIT_PHASES if name in timeline.phases)
    return {name: np.array([timeline.phases[name]], np.int64) for name in known}


def _close(plan: Plan) -> None:
    with suppress(EngineError):  # what went wrong with it is known already
        plan.close()


def _summary(samples: list[int], took_ns: int) -> Visited:
    logs = np.log(np.maximum(1, np.array(samples, np.float64)))
    median = float(np.median(logs))
    deviation = NORMAL_MAD * float(np.median(np.abs(logs - median)))
    beside_ns = max(0.0, took_ns - float(sum(samples)))
    return Visited(median, deviation, beside_ns / math.exp(median), len(samples), took_ns / 1e9)
