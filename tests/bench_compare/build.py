"""Documents written down by hand or drawn from a generator, for tests and benchmarks."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import (
    SCHEMA_VERSION,
    Achieved,
    Case,
    Checks,
    Cpu,
    Device,
    Document,
    EngineRecord,
    GraphId,
    Kernel,
    Machine,
    Memory,
    Mismatch,
    Outcome,
    OutputValidation,
    Revision,
    Round,
    Run,
    Settings,
    Telemetry,
    Tool,
    Validation,
    Work,
)
from bench_schema.estimate import warmup_cut
from bench_schema.settings import rows_of
from bench_schema.summary import summarize

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
    return Settings(**{**dict.fromkeys(rows_of(Settings)), **values, **changes})


def engine(key: str = "numpy", **changes: Any) -> EngineRecord:
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
    return EngineRecord(**{**values, **changes})


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
        path=changes.pop("path", f"{name}.json"),
        sha256=changes.pop("sha256", fingerprint(f"file {name}")),
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
    """Engines not given are made up from the cases' keys; other changes are those of the run."""
    keys = dict.fromkeys(one.engine for one in cases)
    machine_ = changes.pop("machine", machine())
    engines = changes.pop("engines", [engine(key) for key in keys])
    run: dict[str, Any] = {
        "tags": {},
        "started": STARTED,
        "finished": STARTED,
        "complete": True,
        "command": ("bench-run",),
        "tool": Tool("bench-run", "0"),
        **changes,
        "settings": settings(**changes.pop("settings", {})),
    }
    return Document(
        schema_version=SCHEMA_VERSION,
        run=Run(id=run_id, label=label, **run),
        machine=machine_,
        engines=tuple(engines),
        cases=tuple(replace(one, id=f"{number}") for number, one in enumerate(cases)),
    )


def side(label: str, *documents: Document) -> Side:
    sources = tuple(
        Source(f"{label}{number}.json", one, "bench") for number, one in enumerate(documents)
    )
    keys = dict.fromkeys(e.key for one in documents for e in one.engines)
    return Side(label, sources, tuple(keys))


H200 = Device(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-1",
    driver=None,
    arch="9.0",
    memory_bytes=150_754_820_096,
    l2_bytes=62_914_560,
    max_sm_clock_mhz=1980.0,
    max_memory_clock_mhz=3201.0,
    power_limit_w=700.0,
    ceiling_gbps=4100.0,
    ceiling_tflops={"BFLOAT16": 780.0, "FLOAT": 60.0},
)


def gpu_machine(driver: str) -> Machine:
    return Machine(
        host="box-7",
        os="Debian GNU/Linux 12",
        kernel="6.1.0",
        cpu=Cpu("AMD EPYC 9654", 96, 192),
        memory_bytes=2**38,
        python="3.11.2",
        packages={"numpy": "2.4.6"},
        devices=(replace(H200, driver=driver),),
        environment={},
        graphs_revision=Revision("0123456789abcdef", False),
    )


def gpu_document(
    label: str,
    cases: Sequence[Case],
    keys: Sequence[str],
    *,
    hour: int,
    driver: str,
    libraries: str = "9.1.0",
    **changes: Any,
) -> Document:
    """A run of these engines on an H200; `changes` are those of its settings."""
    names = {key: key.split(":")[0] for key in keys}
    on_device = {"device": "GPU-1", "device_kind": "NVIDIA H200"}
    return document(
        cases,
        label,
        f"run-{label}",
        machine=gpu_machine(driver),
        engines=[
            engine(key, name=name, libraries={name: libraries}, **on_device)
            for key, name in names.items()
        ],
        tags={"branch": label},
        started=f"2026-03-01T{hour:02}:00:00+00:00",
        finished=f"2026-03-01T{hour:02}:10:00+00:00",
        command=("bench-run", "graphs/"),
        tool=Tool("bench-run", "0.1.0"),
        settings={"timer": "events", "seed": 42, **changes},
    )


def gpu_round(index: int, samples: Mapping[str, Any], warmup: Any, **changes: Any) -> Round:
    """With validated iterations, and telemetry that falls with the rounds."""
    clock = 1980.0 - 15 * index
    values: dict[str, Any] = {
        "started": "2026-03-01T08:00:00+00:00",
        "pid": 100 + index,
        "position": index,
        "warmup": {"device_ns": warmup},
        "cut": {"device_ns": 0},
        "checks": Checks((0, 5), (0, 0), (1e-6, 1e-6), ("aa", "aa")),
        "telemetry_before": Telemetry(clock, 3201.0, 1975.0, 350.0, 45.0 + index),
        "telemetry_after": Telemetry(clock - 5, 3201.0, 1970.0, 420.0, 50.0, ("power",)),
    }
    return replace(round_(index, samples), **{**values, **changes})


def gpu_case(name: str, rounds: Sequence[Round], median_ns: float, **changes: Any) -> Case:
    """2 GFLOP, 10 MB, and everything else that a panel shows of a completed case."""
    kernel = Kernel("sm90_xmma_fprop_implicit_gemm_bf16", 1, median_ns * 0.97)
    values: dict[str, Any] = {
        "path": f"graphs/{name}.json",
        "sha256": "ab" * 32,
        "fingerprint": f"fp-{name}",
        "family": "conv_fwd",
        "data_type": "BFLOAT16",
        "engine": "cudnn",
        "init": {"load_ns": np.array([400_000] * 5), "plan_ns": np.array([90_000_000] * 5)},
        "work": Work(2 * 10**9, 10**7, 200.0),
        "achieved": Achieved("device_ns", 2e9 / median_ns / 1e3, 1e7 / median_ns, 0.5),
        "memory": Memory(10**8, 0, 10**7),
        "plan": {"engine id": "8", "math": "fp32"},
        "kernels": (kernel,),
        "stopped_by": "iterations",
    }
    return case(name, rounds, **{**values, **changes})


def gpu_validation(wrong: bool = False) -> Validation:
    """Of ten iterations; a wrong one names two elements."""
    mismatches = (Mismatch((0, 3, 1), 1.25, "NaN"), Mismatch((1, 0, 2), -0.5, -0.75))
    output = OutputValidation(
        uid=7,
        name="Y",
        data_type="BFLOAT16",
        elements=4096,
        mismatched=2 if wrong else 0,
        max_abs=0.25 if wrong else 1e-3,
        max_rel=0.3,
        relative_l2=1e-3,
        rtol=1e-2,
        atol=1e-3,
        tolerance_source="bfloat16 rounding",
        worst=mismatches if wrong else (),
    )
    reason = "2 of 4096 elements of Y are out of tolerance" if wrong else None
    status: Any = "failed" if wrong else "passed"
    return Validation(status, "numpy", reason, (output,), 10, 2 * wrong, True)


def on_device(rounds: Sequence[Any]) -> list[Round]:
    """Rounds whose device and end-to-end times are these arrays."""
    return [round_(index, {"device_ns": one, "e2e_ns": one}) for index, one in enumerate(rounds)]


def steady(random: np.random.Generator, level_ns: float, rounds: int = 5, count: int = 20) -> Any:
    """Rounds of mild noise around a level: 0.2 % between rounds, 0.5 % within."""
    level = level_ns * np.exp(random.normal(0, 0.002, (rounds, 1)))
    return np.rint(level * np.exp(random.normal(0, 0.005, (rounds, count)))).astype(np.int64)
