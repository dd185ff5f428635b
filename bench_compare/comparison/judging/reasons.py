"""Why a verdict is what it is, in one sentence. Nothing is estimated here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from bench_schema.units import change_words, interval_words, is_too_noisy, share_text

from bench_compare.comparison.judging.moves import LEAST_UNITS, Move, exact_move

if TYPE_CHECKING:
    from bench_compare.model import Unit

ONLY_ONE = "only one side has it"


class Evidence(NamedTuple):
    """The facts of a sentence; ratios are other / base."""

    move: int
    ratio: float
    low: float | None
    high: float | None
    q: float | None
    threshold_ratio: float
    units: tuple[int, int]
    lacks: Unit
    """The unit of `needed`."""
    needed: int | None
    tick: bool = False
    """The clock does not tell the two apart."""
    other_unit: bool = False
    """The sides ran on different units of hardware."""
    one_visit: bool = False
    """One document a side."""
    looks: int = 1
    """Number of looks that share the error of the interval."""
    unit: Unit = "round"
    """The unit of `units`."""
    is_significant: bool = False
    """After control of false discoveries."""


def reason(evidence: Evidence) -> str:
    """Return the reason why the move is what it is, in one sentence."""
    change = change_words(evidence.ratio)
    if evidence.low is None or evidence.high is None:
        why = "too few samples to know their spread"
        if evidence.lacks == "summary":
            why = "summary only, no samples"
        if evidence.move == Move.UNCLEAR:
            return f"{change}, and no interval: {why}"
        place = "within" if evidence.move == Move.SAME else "beyond"
        threshold = share_text(evidence.threshold_ratio)
        return f"{change} ({why}: the raw ratio counts): {place} the threshold of {threshold}"
    over = "" if evidence.looks == 1 else f" over {evidence.looks} looks"
    interval = f"95 % interval{over} {interval_words(evidence.low, evidence.high)}"
    threshold = share_text(evidence.threshold_ratio)
    if is_too_noisy(evidence.low, evidence.high):
        text = f"too noisy to tell: the 95 % interval reaches beyond ×2{_remedy(evidence)}"
    elif evidence.move == Move.SAME:
        text = f"{change} ({interval}): within the threshold of {threshold}"
    elif evidence.move == Move.UNCLEAR and evidence.tick:
        cause = "another process" if evidence.unit == "iteration" else "the clock's own step"
        text = f"{change} ({interval}): no more than {cause} can make"
    elif evidence.move == Move.UNCLEAR:
        text = f"{change} ({interval}): {_doubt(evidence, threshold)}{_remedy(evidence)}"
    else:
        text = f"{change} ({interval}): beyond the threshold of {threshold}"
    return text + _provisional(evidence)


def _remedy(evidence: Evidence) -> str:
    """Return the words on the rounds or documents that would decide an unclear case."""
    noun = "document" if evidence.lacks == "document" else "round"
    if evidence.needed is None:
        return f"; more {noun}s would hardly decide it"
    return f"; needs about {evidence.needed} more {noun}{'' if evidence.needed == 1 else 's'}"


def _doubt(evidence: Evidence, threshold: str) -> str:
    low, high, edge = evidence.low, evidence.high, 1 + evidence.threshold_ratio
    if low is not None and high is not None and (low >= edge or high <= 1 / edge):
        if evidence.is_significant and evidence.looks > 1:
            return f"beyond {threshold}, but not surely enough for a run that stops when decided"
        if evidence.is_significant:
            return f"beyond {threshold}, but not clearly beyond what all cases here share"
        q = "" if evidence.q is None else f", q {evidence.q:.2g}"
        return f"beyond {threshold} alone, not significant after correction for many comparisons{q}"
    return f"neither beyond nor within {threshold}"


def _provisional(evidence: Evidence) -> str:
    if evidence.other_unit:
        return (
            "; provisional, base and other ran on different units of hardware, and units of one "
            "kind differ by up to a fifth"
        )
    if min(evidence.units) >= LEAST_UNITS:
        one_run = "; one run per side, run-to-run variation is not included"
        return one_run if evidence.one_visit else ""
    noun = evidence.unit if evidence.unit in ("document", "pair") else "round"
    if min(evidence.units) == 1:
        what = "a change from a difference between runs"
        return f"; provisional, a single {noun} a side cannot tell {what}"
    return f"; provisional, two {noun}s a side say little of their spread"


def exact_reason(base: float, other: float, threshold: float) -> str:
    """Say how two numbers that do not scatter differ."""
    if base == other:
        return "equal"
    if base == 0 or not (math.isfinite(base) and math.isfinite(other)):
        return f"from {base:g} to {other:g}"
    within = exact_move(base, other, threshold) == Move.SAME
    place = "within" if within else "beyond"
    return f"{change_words(other / base)}: {place} the threshold of {share_text(threshold)}"
