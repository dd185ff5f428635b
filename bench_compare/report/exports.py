"""Documents in the formats of other tools: one function and one file a format.

Times are those of the estimator (`bench_schema.estimate`), in nanoseconds unless a format fixes
another unit. Cases without a time are left out of formats that hold numbers only.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.estimate import case_time, round_logs, time_series
from bench_schema.identity import engine_names

from bench_compare.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_schema.document import Case, Document, EngineRecord
    from bench_schema.estimate import Time

    from bench_compare.model import Source

NAME_CHARACTERS = 1024
"""The longest name that Bencher takes."""
DIGEST_CHARACTERS = 12


@dataclass(frozen=True, eq=False)
class Exported:
    """A case of a document that is exported."""

    source: Source
    case: Case
    engine: EngineRecord
    engine_name: str
    sha256: str
    """Hash of the document's file."""

    @property
    def document(self) -> Document:
        return self.source.document

    @cached_property
    def series(self) -> str | None:
        return time_series(self.case)

    @cached_property
    def time(self) -> Time | None:
        return case_time(self.case) if self.case.outcome.status == "completed" else None

    @property
    def name(self) -> str:
        """Graph, engine and variant, unique in a document."""
        variant = "".join(f" {key}={value}" for key, value in sorted(self.case.variant.items()))
        return f"{self.case.graph.name} [{self.engine_name}{variant}]"

    @property
    def rounds_ns(self) -> list[float]:
        """The time of each round; the time of the case if it has no samples."""
        found = {} if self.series is None else round_logs(self.case, self.series)
        if found:
            return [math.exp(log) for log in found.values()]
        return [] if self.time is None else [self.time.ns]


def cases_of(sources: Sequence[Source]) -> list[Exported]:
    """Return all cases of the documents."""
    found = []
    for source in sources:
        engines = {engine.key: engine for engine in source.document.engines}
        names = engine_names(engines)
        sha256 = hashlib.sha256(Path(source.path).read_bytes()).hexdigest()
        found += [
            Exported(source, case, engines[case.engine], names[case.engine], sha256)
            for case in source.document.cases
        ]
    return found


def _timed(cases: Sequence[Exported], kind: str) -> dict[str, tuple[Exported, Time]]:
    """Return cases with a time, by name. Raises `InputError` if two have one name."""
    found: dict[str, tuple[Exported, Time]] = {}
    for one in cases:
        if one.time is None:
            continue
        first = found.setdefault(one.name, (one, one.time))[0]
        if first is not one:
            raise InputError(
                f"--to {kind}: {one.name} is in {first.source.path} and in {one.source.path}, and "
                "this format has one value a name: export one document at a time"
            )
    return found


def bmf(cases: Sequence[Exported]) -> str:
    """Return JSON: ``{benchmark: {"latency": {value, lower_value, upper_value}}}`` in
    nanoseconds."""
    found = {}
    for name, (_, time) in _timed(cases, "bmf").items():
        measure = {"value": time.ns}
        if time.low_ns is not None and time.high_ns is not None:
            measure |= {"lower_value": time.low_ns, "upper_value": time.high_ns}
        found[shortened(name)] = {"latency": measure}
    return _json(found)


def shortened(name: str) -> str:
    """Return a name that Bencher takes; a long one ends with a part of its hash."""
    if len(name) <= NAME_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{name[: NAME_CHARACTERS - DIGEST_CHARACTERS - 1]} {digest}"


def hud(cases: Sequence[Exported]) -> str:
    """Return the JSON text of a list of records, one for each case with a time; the values are
    those of the rounds."""
    return _json([_record(one) for one in cases if one.time is not None])


