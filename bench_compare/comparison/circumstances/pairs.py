"""Circumstances of the cases that were paired: where they differ, the header says so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from bench_schema.identity import CaseIdentity, engine_name, identify

from bench_compare.comparison.circumstances.settings import (
    THREADS,
    device_times,
    knobs_compared,
)
from bench_compare.model import SettingDifference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_schema.document import EngineRecord

    from bench_compare.input.align import Pair
    from bench_compare.model import CaseSide, Side

SHOWN = 4
"""Values of one side that are listed."""

ENGINE_THREADS = "threads of the engine"
DEVICE_TIMES = "device times"

Told: TypeAlias = tuple[CaseIdentity, str]
"""Identity of a case without its graph, and how its device times were taken."""

CIRCUMSTANCES: Mapping[str, tuple[Callable[[Told], str], bool]] = {
    DEVICE_TIMES: (lambda one: one[1], True),
    ENGINE_THREADS: (lambda one: engine_name(one[0].engine).threads or "not set", True),
    "variant": (lambda one: ", ".join(f"{a}={v}" for a, v in one[0].asked) or "none", False),
    "device unit": (lambda one: one[0].unit, False),
    "plan": (lambda one: "tuned" if one[0].is_tuned else "default", False),
}
"""Name of a difference → how a case tells it (empty: unknown, never a difference), and whether
numbers mean the same thing only where it agrees."""


def pair_differences(pairs: Sequence[Pair], base: Side, other: Side) -> Iterator[SettingDifference]:
    """Yield differences between paired cases, except in their engines' names."""
    engines = [
        [{engine.key: engine for engine in one.document.engines} for one in side.sources]
        for side in (base, other)
    ]
    both = Counter(
        (_last(pair.base, engines[0]), _last(pair.other, engines[1]))
        for pair in pairs
        if pair.base is not None and pair.other is not None and pair.unlike is None
    )
    total = sum(both.values())
    # The sides are compared by this difference, so it is not reported as one.
    compared = {"device unit"} if other.is_unit else set()
    if THREADS in knobs_compared(base, other):
        compared.add(ENGINE_THREADS)
    runs = [{source.document.run.id for source in side.sources} for side in (base, other)]
    bounded = set() if runs[0].isdisjoint(runs[1]) else {DEVICE_TIMES}  # by `clocks.systematic`
    for name, (read, must_agree) in CIRCUMSTANCES.items():
        if name in compared:
            continue
        told = [((read(x), read(y)), number) for (x, y), number in both.items()]
        unlike = [(texts, number) for texts, number in told if all(texts) and texts[0] != texts[1]]
        if unlike:
            count = sum(number for _, number in unlike)
            cases = "" if count == total else f" ({count} of {total} cases)"
            listed = []
            for side in (0, 1):
                values = list(dict.fromkeys(texts[side] for texts, _ in unlike))
                more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
                listed.append(" and ".join(values[:SHOWN]) + more)
            first, second = listed
            must = must_agree and name not in bounded
            yield SettingDifference(name, first, second + cases, other.label, must)


def _last(side: CaseSide, engines: Sequence[Mapping[str, EngineRecord]]) -> Told:
    """Read the identity in the last document that holds the case, the timing in all of them."""
    case = side.cases[-1]
    found = identify(case, engines[side.sources[-1]][case.engine])
    return CaseIdentity("", "", "", *found[3:]), device_times(side.cases)
