"""Documents written down by hand or drawn from a generator, for tests and benchmarks."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import (
    SCHEMA_VERSION,
    Case,
    Cpu,
    Document,
    Engine,
    GraphId,
    Machine,
    Outcome,
    OutputValidation,
    Round,
    Run,
    Settings,
    Telemetry,
    Tool,
    Validation,
    Work,
)
from bench_schema.summary import summarize, warmup_cut

from bench_compare.model import Side, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STARTED = "2026-01-02T03:04:05+00:00"


def settings(**changes: Any) -> Settings:
    values: dict[str, Any] = {
        "timer": "host",
        "cache": "hot",
        "duty": "cool",
        "math": "fp32",
        "replay": False,
        "warmup": 10,
        "iterations": 100,
        "rounds": 5,
        "min_time_s": None,
        "max_time_s": None,
        "precision_ratio": None,
        "timeout_s": 60.0,
        "seed": 1,
        "reference": "numpy",
        "tolerance": "default",
        "rtol": None,
        "atol": None,
        "check_budget_s": 1.0,
    }
    return Settings(**{**values, **changes})


def engine(key: str = "numpy", **changes: Any) -> Engine:
    values: dict[str, Any] = {
        "key": key,
        "name": key.split(":")[0].split("@")[0],
        "id": None,
        "plugin_path": None,
        "plugin_sha256": None,
        "libraries": {},
        "device": "cpu",
        "device_kind": "cpu",
        "knobs": {},
    }
    return Engine(**{**values, **changes})


def machine(host: str = "host") -> Machine:
    return Machine(
        host=host,
        os="Linux",
        kernel="6.1",
        cpu=Cpu("a cpu", 2, 2),
        memory_bytes=None,
        python="3.11",
        packages={},
        devices=(),
        environment={},
        graphs_revision=None,
    )


def fingerprint(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def round_(
    index: int, samples: Mapping[str, Any], *, clock_mhz: float | None = None, cut: int | None = 0
) -> Round:
    series = {name: np.asarray(values, np.int64) for name, values in samples.items()}
    found = {name: warmup_cut(values) for name, values in series.items()} if cut is None else {}
    telemetry = None if clock_mhz is None else Telemetry(sm_clock_mhz=clock_mhz)
    return Round(
        index=index,
        started=STARTED,
        pid=1,
        position=0,
        series=series,
        warmup={},
        cut={name: found[name].cut for name in found} or dict.fromkeys(series, cut or 0),
        not_warm=tuple(name for name in found if found[name].not_warm),
        checks=None,
        telemetry_before=telemetry,
    )


def validation(status: str = "passed", mismatched: int = 0, max_abs: float = 0.0) -> Validation:
    output = OutputValidation(
        1, "y", "float", 10, mismatched, max_abs, 0.0, 0.0, 1e-5, 1e-6, "table", ()
    )
    outputs = () if status == "not checked" else (output,)
    return Validation(status, "numpy", None, outputs, 1, 0, None)  # type: ignore[arg-type]


def case(name: str, rounds: Sequence[Any] = (), **changes: Any) -> Case:
    """`rounds`: arrays of end-to-end samples, one a round, or `Round` values."""
    status = changes.pop("status", "completed")
    reason = changes.pop("reason", None if status == "completed" else "it went wrong")
    graph = GraphId(
        name=name,
        path=f"{name}.json",
        sha256=fingerprint(f"file {name}"),
        fingerprint=changes.pop("fingerprint", fingerprint(name)),
        family=changes.pop("family", "matmul"),
        data_type=changes.pop("data_type", "float"),
    )
    made = tuple(
        one if isinstance(one, Round) else round_(index, {"e2e_ns": one})
        for index, one in enumerate(rounds)
    )
    values: dict[str, Any] = {
        "id": f"{changes.get('engine', 'numpy')}/{name}",
        "graph": graph,
        "engine": "numpy",
        "variant": {},
        "outcome": Outcome(status, reason),
        "init": {},
        "rounds": made,
        "summary": _summaries(made) if changes.pop("summaries", False) else {},
        "validation": None,
        "work": Work(None, None, None),
        "achieved": None,
        "memory": None,
        "plan": {},
        "kernels": (),
        "stopped_by": "iterations" if made else None,
        "notes": (),
    }
    return Case(**{**values, **changes})


def _summaries(rounds: Sequence[Round]) -> dict[str, Any]:
    names = rounds[0].series if rounds else ()
    return {
        name: summarize([one.series[name] for one in rounds], [one.cut[name] for one in rounds])
        for name in names
    }


def document(
    cases: Sequence[Case], label: str | None = None, run_id: str = "run", **changes: Any
) -> Document:
    """Engines not given are made up from the cases' keys."""
    keys = dict.fromkeys(one.engine for one in cases)
    run = Run(
        id=run_id,
        label=label,
        tags=changes.pop("tags", {}),
        started=STARTED,
        finished=STARTED,
        complete=changes.pop("complete", True),
        command=("bench-run",),
        tool=Tool("bench-run", "0"),
        settings=settings(**changes.pop("settings", {})),
    )
    return Document(
        schema_version=SCHEMA_VERSION,
        run=run,
        machine=changes.pop("machine", machine()),
        engines=tuple(changes.pop("engines", [engine(key) for key in keys])),
        cases=tuple(replace(one, id=f"{number}") for number, one in enumerate(cases)),
    )


def side(label: str, *documents: Document) -> Side:
    sources = tuple(
        Source(f"{label}{number}.json", one, "bench") for number, one in enumerate(documents)
    )
    keys = dict.fromkeys(e.key for one in documents for e in one.engines)
    return Side(label, sources, tuple(keys))


def steady(random: np.random.Generator, level_ns: float, rounds: int = 5, count: int = 20) -> Any:
    """Rounds of mild noise around a level: 0.2 % between rounds, 0.5 % within."""
    level = level_ns * np.exp(random.normal(0, 0.002, (rounds, 1)))
    return np.rint(level * np.exp(random.normal(0, 0.005, (rounds, count)))).astype(np.int64)