def _record(one: Exported) -> dict[str, Any]:
    case, machine, run = one.case, one.document.machine, one.document.run
    graph, device = case.graph, one.engine.device_kind
    on_cpu = one.engine.device == "cpu"
    return {
        "benchmark": {
            "name": "dnn-bench",
            "mode": "inference",
            "dtype": graph.data_type,
            "extra_info": {
                "document_sha256": one.sha256,
                "run": run.id,
                "tool": f"{run.tool.name} {run.tool.version}",
                **({"label": run.label} if run.label else {}),
                **{f"tag:{key}": value for key, value in run.tags.items()},
            },
        },
        "model": {
            "name": graph.name,
            "type": graph.family,
            "backend": one.engine_name,
            "origins": [run.tool.name],
            "extra_info": {"fingerprint": graph.fingerprint, **case.variant},
        },
        "dependencies": {
            name: {"version": version} for name, version in sorted(one.engine.libraries.items())
        },
        "metric": {
            "name": one.series,
            "benchmark_values": one.rounds_ns,
            "extra_info": {"unit": "ns", "validation": _validation(case)},
        },
        "runners": [
            {
                "name": machine.host,
                "type": (machine.cpu.model or "cpu") if on_cpu else device,
                "cpu_info": machine.cpu.model or "",
                "cpu_count": machine.cpu.threads or machine.cpu.cores or 0,
                "mem_info": str(machine.memory_bytes or ""),
                "gpu_info": "" if on_cpu else device,
                "gpu_count": len(machine.devices),
            }
        ],
    }


def _validation(case: Case) -> str:
    return "not checked" if case.validation is None else case.validation.status


def github_action_benchmark(cases: Sequence[Exported]) -> str:
    """Return JSON: ``[{name, unit, value, range, extra}]`` in nanoseconds."""
    found = []
    for name, (one, time) in _timed(cases, "github-action-benchmark").items():
        entry: dict[str, Any] = {"name": name, "unit": "ns", "value": time.ns}
        if time.low_ns is not None and time.high_ns is not None:
            entry["range"] = f"± {(time.high_ns - time.low_ns) / 2:.4g}"
        facts = {
            "series": one.series,
            "device": one.engine.device_kind,
            "validation": _validation(one.case),
            "document sha256": one.sha256,
        }
        entry["extra"] = "\n".join(f"{key}: {value}" for key, value in facts.items())
        found.append(entry)
    return _json(found)


ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def openmetrics(cases: Sequence[Exported]) -> str:
    """Return the text of gauges in seconds, labelled graph, engine, device, data type and
    series."""
    _timed(cases, "openmetrics")
    lines = []
    for name, unit, text, read in GAUGES:
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else [])]
        lines.append(f"# HELP {name} {text}")
        values: dict[str, float] = {}
        for one in cases:
            value, labels = read(one), _labels(one)
            if value is not None:  # several cases that ended early can have equal labels
                values[labels] = min(value, values.get(labels, value))
        lines += [f"{name}{{{labels}}} {value!r}" for labels, value in values.items()]
    return "\n".join([*lines, "# EOF", ""])


def _labels(one: Exported) -> str:
    found = {
        "graph": one.case.graph.name,
        "engine": one.engine_name,
        "variant": " ".join(f"{key}={value}" for key, value in sorted(one.case.variant.items())),
        "device": one.engine.device_kind,
        "dtype": one.case.graph.data_type,
        "series": one.series or "",
        "document_sha256": one.sha256,
    }
    return ",".join(f'{key}="{value.translate(ESCAPED)}"' for key, value in found.items())


def _seconds(one: Exported) -> float | None:
    return None if one.time is None else one.time.ns / 1e9


def _passed(one: Exported) -> float | None:
    """Return 1 for outputs that passed, 0 for those that did not; None if they were not checked."""
    found = {"passed": 1.0, "failed": 0.0}
    return found.get(_validation(one.case))


def _completed(one: Exported) -> float:
    return float(one.case.outcome.status == "completed")


GAUGES: tuple[tuple[str, str, str, Callable[[Exported], float | None]], ...] = (
    ("bench_time_seconds", "seconds", "Time of one execution.", _seconds),
    ("bench_outputs_passed", "", "1 if the outputs agree with the reference.", _passed),
    ("bench_completed", "", "1 if the case completed.", _completed),
)
"""Name, unit, help, and the value of a case; None leaves it out."""


LEDGER = (
    *("asic", "workload", "graph_name", "engine_id", "engine_name", "role", "status"),
    *("correctness_match", "applicable", "error_message", "skip_reason"),
)
STATUS = {"completed": "success", "unsupported": "skipped", "skipped": "skipped"}
"""Status of a case to the ledger's; all others are errors."""


