"""The samples of a block's cases: which series the page holds, and how they are told."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_schema.document import SERIES
from bench_schema.estimate import cut_of

from bench_compare.report.html.sampling import HeldSeries, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.model import CaseComparison, CaseSide
    from bench_compare.report.html.sampling import Budget, Ints
    from bench_compare.rounds.facts import Facts


@dataclass(frozen=True)
class Shown:
    """Of one case."""

    names: tuple[str, ...]
    """Series that the page holds, the one that the verdict rests on first."""
    left_out: tuple[str, ...]
    sides: tuple[frozenset[str], frozenset[str]]
    """Series that base and other have samples of."""

    @property
    def count(self) -> int:
        return sum(name in side for name in self.names for side in self.sides)


def shown_series(gate: str | None, sides: Sequence[Sequence[Facts]], most: int) -> Shown:
    """`sides`: facts of each document's case, of base and of other; `most`: series of a case."""
    base, other = (
        (side[0].sampled if len(side) == 1 else frozenset().union(*(one.sampled for one in side)))
        for side in sides
    )
    return _shown(gate, base, other, most)


@lru_cache(1024)
def _shown(gate: str | None, base: frozenset[str], other: frozenset[str], most: int) -> Shown:
    ordered = sorted(SERIES, key=lambda name: name != gate)
    names = tuple(name for name in ordered if name in base or name in other)
    return Shown(names[:most], names[most:], (base, other))


Entry: TypeAlias = tuple[int, str, int]
"""A series of one side of a case: the place of the case in the block, name, 0 base or 1 other."""


def told(
    cases: Sequence[CaseComparison], shown: Sequence[Shown], plan: Budget
) -> tuple[list[dict[str, Any]], list[Ints]]:
    """Groups of series that are alike, and the matrices of their columns in this order.

    `of`: case, name and side of each series; `widths`: integers of a series in each column."""
    entries: list[tuple[Entry, HeldSeries]] = []
    for place, (case, one) in enumerate(zip(cases, shown, strict=True)):
        for name in one.names:
            for number, side in enumerate((case.base, case.other)):
                if side is not None and name in one.sides[number]:
                    entries.append(((place, name, number), _held(side, name)))
    groups: list[dict[str, Any]] = []
    matrices: list[Ints] = []
    for group in reduced([held for _, held in entries], plan):
        several = {"docs": group.documents} if len(group.documents) > 1 else {}
        groups.append(
            {
                "of": [entries[place][0] for place in group.members],
                "n": group.lengths,
                **several,
                "buckets": group.buckets,
                "offset": group.offset,
                "step": group.step,
                "widths": {name: matrix.shape[1] for name, matrix in group.columns.items()},
            }
        )
        matrices += group.columns.values()
    return groups, matrices


def _held(side: CaseSide, name: str) -> HeldSeries:
    samples, cuts, documents = [], [], []
    for case in side.cases:
        held = [one for one in case.rounds if name in one.series and one.series[name].size]
        samples += [one.series[name] for one in held]
        cuts += [min(cut_of(one, name).cut, one.series[name].size - 1) for one in held]
        documents += [len(held)] if held else []
    return HeldSeries(samples, cuts, tuple(documents))
