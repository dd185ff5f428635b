"""What differs between the two sides of a case, beside its numbers: what may explain a change.

Facts of the documents, held side by side; which of them is the cause nobody here claims to know.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bench_compare.rounds.lazy import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bench_schema.document import Case, Engine, Round, Telemetry

    from bench_compare.model import CaseComparison, CaseSide, Comparison, Side

CLOCK_SHARE = 0.01
"""Clocks that differ by less are the same clock."""


class SideChange(NamedTuple):
    kind: str
    """``plan``, ``kernels``, ``clock``, ``libraries``, ``plugin``."""
    name: str
    """For people: ``plan, engine id``."""
    base: str
    other: str


def case_changes(case: CaseComparison) -> tuple[SideChange, ...]:
    """Plan, kernels and clock, which are the case's own."""
    base, other = case.base, case.other
    if base is None or other is None:
        return ()
    return (*_plans(base, other), *_kernels(base, other), *_clocks(base, other))


def kinds(changes: Iterable[SideChange]) -> list[str]:
    """Each once."""
    return list(dict.fromkeys([change.kind for change in changes]))


class EngineChanges:
    """What differs between the engines of two sides: looked up once for each pair of engines."""

    def __init__(self, comparison: Comparison) -> None:
        self._base = comparison.base
        self._others = {side.label: side for side in comparison.others}
        self._found: dict[tuple[str, str, str], list[SideChange]] = {}

    def of(self, case: CaseComparison) -> list[SideChange]:
        if case.base is None or case.other is None:
            return []
        pair = (case.other_label, case.base.engine, case.other.engine)
        if pair not in self._found:
            self._found[pair] = list(
                _engines((self._base, pair[1]), (self._others[pair[0]], pair[2]))
            )
        return self._found[pair]


def _joined(values: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(values))


def _plans(base: CaseSide, other: CaseSide) -> Iterator[SideChange]:
    plans = [one.plan for one in (*base.cases, *other.cases)]
    if plans.count(plans[0]) == len(plans):
        return
    for name in dict.fromkeys(key for one in (*base.cases, *other.cases) for key in one.plan):
        texts = [_joined(one.plan.get(name, "-") for one in side.cases) for side in (base, other)]
        if texts[0] != texts[1]:
            yield SideChange("plan", f"plan, {name}", *texts)


def _kernels(base: CaseSide, other: CaseSide) -> Iterator[SideChange]:
    """Only where both sides were traced: a missing trace is no other kernel."""
    first, second = _traced(base.cases), _traced(other.cases)
    if first and second and first != second and set(first) != set(second):
        yield SideChange("kernels", "kernels", _listed(first), _listed(second))


def _traced(cases: Sequence[Case]) -> list[str]:
    """Names of the kernels of the last document that was traced."""
    for case in reversed(cases):
        if case.kernels:
            return [one.name for one in case.kernels]
    return []


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def _clocks(base: CaseSide, other: CaseSide) -> Iterator[SideChange]:
    first, second = _clock_mhz(base.cases), _clock_mhz(other.cases)
    if first is None or second is None or abs(second - first) <= CLOCK_SHARE * first:
        return
    yield SideChange("clock", "clock, median of rounds", f"{first:.0f} MHz", f"{second:.0f} MHz")


def _clock_mhz(cases: Sequence[Case]) -> float | None:
    if len(cases) == 1 and (lazy := columns_of(cases[0].rounds)) is not None:
        return lazy.clock_mhz
    known = [mhz for case in cases for mhz in _of_rounds(case.rounds)]
    return median(known) if known else None


def _of_rounds(rounds: Sequence[Round]) -> list[float]:
    lazy = columns_of(rounds)
    if lazy is not None:
        return lazy.clocks_mhz
    return [mhz for one in rounds if (mhz := _of_round(one)) is not None]


def _of_round(one: Round) -> float | None:
    after, before = one.telemetry_after, one.telemetry_before
    mhz = None if after is None else _mhz(after)
    return _mhz(before) if mhz is None and before is not None else mhz


def _mhz(telemetry: Telemetry) -> float | None:
    probed = telemetry.probed_clock_mhz
    return telemetry.sm_clock_mhz if probed is None else probed


def _engines(base: tuple[Side, str], other: tuple[Side, str]) -> Iterator[SideChange]:
    for kind, read in FACTS.items():
        texts = [
            _joined(
                text
                for source in side.sources
                for engine in source.document.engines
                if engine.key == key and (text := read(engine))
            )
            for side, key in (base, other)
        ]
        if texts[0] != texts[1]:
            first, second = (text or "unknown" for text in texts)
            yield SideChange(kind, kind, first, second)


FACTS: dict[str, Callable[[Engine], str]] = {
    "device": lambda e: e.device,
    "libraries": lambda e: ", ".join(f"{name} {e.libraries[name]}" for name in sorted(e.libraries)),
    "plugin": lambda e: e.plugin_path or "",
    "plugin sha256": lambda e: (e.plugin_sha256 or "")[:12],
    "knobs": lambda e: ", ".join(f"{name}={e.knobs[name]}" for name in sorted(e.knobs)),
}
"""Of the engine of a case."""