def ledger(cases: Sequence[Exported]) -> str:
    """Return CSV text with a row for each case."""
    out = io.StringIO()
    rows = csv.DictWriter(out, LEDGER, lineterminator="\n")
    rows.writeheader()
    for one in cases:
        rows.writerow(_ledger_row(one))
    return out.getvalue()


def _ledger_row(one: Exported) -> dict[str, object]:
    case, devices = one.case, one.document.machine.devices
    status = STATUS.get(case.outcome.status, "error")
    matches = {"passed": "true", "failed": "false"}.get(_validation(case), "")
    arch = next((d.arch for d in devices if d.name == one.engine.device_kind and d.arch), None)
    reason = case.outcome.reason or ""
    return {
        "asic": arch or one.engine.device_kind,
        "workload": case.graph.family,
        "graph_name": case.graph.name,
        "engine_id": one.engine.id or "",
        "engine_name": one.engine_name,
        "role": "engine",
        "status": status,
        "correctness_match": matches if status == "success" else "",
        "applicable": str(case.outcome.status != "unsupported").lower(),
        "error_message": reason if status == "error" else "",
        "skip_reason": reason if status == "skipped" else "",
    }


def parquet(cases: Sequence[Exported], path: Path) -> list[Path]:
    """Write a row for each case to `path`, and one for each sample to a file next to it,
    ``NAME.samples.parquet``. Raises `UsageError` without the package *pyarrow*."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "--to parquet needs the package pyarrow: pip install 'dnn-bench[parquet]'"
        ) from None
    numbers = {id(one): number for number, one in enumerate(cases)}
    rows = [_parquet_row(number, one) for number, one in enumerate(cases)]
    samples: dict[str, list[Any]] = {
        name: [] for name in ("case", "series", "round", "iteration", "is_warmup", "time_ns")
    }
    for one in cases:
        for columns in _parquet_samples(numbers[id(one)], one.case):
            for name, values in columns.items():
                samples[name] += values
    beside = path.with_name(f"{path.name.removesuffix('.parquet')}.samples.parquet")
    for target, table in (
        (path, pyarrow.Table.from_pylist(rows)),
        (beside, pyarrow.table(samples)),
    ):
        pyarrow.parquet.write_table(table, target, compression="zstd")
    return [path, beside]


def _parquet_row(number: int, one: Exported) -> dict[str, Any]:
    case, run = one.case, one.document.run
    time = one.time
    return {
        "case": number,
        "document": one.source.path,
        "document_sha256": one.sha256,
        "run": run.id,
        "label": run.label,
        "started": run.started,
        "host": one.document.machine.host,
        "graph": case.graph.name,
        "fingerprint": case.graph.fingerprint,
        "family": case.graph.family,
        "data_type": case.graph.data_type,
        "engine": one.engine_name,
        "variant": json.dumps(dict(case.variant), sort_keys=True),
        "device": one.engine.device_kind,
        "outcome": case.outcome.status,
        "reason": case.outcome.reason,
        "validation": _validation(case),
        "series": one.series,
        "time_ns": None if time is None else time.ns,
        "time_low_ns": None if time is None else time.low_ns,
        "time_high_ns": None if time is None else time.high_ns,
        "flops": case.work.flops,
        "moved_bytes": case.work.moved_bytes,
    }


def _parquet_samples(number: int, case: Case) -> Iterator[dict[str, list[Any]]]:
    """Yield columns of each series of each round; samples of the warm-up cut are marked."""
    for one in case.rounds:
        for name, values in one.series.items():
            cut = one.cut.get(name, 0)
            size = len(values)
            yield {
                "case": [number] * size,
                "series": [name] * size,
                "round": [one.index] * size,
                "iteration": list(range(size)),
                "is_warmup": [place < cut for place in range(size)],
                "time_ns": [float(value) for value in values],
            }


def _json(tree: Any) -> str:
    return json.dumps(tree, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


TEXTS: Mapping[str, Callable[[Sequence[Exported]], str]] = {
    "bmf": bmf,
    "hud": hud,
    "github-action-benchmark": github_action_benchmark,
    "openmetrics": openmetrics,
    "ledger": ledger,
}
"""Kind to what makes its text."""
KINDS = (*TEXTS, "parquet")
TIMES_ONLY = ("bmf", "hud", "github-action-benchmark")
"""Kinds that have no place for a case without a time."""
