"""Units of hardware, host and device: each a block of the statistics, since two of one kind differ
by up to a fifth.

What a document measured on several units counts as several documents of one run, one for each unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bench_compare.input.align import whole_runs
from bench_compare.rounds.facts import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_schema.document import Case, Document

    from bench_compare.model import CaseSide, Side
    from bench_compare.statistics.arrays import Ints, Mask

Cases: TypeAlias = "tuple[CaseSide | None, ...]"
Unit: TypeAlias = tuple[str, ...]
"""Host and device; empty if they are not known."""
UNKNOWN = -1
"""Number of a unit that nothing is known of."""


@dataclass(frozen=True, eq=False)
class SideByUnit:
    """A side each of whose sources is of one unit."""

    side: Side
    cases: Cases
    units: tuple[Unit, ...]
    """Hardware units, in source order."""


def by_unit(side: Side, cases: Cases) -> SideByUnit:
    """Return the side with a source for each unit of a document; its cases with their rounds
    there."""
    places = [_Places(source.document) for source in side.sources]
    numbers: dict[tuple[int, Unit], int] = {}
    for one in cases:
        for case, source in () if one is None else zip(one.cases, one.sources, strict=True):
            for unit in places[source].units(case):
                numbers.setdefault((source, unit), len(numbers))
    sources = tuple(side.sources[source] for source, _ in numbers)
    several = len(numbers) > len({source for source, _ in numbers})
    if several:
        found = tuple(None if one is None else _split(one, places, numbers) for one in cases)
    else:
        known = {source: number for (source, _), number in numbers.items()}
        if all(source == number for source, number in known.items()):
            return SideByUnit(replace(side, sources=sources), cases, tuple(u for _, u in numbers))
        found = tuple(
            None if one is None else replace(one, sources=tuple(known[s] for s in one.sources))
            for one in cases
        )
    return SideByUnit(replace(side, sources=sources), found, tuple(unit for _, unit in numbers))


class _Places:
    """Host and device of each round of a document."""

    def __init__(self, document: Document) -> None:
        self.host = document.machine.host
        self.devices = {engine.key: engine.device for engine in document.engines}

    def units(self, case: Case) -> Iterable[Unit]:
        """Return each unit once; at least one."""
        seen = facts(case.rounds).places or ((None, None),)
        return dict.fromkeys(self.unit(case, *where) for where in seen)

    def unit(self, case: Case, host: str | None, uuid: str | None) -> Unit:
        """Return the unit of a round; fields that the round lacks are taken from its document."""
        where = self.host if host is None else host
        return () if where == "unknown" else (where, uuid or self.devices.get(case.engine, ""))


Numbers: TypeAlias = "dict[tuple[int, Unit], int]"


def _split(one: CaseSide, places: list[_Places], numbers: Numbers) -> CaseSide:
    """Return the side with each case once for each of its units, with its rounds there."""
    cases, sources = [], []
    for case, source in zip(one.cases, one.sources, strict=True):
        units = list(places[source].units(case))
        sources += [numbers[source, unit] for unit in units]
        if len(units) == 1:
            cases.append(case)
            continue
        of_round = [places[source].unit(case, r.host, r.device_uuid) for r in case.rounds]
        for unit in units:
            mine = [n for n, where in enumerate(of_round) if where == unit]
            init = {
                name: values[mine] if len(values) == len(case.rounds) else values
                for name, values in case.init.items()
            }
            rounds = tuple(case.rounds[n] for n in mine)
            cases.append(replace(case, rounds=rounds, init=init))
    return replace(one, cases=tuple(cases), sources=tuple(sources))


def numbered(sides: Sequence[SideByUnit]) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Return numbers of the runs and of the units of each source of both sides; `UNKNOWN` for
    unknown units."""
    runs = whole_runs([one.side for one in sides], [one.cases for one in sides])
    if all(one.side.is_unit for one in sides):  # units are what is compared
        return _numbers(runs), _numbers([[0] * len(one.units) for one in sides])
    blocks = _numbers([one.units for one in sides])
    known = [np.array([bool(unit) for unit in one.units], bool) for one in sides]
    base, other = (np.where(k, b, UNKNOWN) for k, b in zip(known, blocks, strict=True))
    return _numbers(runs), (base, other)


def _numbers(sides: Sequence[Sequence[object]]) -> tuple[Ints, Ints]:
    """Return a number for each thing of both sides, one array a side: the same number for the same
    thing."""
    known = {thing: number for number, thing in enumerate(dict.fromkeys((*sides[0], *sides[1])))}
    first, second = (np.array([known[thing] for thing in side], np.int64) for side in sides)
    return first, second


def other_units(
    cases: tuple[Cases, Cases], blocks: tuple[Ints, Ints], sides: Sequence[Side]
) -> Mask:
    """Return cases that base and other measured on different units of hardware throughout; where
    one of them is not known, nothing is. `blocks`: number of the unit of each source."""
    base, other = cases
    several = len({*blocks[0].tolist(), *blocks[1].tolist()}) > 1
    if not several or all(side.is_unit for side in sides):
        return np.zeros(len(base), bool)

    def on(side: CaseSide | None, number: int) -> set[int]:
        found = () if side is None else blocks[number][list(side.sources)].tolist()
        return set(found) - {UNKNOWN}

    known = zip(base, other, strict=True)
    return np.array([bool(a and b and not on(a, 0) & on(b, 1)) for a, b in known], dtype=bool)
