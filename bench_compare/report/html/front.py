"""Data that the page needs at once: headline, sides, and one column for each property of a row.

Names are stored once in tables and referred to by index; the samples are in `samples.py`.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench_compare.metrics import METRICS
from bench_compare.model import NEWS, RANK, Verdict
from bench_compare.report import words
from bench_compare.report.defaults import default_texts
from bench_compare.report.html.candidates import candidate_groups
from bench_compare.report.rows import SORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from bench_compare.model import CaseComparison, Comparison, MetricComparison, View

Floats: TypeAlias = "npt.NDArray[np.float32]"

COMMON_SHARE = 0.9
"""Share of cases from which a common note is printed once."""
DIGITS = 6
"""Significant digits of single numbers in the page."""

NUMBERS = ("base", "other", "ratio", "low", "high", "q")
"""The first rows of `numbers_of`, for the metric that decides."""
WORDS: dict[str, Callable[[CaseComparison], str]] = {
    "family": lambda case: case.family,
    "dtype": lambda case: case.data_type,
    "engine": lambda case: case.engine,
    "label": lambda case: case.other_label,
    "variant": lambda case: (
        ", ".join([f"{k}={v}" for k, v in case.variant.items()]) if case.variant else ""
    ),
    "metric": lambda case: case.gate or "",
}


def short(value: float | None) -> float | None:
    """Round to the digits that the page shows; infinities and NaN become unknown."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def shortened(rows: Sequence[float | None] | Sequence[Sequence[float | None]]) -> list[Any]:
    """Apply `short` to many numbers at once; unknown is NaN."""
    values = np.array(rows, dtype=np.float64)
    size = np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0))
    places = DIGITS - 1 - np.floor(np.log10(size))
    with np.errstate(over="ignore", invalid="ignore"):
        up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
        found = np.rint(values * up / down) / up * down
    found = np.where(np.isfinite(found), found, values)
    plain: list[Any] = np.where(np.isfinite(found), found, np.nan).tolist()
    return plain


def floats(
    rows: Sequence[float | None] | Sequence[Sequence[float | None]] | npt.NDArray[np.float64],
) -> Floats:
    """Convert to single precision, which is finer than anything the page shows; unknown is NaN, in
    JSON null."""
    with np.errstate(over="ignore"):
        return np.array(rows, dtype=np.float64).astype(np.float32)


def numbers_of(metrics: Sequence[MetricComparison | None]) -> npt.NDArray[np.float64]:
    """Return base, other, ratio, both ends of its interval, q and threshold: a row each, NaN if not
    known."""
    rows = [
        (None,) * 7
        if m is None
        else (m.base, m.other, m.ratio, m.ci_low, m.ci_high, m.q, m.threshold_ratio)
        for m in metrics
    ]
    return np.ascontiguousarray(np.array(rows, float).reshape(-1, 7).T)


def front_data(comparison: Comparison, view: View, chunk: int) -> dict[str, Any]:
    """Return plain values; `chunk` is the number of cases in one block of details. The column "why"
    is missing: it is made together with the blocks."""
    cases, allowed = comparison.cases, words.allowed_cases(comparison)
    noted = [tuple(dict.fromkeys([note.kind for note in case.notes])) for case in cases]
    gates = numbers_of([case.gate_metric for case in cases])
    thresholds = np.unique(gates[-1][~np.isnan(gates[-1])])
    return {
        "title": words.title(comparison),
        "sides": [_side("base", comparison.base)]
        + [_side("other", side) for side in comparison.others],
        "differences": [
            [d.name, d.base, d.other, d.other_label, d.must_agree] for d in comparison.differences
        ],
        "policy": dict(comparison.policy),
        "problems": comparison.problems,
        "warnings": comparison.warnings,
        "gate": comparison.gate,
        "threshold": float(thresholds[0]) if thresholds.size == 1 else None,
        "metrics": {
            name: [METRICS[name].title, METRICS[name].unit, METRICS[name].better]
            for name in comparison.metrics
        },
        "suite": [
            {
                "label": number.other_label,
                "metric": number.metric,
                "scope": number.scope,
                "name": number.name,
                "ratio": short(number.ratio),
                "low": short(number.ci_low),
                "high": short(number.ci_high),
                "count": number.count,
                "unit": number.unit,
            }
            for number in comparison.suite
        ],
        "sensitivity": words.sensitivity_texts(comparison),
        "blind": sorted(words.blind_sides(comparison)),
        "movements": [*words.movement_texts(comparison), *default_texts(comparison)],
        "badNews": _bad_news(comparison),
        "verdicts": [str(verdict) for verdict in NEWS],
        "counts": [comparison.counts.get(verdict, 0) for verdict in NEWS],
        "quiet": [str(v) for v in (Verdict.SAME, Verdict.UNCLEAR, Verdict.UNMEASURED)],
        "why": words.why_text(comparison),
        "noteKinds": _counts(noted),
        "start": {"sort": view.sort if view.sort in SORTS else "news", "filter": view.filter or ""},
        "candidates": candidate_groups(cases),
        "chunk": chunk,
        "cases": {
            **_columns(cases, gates, noted),
            "allowed": {str(i): 1 for i, case in enumerate(cases) if case.id in allowed},
        },
    }


def _bad_news(comparison: Comparison) -> list[list[Any]]:
    """Return bad news, worst first, as in the tables."""
    bad = {news.case for news in comparison.bad_news}
    cases = sorted([case for case in comparison.cases if case.id in bad], key=SORTS["news"])
    places = {case.id: place for place, case in enumerate(cases)}
    ordered = sorted(
        comparison.bad_news,
        key=lambda n: (n.case is not None, RANK[n.verdict], places.get(n.case or "", 0)),
    )
    return [[n.case, str(n.verdict), n.name, n.sentence, n.allowed] for n in ordered]


def _side(role: str, side: Any) -> dict[str, Any]:
    return {
        "role": role,
        "label": side.label,
        "facts": words.side_facts(side),
        "notes": [note for source in side.sources for note in source.notes],
        "files": [source.path for source in side.sources],
    }


def _columns(
    cases: Sequence[CaseComparison],
    gates: npt.NDArray[np.float64],
    noted: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Return one list for each property, in the order of the cases. Of each case: `gates`, the
    numbers of the metric that decides; `noted`, kinds of its notes."""
    # Cases with one number hold the same case of the base against different sides.
    groups = coded(
        (case.name, case.fingerprint, tuple(case.variant.items()))
        if case.base is None
        else id(case.base.cases[0])
        for case in cases
    )
    # Kinds of notes that nearly all cases have are said once, above the table.
    least = max(COMMON_SHARE * len(noted), 2)
    common = {kind for kind, number in _counts(noted).items() if number >= least}
    table: dict[str, Any] = {
        "id": [case.id for case in cases],
        "name": [case.name for case in cases],
        "verdict": [RANK[case.verdict] for case in cases],
        "provisional": [int(words.provisional(case)) for case in cases],
        "group": groups["codes"],
        "was": {
            str(i): case.base.name for i, case in enumerate(cases) if case.base and case.renamed
        },
    }
    table |= zip(NUMBERS, floats(gates), strict=False)
    for name, word in WORDS.items():
        table[name] = coded(map(word, cases))
    table["notes"] = coded(
        ", ".join([kind for kind in each if kind not in common]) for each in noted
    )
    return table


def _counts(noted: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the number of cases with each kind of note."""
    return dict(Counter(chain.from_iterable(noted)))


def coded(values: Iterable[object]) -> dict[str, Any]:
    """Return distinct values, and for each case the index of its value."""
    places: dict[object, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return {"values": list(places), "codes": codes}
