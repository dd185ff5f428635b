"""Result files of AMD's dnn-benchmarking: v0 (one run, with samples), v1, and the five layouts that
call themselves version 2. All but v0 hold summaries without samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import Cpu, Device, Memory, Outcome, OutputValidation, Validation, Work

import bench_compare.input.tools.values as v
from bench_compare.input.tools.build import About, Measured, both, document, series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench_schema.document import Document, Status, Summary

    from bench_compare.input.tools.values import Table

TOOL = "dnn-benchmarking"
SWITCHES = ("backend", "engine_filter", "autotune", "oracle_mode", "min_time_ms", "metrics_tier",
            "pytorch_sdpa_backend", "pytorch_rocm_fa_library")  # fmt: skip
"""Settings of its runs that have no field in our document; reported as the environment."""
CACHES = {"warm": "hot", "cold": "cold"}
STATUS: Mapping[str, Status] = {
    "success": "completed",
    "skipped": "unsupported",
    "no_engines": "unsupported",
    "error": "failed",
}


def sniff(tree: Any) -> str | None:
    """Recognise the layout by content; the number alone is never trusted."""
    found = v.table(tree)
    if "schema_version" not in found:
        if "host_timings" in found or "e2e_timings" in found:
            return "v0"
        return "v1" if "metadata" in found and "graphs" in found else None
    if found["schema_version"] != 2 or not isinstance(found.get("graphs"), list):
        return None
    results = [row for graph in v.rows(found["graphs"]) for row in v.rows(graph.get("results"))]
    looks = v.table(found.get("tool")).get("name") == TOOL or {"run", "environment"} <= found.keys()
    return "v2" if looks or any({"provider", "ootb"} & row.keys() for row in results) else None


def read(tree: Any, layout: str, path: Path) -> Document:
    facts = v.table(tree.get("environment") or tree.get("metadata"))
    run = v.table(tree.get("run"))
    config = v.table(run.get("config")) or (facts if layout == "v0" else {})
    if layout == "v0":
        measured, left_out = [_single(tree, facts, path)], 0
        timer = v.text(facts.get("timing_backend"), facts.get("gpu_backend")) or v.UNKNOWN
    else:
        graphs = v.rows(tree.get("graphs"))
        every = [row for graph in graphs for row in v.rows(graph.get("results"))]
        left_out = sum(row.get("role") == "reference" for row in every)
        first: dict[str, str | None] = {}
        measured = [one for graph in graphs for one in _graph(graph, first)]
        timed = (_timer(row) for row in every if row.get("role") != "reference")
        timer = next(filter(None, timed), v.UNKNOWN)
    cache = v.text(config.get("cache_mode")) or v.UNKNOWN
    about = About(
        TOOL,
        v.text(v.table(tree.get("tool")).get("version")) or layout,
        started=v.text(run.get("started_at"), facts.get("timestamp")),
        host=v.text(facts.get("hostname")),
        python=v.text(facts.get("python_version")),
        devices=tuple(_devices(facts)),
        timer=timer,
        cache=CACHES.get(cache, cache),
        notes=(f"left out: {left_out} of role reference",) if left_out else (),
        complete=run.get("complete") is not False,
        settings={
            "warmup": v.whole(config.get("warmup_iters")) or 0,
            "iterations": v.whole(config.get("iters", config.get("benchmark_iters"))) or 0,
            "seed": v.whole(config.get("seed")) or 0,
            "reference": v.text(config.get("validate")) or v.UNKNOWN,
            "rtol": v.number(config.get("rtol")),
            "atol": v.number(config.get("atol")),
        },
        machine=_machine(facts, config),
    )
    return document(about, measured)


def _timer(row: Table) -> str | None:
    """Return the method of timing: ``events``, ``staged (hip)``, ``block, blocks of 10`` …"""
    timing = v.table(row.get("timing") or v.table(row.get("ootb")).get("timing"))
    mode, clock = v.text(timing.get("mode")), v.text(timing.get("timer"), timing.get("backend"))
    block = v.whole(timing.get("timing_block")) or 1
    said = f"{mode or v.UNKNOWN} ({clock})" if clock else mode
    return f"{said}, blocks of {block}" if block > 1 else said


def _devices(facts: Table) -> Iterator[Device]:
    model, gigabytes = v.text(facts.get("gpu_model")), v.number(facts.get("gpu_hbm_gb"))
    if model is not None:
        yield Device(
            index=0,
            name=model,
            driver=v.text(facts.get("amdgpu_driver_version")),
            arch=v.text(facts.get("gpu_arch")),
            memory_bytes=None if gigabytes is None else round(gigabytes * 2**30),
            max_sm_clock_mhz=v.number(facts.get("gpu_max_sclk_mhz")),
            power_limit_w=v.number(facts.get("gpu_power_cap_w")),
        )


def _machine(facts: Table, config: Table) -> dict[str, Any]:
    names = {name: f"{name}_version" for name in ("rocm", "cuda", "cudnn", "hipdnn", "torch")}
    memory = v.number(facts.get("total_ram_gb"))
    switches = {name: str(config[name]) for name in SWITCHES if config.get(name)}
    return {
        "kernel": v.text(facts.get("kernel_version")) or v.UNKNOWN,
        "cpu": Cpu(v.text(facts.get("cpu_model")), None, v.whole(facts.get("cpu_count"))),
        "memory_bytes": None if memory is None else round(memory * 2**30),
        "packages": v.texts(facts, **names),
        "environment": {**v.texts(facts, selection_env="selection_env"), **switches},
    }


def _graph(graph: Table, first: dict[str, str | None]) -> Iterator[Measured]:
    """Yield what engines measured; a row of role reference is what outputs were compared with.
    `first` holds the first id of each name of an engine in the file, whose key is the name."""
    results = v.rows(graph.get("results"))
    if not results and graph.get("status") in ("no_engines", "error"):
        results = [{"status": graph["status"], "message": _reason(graph), "engine_name": v.UNKNOWN}]
    for row in results:
        name, identity = _engine(row)
        alone = first.setdefault(name, identity) == identity
        key = name if alone else f"{name}:{identity}"
        if row.get("role") == "reference":
            continue
        oracle = v.table(row.get("oracle"))
        ootb = v.table(row.get("ootb")) if "ootb" in row else {**v.table(row.get("metrics")), **row}
        yield _measured(graph, row, ootb, key, {})
        if oracle and ("ootb" in row or v.table(oracle.get("kernel"))):
            yield _measured(graph, row, oracle, key, {"plan": "oracle"})


def _engine(row: Table) -> tuple[str, str | None]:
    """Return the name and id of the engine of a row."""
    found = v.table(row.get("engine"))
    runtime = v.text(row.get("runtime"), row.get("provider"))
    known = found.get("id", row.get("engine_id"))
    name = v.text(found.get("name"), row.get("engine_name"), runtime) or v.UNKNOWN
    return name, None if known is None else str(known)


def _identity(graph: Table) -> dict[str, Any]:
    path = v.text(graph.get("graph_path"))
    name = v.text(graph.get("graph_name"), path) or v.UNKNOWN
    name = name.replace("\\", "/").rpartition("/")[2].removesuffix(".json")
    return {"name": name, "path": path or name, "meaning": v.text(graph.get("graph_id")) or ""}


def _measured(
    graph: Table, row: Table, plan: Table, key: str, variant: Mapping[str, str]
) -> Measured:
    name, identity = _engine(row)
    found = v.table(row.get("engine"))
    version = v.text(found.get("version"), row.get("engine_version"))
    timing = v.table(plan.get("timing"))
    engine = {
        "name": name,
        "id": identity,
        "plugin_path": v.text(found.get("plugin_path"), row.get("plugin_path")),
        "libraries": {} if version is None else {name: version},
    }
    status = STATUS.get(str(row.get("status")), "failed")
    completed = status == "completed"
    times = both(
        series("device_ns", [], _stats(plan.get("kernel", plan.get("gpu_kernel_stats")), timing)),
        series("e2e_ns", [], _stats(plan.get("e2e_stats", plan.get("host_stats")), timing)),
    )
    metrics = v.table(row.get("metrics"))
    flops = v.whole(metrics.get("flops", row.get("analytical_flops")))
    moved = v.whole(metrics.get("io_bytes", row.get("analytical_io_bytes")))
    build = next((plan[k] for k in ("build_ms", "cpu_build_time_ms") if k in plan), None)
    phases = {"plan_ns": v.number(build), "first_run_ns": v.number(timing.get("first_call_ms"))}
    workspace = v.whole(plan.get("workspace_bytes", metrics.get("workspace_bytes")))
    facts = {
        "variant": variant,
        "plan": {"timing": _timer(row) or v.UNKNOWN},
        "init": {k: np.array([round(ms * 1e6)]) for k, ms in phases.items() if ms is not None},
        "validation": _validation(v.table(plan.get("correctness") or row.get("correctness"))),
        "memory": None if workspace is None else Memory(None, workspace, None),
    }
    said = filter(v.text, plan.get("warnings") or row.get("warnings") or ())
    return Measured(
        **_identity(graph),
        **(times if completed else {}),
        engine=key,
        device_index=0,
        outcome=Outcome(status, None if completed else _reason(row)),
        work=Work(flops, moved, flops / moved if flops is not None and moved else None),
        flags=(
            *(one.partition(":")[0] for one in said),
            *("capped",) * (timing.get("capped") is True),
        ),
        facts=facts if completed else {"variant": variant},
        engine_facts=engine,
    )


def _reason(found: Table) -> str:
    names = ("message", "error_message", "skip_reason", "error")
    return v.text(*map(found.get, names)) or f"status {found.get('status')!r}, no message"


def _stats(stats: Any, timing: Table) -> Summary | None:
    """Return statistics, whose keys end in ``_ms``; older layouts say their number by the total."""
    found = v.table(stats)
    known = {key.removesuffix("_ms"): value for key, value in found.items() if key != "cv"}
    total, mean = v.number(known.get("total")), v.number(known.get("mean"))
    if "n" not in known and total is not None and mean:
        known["n"] = round(total / mean)
    known.setdefault("n", timing.get("samples"))
    return v.summary(known, "ms")


def _validation(found: Table) -> Validation:
    match = found.get("match", found.get("tolerance_match", found.get("passed")))
    said = v.text(found.get("message"), found.get("error_message"))
    if not isinstance(match, bool):
        return Validation("not checked", v.UNKNOWN, said, (), 0, 0, None)
    names = {"max_abs": "max_abs_diff", "max_rel": "max_rel_diff", "rtol": "rtol", "atol": "atol"}
    given = {name: v.number(found.get(key)) for name, key in names.items()}
    numbers = {name: math.nan if one is None else one for name, one in given.items()}
    wrong = v.whole(found.get("n_mismatch"))
    output = OutputValidation(
        uid=v.whole(found.get("worst_output_uid")) or 0,
        name="worst output",
        data_type=v.UNKNOWN,
        elements=v.whole(found.get("n_total")) or 0,
        mismatched=int(not match) if wrong is None else wrong,
        relative_l2=math.nan,
        tolerance_source="imported",
        worst=(),
        **numbers,
    )
    known = output.elements > 0 or given["max_abs"] is not None
    status: Any = "passed" if match else "failed"
    return Validation(status, v.UNKNOWN, said, (output,) if known else (), 0, 0, None)


def _single(tree: Table, facts: Table, path: Path) -> Measured:
    """Read v0: one graph, one engine, samples in milliseconds."""
    identity = facts.get("engine_id")
    backend = v.text(facts.get("execution_backend")) or TOOL
    host = tree.get("host_timings", tree.get("e2e_timings"))
    names = {"device_ns": tree.get("kernel_timings"), "e2e_ns": host}
    taken = {name: v.samples(one or (), "ms") for name, one in names.items()}
    return Measured(
        **_identity({**facts, "graph_name": v.text(facts.get("graph_name")) or path.stem}),
        **both(*(series(name, [one], None) for name, one in taken.items())),
        engine=backend if identity is None else f"{backend}:{identity}",
        engine_facts={"id": None if identity is None else str(identity)},
    )
