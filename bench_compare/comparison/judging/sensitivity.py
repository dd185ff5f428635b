"""What a comparison could have seen: the smallest slow-down of a case that would have been called
with a probability of 90 %, by the rules of the verdict (`verdict.least_shift`). A case without an
interval sees none, however large.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench_compare.comparison.judging.on_demand import seen_of
from bench_compare.model import Sensitivity, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.model import CaseComparison

BLIND_RATIO = 1.25
"""Where half of the cases cannot exclude a slow-down by this factor, silence is no answer."""
MOST_SHARE = 0.9
SILENT = frozenset({Verdict.SAME, Verdict.UNCLEAR, Verdict.UNMEASURED})


def sensitivities(cases: Sequence[CaseComparison], gate: str | None) -> Iterator[Sensitivity]:
    """One for each other side that has measured cases, whatever metric decides each of them; `gate`
    is that of most."""
    labels = dict.fromkeys(case.other_label for case in cases)
    for label in labels if gate is not None else ():
        of_side = [case for case in cases if case.other_label == label]
        sizes = sorted(_seen_from(case, case.gate) for case in of_side if case.gate is not None)
        if sizes:
            quiet = all(case.verdict in SILENT for case in of_side)
            yield _sensitivity(label, str(gate), sizes, quiet)


def _seen_from(case: CaseComparison, gate: str) -> float:
    """The smallest slow-down that would have been called, as a ratio; infinite: none."""
    seen = seen_of(case.metrics, gate)
    return math.inf if seen is None else seen


def _sensitivity(label: str, metric: str, sizes: Sequence[float], quiet: bool) -> Sensitivity:
    half, most = _reached(sizes, 0.5), _reached(sizes, MOST_SHARE)
    blind = quiet and (half is None or half > BLIND_RATIO)
    return Sensitivity(
        other_label=label,
        metric=metric,
        cases=len(sizes),
        median_ratio=half,
        p90_ratio=most,
        blind=blind,
        sentence=_blind_text(half) if blind else _text(half, most),
    )


def _reached(sizes: Sequence[float], share: float) -> float | None:
    """The size from which on this share of the cases would be called; None where no size is."""
    found = sizes[min(math.ceil(share * len(sizes)), len(sizes)) - 1]
    return found if math.isfinite(found) else None


def _blind_text(half: float | None) -> str:
    if half is None:
        return "No answer on this machine: half of the cases have no interval"
    return f"No answer on this machine: half of the cases exclude slow-downs above {_size(half)}"


def _text(half: float | None, most: float | None) -> str:
    if half is None:
        return "half of the cases have no interval, so no slow-down of theirs would have been seen"
    text = f"slow-downs above {_size(half)} would have been seen in half of the cases"
    if most is None:
        return f"{text}, in one of ten none"
    return f"{text}, above {_size(most)} in nine of ten"


def _size(ratio: float) -> str:
    """``2.1 %``, beyond a quarter ``× 3.3``."""
    if ratio > BLIND_RATIO:
        return f"× {ratio:.2g}" if ratio < 10 else f"× {ratio:.0f}"
    return f"{100 * (ratio - 1):.2g} %"
