"""Result files of AMD's dnn-benchmarking: v0 (one run, with samples), v1, and the four layouts that
call themselves version 2. All but v0 hold summaries without samples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench_schema.document import (
    Achieved,
    Case,
    Document,
    EngineRecord,
    GraphId,
    Memory,
    Outcome,
    Round,
    Tool,
    Work,
)

import bench_compare.input.foreign.parts as parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench_schema.document import Status, Summary

    from bench_compare.input.foreign.parts import Table

TOOL = "dnn-benchmarking"


def sniff(tree: Any) -> str | None:
    """Recognise the layout by content; the number alone is never trusted."""
    found = parts.table(tree)
    if "schema_version" not in found:
        if "host_timings" in found or "e2e_timings" in found:
            return "v0"
        return "v1" if "metadata" in found and "graphs" in found else None
    if found["schema_version"] != 2 or not isinstance(found.get("graphs"), list):
        return None
    results = [
        row for graph in parts.rows(found["graphs"]) for row in parts.rows(graph.get("results"))
    ]
    if any("provider" in row and "runtime" not in row for row in results):
        return "v2a"
    for row in results:
        kernel = parts.table(parts.table(row.get("ootb")).get("kernel"))
        if kernel:
            if "n" not in kernel:
                return "v2d"
            return "v2b" if "mean_ms" in kernel else "v2c"
    looks = parts.table(found.get("tool")).get("name") == TOOL or any("ootb" in r for r in results)
    return "v2d" if looks else None


def read(tree: Any, layout: str, path: Path) -> Document:
    if layout == "v0":
        return _single(tree, path)
    facts = parts.table(tree.get("metadata" if layout == "v1" else "environment"))
    run = parts.table(tree.get("run"))
    config = parts.table(run.get("config"))
    kind = parts.text(facts.get("gpu_model")) or parts.UNKNOWN
    engines: dict[str, EngineRecord] = {}
    cases: list[Case] = []
    for graph in parts.rows(tree.get("graphs")):
        for case, engine in _graph_cases(graph, kind):
            # The name alone where that is enough to tell the engines of the file
            # apart.
            taken = engines.get(engine.key)
            key = (
                engine.key
                if taken is None or taken.id == engine.id
                else f"{engine.key}:{engine.id}"
            )
            engines[key] = replace(engine, key=key)
            cases.append(replace(case, id=f"{len(cases) + 1}", engine=key))
    started = parts.text(run.get("started_at")) or parts.text(facts.get("timestamp"))
    version = parts.text(parts.table(tree.get("tool")).get("version"))
    about = parts.run(
        _identity(tree),
        started,
        parts.settings(config, _timer(tree)),
        complete=run.get("complete") is not False,
        tool=Tool(TOOL, version or layout),
    )
    return parts.document(about, parts.machine(facts, None), engines, cases)


@dataclass(frozen=True)
class MeasuredPlan:
    """One measured configuration of a row, in one spelling for all layouts."""

    variant: Mapping[str, str]
    kernel: Summary | None
    end_to_end: Summary | None
    build_ms: Any
    first_call_ms: Any
    workspace_bytes: int | None
    correctness: Any
    flags: tuple[str, ...] = ()
    """Words of the tool against the measurement: ``noisy``."""


def _identity(tree: Table) -> str:
    """Return a hash of the content: the same file under two names is one run."""
    return hashlib.sha256(repr(tree).encode()).hexdigest()


def _timer(tree: Table) -> str:
    """Return the timing method of the first measured row: ``events``, ``staged``, ``block of 10``
    …"""
    for graph in parts.rows(tree.get("graphs")):
        for row in parts.rows(graph.get("results")):
            timing = parts.table(row.get("timing") or parts.table(row.get("ootb")).get("timing"))
            if timing:
                mode = parts.words(timing.get("mode"))
                clock = parts.text(timing.get("timer")) or parts.text(timing.get("backend"))
                block = parts.whole(timing.get("timing_block"))
                text = mode if clock is None else f"{mode} ({clock})"
                return f"{text}, blocks of {block}" if block and block > 1 else text
    return parts.UNKNOWN


def _graph_cases(graph: Table, kind: str) -> Iterator[tuple[Case, EngineRecord]]:
    identity = _graph_id(graph)
    results = parts.rows(graph.get("results"))
    if not results and graph.get("status") in ("no_engines", "error"):
        yield _plain_case(identity, parts.UNKNOWN, _outcome(graph)), _engine({}, kind)
    for row in results:
        engine = _engine(row, kind)
        for plan in _plans(row):
            yield _case(identity, engine.key, row, plan), engine


def _graph_id(graph: Table) -> GraphId:
    name = (
        parts.text(graph.get("graph_name")) or parts.text(graph.get("graph_path")) or parts.UNKNOWN
    )
    name = name.replace("\\", "/").rpartition("/")[2].removesuffix(".json")
    known = parts.text(graph.get("graph_id"))
    return GraphId(
        name=name,
        path=parts.text(graph.get("graph_path")) or name,
        sha256="",
        fingerprint=f"name:{name}" if known is None else f"{TOOL}:{known}",
        family=parts.UNKNOWN,
        data_type=parts.UNKNOWN,
    )


def _engine(row: Table, kind: str) -> EngineRecord:
    """Return the engine of a row: v1 has flat keys and calls its name the provider."""
    found = parts.table(row.get("engine"))
    runtime = parts.text(row.get("runtime")) or parts.text(row.get("provider"))
    name = (
        parts.text(found.get("name"))
        or parts.text(row.get("engine_name"))
        or runtime
        or parts.UNKNOWN
    )
    version = parts.text(found.get("version")) or parts.text(row.get("engine_version"))
    known = found.get("id", row.get("engine_id"))
    return EngineRecord(
        key=name,
        name=name,
        id=None if known is None else str(known),
        plugin_path=parts.text(found.get("plugin_path")) or parts.text(row.get("plugin_path")),
        plugin_sha256=None,
        libraries={} if version is None else {name: version},
        device="0",
        device_kind=kind,
        knobs={},
    )


def _plans(row: Table) -> list[MeasuredPlan]:
    """Read ``ootb`` and ``oracle``, two configurations of one case; older rows are flat."""
    if "ootb" in row:
        plans = [_plan(parts.table(row.get("ootb")), {})]
        oracle = parts.table(row.get("oracle"))
        return [*plans, _plan(oracle, {"plan": "oracle"})] if oracle else plans
    plans = [_plan({**parts.table(row.get("metrics")), **row}, {})]
    oracle = parts.table(row.get("oracle"))
    if parts.table(oracle.get("kernel")):
        plans.append(_plan(oracle, {"plan": "oracle"}))
    return plans


def _plan(found: Table, variant: Mapping[str, str]) -> MeasuredPlan:
    timing = parts.table(found.get("timing"))
    build = next((found[k] for k in ("build_ms", "cpu_build_time_ms") if k in found), None)
    kernel = parts.summary(found.get("kernel", found.get("gpu_kernel_stats")))
    if kernel is not None and kernel.count == 0:
        kernel = replace(kernel, count=parts.whole(timing.get("samples")) or 0)
    return MeasuredPlan(
        variant=variant,
        kernel=kernel,
        end_to_end=parts.summary(found.get("e2e_stats", found.get("host_stats"))),
        build_ms=build,
        first_call_ms=timing.get("first_call_ms"),
        workspace_bytes=parts.whole(found.get("workspace_bytes")),
        correctness=found.get("correctness"),
        flags=tuple(_flags(found, timing)),
    )


def _flags(found: Table, timing: Table) -> Iterator[str]:
    """Yield words of the tool against a measurement."""
    for text in found.get("warnings") or ():
        if isinstance(text, str):
            yield text.partition(":")[0]
    if timing.get("capped") is True:
        yield "capped"


STATUS: Mapping[str, Status] = {
    "success": "completed",
    "skipped": "unsupported",
    "no_engines": "unsupported",
    "error": "failed",
}


def _outcome(found: Table) -> Outcome:
    known = parts.words(found.get("status"))
    status = STATUS.get(known, "failed")
    if status == "completed":
        return Outcome("completed", None)
    names = ("message", "error_message", "skip_reason", "error")
    reason = next((text for n in names if (text := parts.text(found.get(n)))), None)
    return Outcome(status, reason or f"status {known!r}, no message")


def _plain_case(graph: GraphId, engine: str, outcome: Outcome) -> Case:
    return Case(
        id="",
        graph=graph,
        engine=engine,
        outcome=outcome,
        notes=("imported",),
    )


def _case(graph: GraphId, engine: str, row: Table, plan: MeasuredPlan) -> Case:
    case = replace(_plain_case(graph, engine, _outcome(row)), variant=plan.variant)
    if case.outcome.status != "completed":
        return case
    summaries = {"device_ns": plan.kernel, "e2e_ns": plan.end_to_end}
    known = {name: summary for name, summary in summaries.items() if summary is not None}
    phases = {
        "plan_ns": parts.milliseconds(plan.build_ms),
        "first_run_ns": parts.milliseconds(plan.first_call_ms),
    }
    metrics = parts.table(row.get("metrics"))
    flops = parts.whole(metrics.get("flops", row.get("analytical_flops")))
    moved = parts.whole(metrics.get("io_bytes", row.get("analytical_io_bytes")))
    work = Work(flops, moved, flops / moved if flops is not None and moved else None)
    return replace(
        case,
        notes=(*case.notes, *plan.flags),
        init={name: phase for name, phase in phases.items() if phase.size},
        summary=known,
        validation=parts.validation(plan.correctness),
        work=work,
        achieved=_achieved(known, work),
        memory=None if plan.workspace_bytes is None else Memory(None, plan.workspace_bytes, None),
    )


def _achieved(summaries: Mapping[str, Summary], work: Work) -> Achieved | None:
    found = next(iter(summaries.items()), None)
    if found is None or not found[1].median > 0:
        return None
    name, median_ns = found[0], found[1].median
    tflops = None if work.flops is None else work.flops / median_ns / 1000  # flops/ns are GFLOP/s
    gbps = None if work.moved_bytes is None else work.moved_bytes / median_ns
    return Achieved(name, tflops, gbps, None)


def _single(tree: Table, path: Path) -> Document:
    """Read v0: one graph, one engine, raw samples in milliseconds."""
    facts = parts.table(tree.get("metadata"))
    name = parts.text(facts.get("graph_name")) or path.stem
    identity = _graph_id({**facts, "graph_name": name})
    host = parts.text(facts.get("hostname"))
    backend = parts.text(facts.get("execution_backend")) or TOOL
    engine_id = facts.get("engine_id")
    key = backend if engine_id is None else f"{backend}:{engine_id}"
    engine = replace(_engine({"provider": key}, parts.UNKNOWN), id=str(engine_id))
    started = parts.text(facts.get("timestamp"))
    series = {
        "device_ns": parts.series(tree.get("kernel_timings")),
        "e2e_ns": parts.series(tree.get("host_timings", tree.get("e2e_timings"))),
    }
    one = Round(
        index=0,
        started=started or "1970-01-01T00:00:00+00:00",
        pid=0,
        position=0,
        series={name: values for name, values in series.items() if values.size},
        warmup={},
        cut={},
        not_warm=(),
        checks=None,
    )
    case = _plain_case(identity, key, Outcome("completed", None))
    case = replace(case, id="1", rounds=(one,) if one.series else ())
    timer = facts.get("timing_backend", facts.get("gpu_backend"))
    settings = parts.settings(facts, parts.words(timer))
    about = parts.run(_identity(tree), started, settings, complete=True, tool=Tool(TOOL, "v0"))
    return parts.document(about, parts.machine(facts, host), {key: engine}, [case])
