"""JSON: the whole comparison, for programs. Its schema is `compare_v2.json` beside this file.

``bench-run --rerun-from`` reads it back: each case carries graph path, name, fingerprint, engine
key and verdict. Sorting, filtering and colours do not apply: it is the record.
"""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson

from bench_compare.metrics import METRICS
from bench_compare.model import MetricComparison, exit_code
from bench_compare.parallel import share_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.model import (
        CaseComparison,
        CaseSide,
        Comparison,
        Detail,
        Side,
        View,
    )

COMPARE_VERSION = 2
LEAST_SHARE = 2_000
"""Cases that are worth a process."""
BLOCK = 256
"""Cases of which all values are held at once."""
NO_CASES = '"cases": []'
METRIC_FIELDS = tuple(
    "reason" if name == "make_reason" else name
    for name in MetricComparison.__struct_fields__
    if name != "metric"
)


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of what `render` writes."""
    text = (
        files("bench_compare.report")
        .joinpath(f"compare_v{COMPARE_VERSION}.json")
        .read_text("utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def render(comparison: Comparison, view: View) -> str:  # noqa: ARG001 - the record is whole
    cases = share_out(
        lambda part: _blocks(comparison.cases[part.start : part.stop]),
        len(comparison.cases),
        1,
        LEAST_SHARE,
    )
    around = orjson.dumps(_shell(comparison), option=orjson.OPT_INDENT_2).decode()
    before, empty, after = around.rpartition(NO_CASES)
    if not cases:
        return f"{around}\n"
    more = chain.from_iterable((",", block) for block in cases[1:])
    return "".join((before, empty[:-1], cases[0], *more, "\n  ]", after, "\n"))


def _blocks(cases: Sequence[CaseComparison]) -> list[str]:
    """As they stand in the record, two levels deep, some at a time, without brackets around."""
    found = []
    for start in range(0, len(cases), BLOCK):
        values = [_case(case) for case in cases[start : start + BLOCK]]
        text = orjson.dumps(values, option=orjson.OPT_INDENT_2)[1:-2]
        found.append(text.replace(b"\n", b"\n  ").decode())  # in texts it is an escape
    return found


def _shell(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values, all but its cases; numbers that JSON cannot hold become
    null."""
    return {
        "kind": "bench-compare",
        "compare_version": COMPARE_VERSION,
        "exit_code": exit_code(comparison),
        "base": _side(comparison.base),
        "others": [_side(side) for side in comparison.others],
        "policy": dict(comparison.policy),
        "gate": comparison.gate,
        "metrics": {
            name: {"unit": METRICS[name].unit, "title": METRICS[name].title}
            for name in comparison.metrics
        },
        "problems": list(comparison.problems),
        "warnings": list(comparison.warnings),
        "differences": [_values(d) for d in comparison.differences],
        "counts": {verdict.value: number for verdict, number in comparison.counts.items()},
        "suite": [_values(number) for number in comparison.suite],
        "movements": [_values(movement) for movement in comparison.movements],
        "sensitivity": [_values(one) for one in comparison.sensitivity],
        "bad_news": [_values(news) for news in comparison.bad_news],
        "cases": [],
    }


def _values(value: Any) -> dict[str, Any]:
    """Fields of a flat frozen value, by name."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "engines": list(side.engines),
        "documents": [
            {
                "path": source.path,
                "format": source.format,
                "notes": list(source.notes),
                "run_id": source.document.run.id,
                "started": source.document.run.started,
                "host": source.document.machine.host,
                "complete": source.document.run.complete,
            }
            for source in side.sources
        ],
    }


def _case(case: CaseComparison) -> dict[str, Any]:
    return {
        "id": case.id,
        "name": case.name,
        "fingerprint": case.fingerprint,
        "family": case.family,
        "data_type": case.data_type,
        "engine": case.engine,
        "variant": dict(case.variant),
        "other_label": case.other_label,
        "verdict": case.verdict.value,
        "reason": case.reason,
        "gate": case.gate,
        "base": _case_side(case.base),
        "other": _case_side(case.other),
        "changes": [{"verdict": c.verdict.value, "reason": c.reason} for c in case.changes],
        "metrics": {name: _metric(metric) for name, metric in case.metrics.items()},
        "notes": [_values(note) for note in case.notes],
        "detail": _detail(case.detail),
    }


def _case_side(side: CaseSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    last = side.cases[-1]
    return {
        "name": side.name,
        "case": last.id,
        "engine": side.engine,
        "variant": dict(last.variant),
        "path": last.graph.path,
        "sha256": last.graph.sha256,
        "documents": list(side.sources),
        "status": last.outcome.status,
        "status_reason": last.outcome.reason,
        "validation": None if last.validation is None else last.validation.status,
    }


def _metric(metric: MetricComparison) -> dict[str, Any]:
    return {name: getattr(metric, name) for name in METRIC_FIELDS}


def _detail(detail: Detail | None) -> dict[str, Any] | None:
    if detail is None:
        return None
    ratios = {str(percent): ratio for percent, ratio in detail.quantile_ratios.items()}
    return {**_values(detail), "quantile_ratios": ratios}
