"""Sentences and cells that the formats of a composition share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_compare.compose.model import IntervalEstimate
from bench_compare.report.units import change_text, significant, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_compare.compose.model import Check, Composition, Configuration, ErrorBound, PassPart

JOULES = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"))
SERIES = {"device_ns": "device time", "e2e_ns": "end-to-end time"}


def joules_text(value: float | None) -> str:
    if value is None:
        return "-"
    factor, unit = next((step for step in JOULES if abs(value) >= step[0]), JOULES[-1])
    return f"{significant(value / factor)} {unit}"


def time_text(value: float | None) -> str:
    """Negative ones too: a seam may save time. Within a sentence seconds have one blank."""
    return value_text(value, "ns").replace("  ", " ")


def estimate_text(one: IntervalEstimate) -> str:
    if one.low is None or one.high is None:
        return time_text(one.value)
    value, span = time_text(one.value), span_text(one.low, one.high)
    return value if span == value else f"{value} ({span})"


def span_text(low: float, high: float) -> str:
    """Both ends, or one word where they read alike."""
    first, last = time_text(low), time_text(high)
    return first if first == last else f"{first} to {last}"


def ratio_text(one: IntervalEstimate) -> str:
    """``1.25× (1.22 to 1.29)``"""
    text = f"{significant(one.value)}×"
    if one.low is None or one.high is None:
        return text
    low, high = significant(one.low), significant(one.high)
    return f"{text} ({low} to {high})" if low != high else text


def headline(made: Composition) -> str:
    if made.problems:
        return f"{made.pipeline}: no answer"
    assert made.chosen is not None
    assert made.ratios is not None or made.baseline is not None
    words = f"{made.pipeline}: {estimate_text(made.chosen.time)}"
    if made.ratios is None:
        return words
    return f"{words}, {speed_text(made.ratios.time)} against {made.baseline_name}"


def speed_text(one: IntervalEstimate) -> str:
    if math.isclose(one.value, 1.0, rel_tol=1e-12):
        return "the same time"
    return f"{ratio_text(one)} as fast"


def facts(made: Composition) -> Iterator[tuple[str, str]]:
    """Name and text of what the answer rests on."""
    around = made.surroundings
    yield "pipeline", f"{made.path}: {len(made.layers)} layers" if made.layers else made.path
    yield "device", around.device_kind + ("" if around.device == "cpu" else f", {around.device}")
    yield "series", f"{SERIES.get(made.series, made.series)}, {around.cache} caches"
    for engine, libraries in around.libraries.items():
        yield "engine", f"{engine} ({libraries})" if libraries else engine
    yield "baseline", made.baseline_name
    yield from _energies(made)
    if made.choose is not None:
        kept = "".join(f", {name} at most {bound:g}" for name, bound in made.limits.items())
        sure = {True: ": optimal", False: ": perhaps not optimal", None: ""}[made.optimal]
        yield "chosen by", f"{made.choose}{kept}{sure}"
    if made.method:
        yield "how", made.method


def _energies(made: Composition) -> Iterator[tuple[str, str]]:
    """Joules, and with ``--choose edp`` their product with the time, beside the baseline's."""
    if made.chosen is None or made.chosen.energy is None or made.ratios is None:
        return
    if made.ratios.energy is not None:
        beside = _beside(made.ratios.energy, made.baseline_name)
        yield "energy", f"{joules_text(made.chosen.energy.value)}, {beside}"
    if made.choose == "edp" and made.chosen.edp is not None and made.ratios.edp is not None:
        beside = _beside(IntervalEstimate(made.ratios.edp), made.baseline_name)
        yield "edp", f"{significant(made.chosen.edp, 3)} J·s, {beside}"


def _beside(ratio: IntervalEstimate, name: str) -> str:
    if math.isclose(ratio.value, 1.0, rel_tol=1e-12):
        return f"as {name}"
    return f"{name} takes {ratio_text(ratio)} as much"


def totals(made: Composition) -> Iterator[tuple[str, Configuration]]:
    """Configurations that stand side by side: chosen, baseline, other engines."""
    if made.chosen is not None:
        yield made.chosen.name, made.chosen
    if made.baseline is not None:
        yield f"baseline: {made.baseline.name}", made.baseline
    for one in made.others:
        if one.name != made.baseline_name:
            yield one.name, one


def total_cells(one: Configuration) -> tuple[str, ...]:
    """Time, interval, energy, error, workspace."""
    low_high = "-"
    if one.time.low is not None and one.time.high is not None:
        low_high = span_text(one.time.low, one.time.high)
    return (
        time_text(one.time.value),
        low_high,
        "-" if one.energy is None else joules_text(one.energy.value),
        _error_text(one.error),
        value_text(one.workspace_bytes, "bytes"),
    )


def _error_text(error: ErrorBound | None) -> str:
    """Root of squares, and the worst case."""
    return "-" if error is None else f"{error.root_of_squares:.1e} (≤ {error.worst:.1e})"


TOTALS = ("choice", "time", "interval", "energy", "error", "workspace")
PARTS = ("", "part", "runs as", "times", "time", "share", "energy", "note")
CHECKS = ("engine", "caches", "measured", "predicted", "interval", "off by", "holds")


def part_cells(part: PassPart) -> tuple[str, ...]:
    name = part.layer if part.kind == "layer" else part.name
    if part.kind == "conversion":
        name = f"{part.writer or 'input'} → {part.layer}: {part.name}"
    return (
        "" if part.kind == "layer" else part.kind,
        name,
        part.configuration,
        str(part.count),
        time_text(part.time_ns),
        f"{100 * part.share:.1f}%",
        joules_text(part.energy_j),
        part.note or "",
    )


def check_cells(check: Check) -> tuple[str, ...]:
    low, high = check.predicted.low, check.predicted.high
    holds = {True: "yes", False: "no", None: "no interval"}[check.holds]
    return (
        check.engine,
        check.cache,
        time_text(check.measured.value),
        time_text(check.predicted.value),
        "-" if low is None or high is None else span_text(low, high),
        change_text(math.exp(check.log_error)) if math.isfinite(check.log_error) else "-",
        holds,
    )


def model_text(made: Composition) -> str:
    """What measured pipelines say of the model."""
    term = made.model
    if term is None:
        return ""
    if not term.pipelines:
        return (
            f"no other pipeline was measured: {term.needed} of them, in the same documents, teach "
            "how far the model is off"
        )
    assert term.median_log_error is not None
    median = f"{100 * term.median_log_error:.2g} %"
    more = "" if term.half_width_log is not None else f"; {term.needed} are needed for an interval"
    return f"{term.pipelines} other pipelines: predictions were off by {median} (median){more}"
