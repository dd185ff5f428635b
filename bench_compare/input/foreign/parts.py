"""Pieces of our document from values that may be missing: absent and null are unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from bench_schema.document import (
    SCHEMA_VERSION,
    Cpu,
    Device,
    Document,
    Machine,
    OutputValidation,
    Run,
    Settings,
    Summary,
    Tool,
    Validation,
)
from bench_schema.settings import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.document import Case, EngineRecord, Samples

Table: TypeAlias = "Mapping[str, Any]"
NS_PER_MS = 1e6
UNKNOWN = "unknown"
CACHES = {"warm": "hot", "cold": "cold"}


def table(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty one: missing keys are tolerated
    everywhere."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> Sequence[Mapping[str, Any]]:
    return [table(one) for one in value] if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number, otherwise None; booleans are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else round(found)


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def words(value: Any) -> str:
    """Return a value as people write it, for settings that are shown."""
    return UNKNOWN if value is None else str(value)


def milliseconds(value: Any) -> Samples:
    """Return one initialisation phase in milliseconds; empty if it is unknown."""
    found = number(value)
    return np.array([] if found is None else [round(found * NS_PER_MS)], np.int64)


def series(values: Any) -> Samples:
    """Convert samples from milliseconds to nanoseconds; values that are not numbers are left
    out."""
    found = [number(value) for value in values] if isinstance(values, list) else []
    return np.array([round(x * NS_PER_MS) for x in found if x is not None], np.int64)


def summary(stats: Any) -> Summary | None:
    """Return statistics in milliseconds; NaN if they were not stored. None without a centre."""
    found = table(stats)
    median = number(found.get("median_ms"))
    mean = number(found.get("mean_ms"))
    if median is None and mean is None:
        return None

    def ns(name: str) -> float:
        value = number(found.get(f"{name}_ms"))
        return math.nan if value is None else value * NS_PER_MS

    count = whole(found.get("n"))
    if count is None:
        total = number(found.get("total_ms"))
        count = round(total / mean) if total is not None and mean else 0  # 0: unknown
    deviation = number(found.get("std_ms"))
    quartiles = number(found.get("p25_ms")), number(found.get("p75_ms"))
    iqr = number(found.get("iqr_ms"))
    if iqr is None and None not in quartiles:
        iqr = (quartiles[1] or 0.0) - (quartiles[0] or 0.0)
    return Summary(
        count=count,
        mean=ns("mean"),
        std=None if deviation is None else deviation * NS_PER_MS,
        min=ns("min"),
        p5=math.nan,
        median=ns("mean") if median is None else ns("median"),
        p90=math.nan,
        p95=ns("p95"),
        p99=ns("p99"),
        max=ns("max"),
        mad=math.nan if iqr is None else iqr / 2 * NS_PER_MS,
        median_ci_low=None,
        median_ci_high=None,
    )


def validation(correctness: Any) -> Validation:
    found = table(correctness)
    match = found.get("match", found.get("tolerance_match", found.get("passed")))
    if not isinstance(match, bool):
        return Validation("not checked", UNKNOWN, text(found.get("message")), (), 0, 0, None)
    message = text(found.get("message")) or text(found.get("error_message"))
    wrong = 0 if match else 1
    output = OutputValidation(
        uid=whole(found.get("worst_output_uid")) or 0,
        name="worst output",
        data_type=UNKNOWN,
        elements=whole(found.get("n_total")) or 0,
        mismatched=_or(whole(found.get("n_mismatch")), wrong),
        max_abs=_or(number(found.get("max_abs_diff")), math.nan),
        max_rel=_or(number(found.get("max_rel_diff")), math.nan),
        relative_l2=math.nan,
        rtol=_or(number(found.get("rtol")), math.nan),
        atol=_or(number(found.get("atol")), math.nan),
        tolerance_source="imported",
        worst=(),
    )
    known = output.elements > 0 or number(found.get("max_abs_diff")) is not None
    return Validation(
        "passed" if match else "failed",
        UNKNOWN,
        message,
        (output,) if known else (),
        0,
        0,
        None,
    )


def _or(value: float | None, default: float) -> Any:
    return default if value is None else value


def machine(facts: Mapping[str, Any], host: str | None) -> Machine:
    """Return the machine from ``environment`` of newer layouts or ``metadata`` of older ones."""
    model = text(facts.get("gpu_model"))
    gigabytes = number(facts.get("gpu_hbm_gb"))
    device = Device(
        index=0,
        name=model or UNKNOWN,
        uuid=None,
        driver=text(facts.get("amdgpu_driver_version")),
        arch=text(facts.get("gpu_arch")),
        memory_bytes=None if gigabytes is None else round(gigabytes * 2**30),
        l2_bytes=None,
        max_sm_clock_mhz=number(facts.get("gpu_max_sclk_mhz")),
        max_memory_clock_mhz=None,
        power_limit_w=number(facts.get("gpu_power_cap_w")),
    )
    names = ("rocm", "cuda", "cudnn", "hipdnn", "torch")
    found = {name: text(facts.get(f"{name}_version")) for name in names}
    memory = number(facts.get("total_ram_gb"))
    return Machine(
        host=text(facts.get("hostname")) or host or UNKNOWN,
        os=UNKNOWN,
        kernel=text(facts.get("kernel_version")) or UNKNOWN,
        cpu=Cpu(text(facts.get("cpu_model")), None, whole(facts.get("cpu_count"))),
        memory_bytes=None if memory is None else round(memory * 2**30),
        python=text(facts.get("python_version")) or UNKNOWN,
        packages={name: version for name, version in found.items() if version is not None},
        devices=() if model is None else (device,),
        environment={},
        graphs_revision=None,
    )


def settings(config: Mapping[str, Any], timer: str) -> Settings:
    cache = text(config.get("cache_mode"))
    known: dict[str, Any] = {
        "timer": timer,
        "cache": UNKNOWN if cache is None else CACHES.get(cache, cache),
        "duty": UNKNOWN,
        "math": UNKNOWN,
        "replay": False,
        "warmup": whole(config.get("warmup_iters")) or 0,
        "iterations": whole(config.get("iters", config.get("benchmark_iters"))) or 0,
        "rounds": 1,
        "seed": whole(config.get("seed")) or 0,
        "reference": text(config.get("validate")) or UNKNOWN,
        "tolerance": UNKNOWN,
        "rtol": number(config.get("rtol")),
        "atol": number(config.get("atol")),
        "check_budget_s": 0.0,
    }
    return Settings(**{**dict.fromkeys(rows_of(Settings)), **known})


def document(
    run: Run, machine: Machine, engines: Mapping[str, EngineRecord], cases: Sequence[Case]
) -> Document:
    return Document(SCHEMA_VERSION, run, machine, tuple(engines.values()), tuple(cases))


def run(
    identity: str,
    started: str | None,
    settings: Settings,
    *,
    complete: bool,
    tool: Tool,
    tags: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Run:
    return Run(
        id=identity,
        label=None,
        tags=tags or {},
        notes=notes,
        started=started or "1970-01-01T00:00:00+00:00",
        finished=None,
        complete=complete,
        command=(),
        tool=tool,
        settings=settings,
    )
