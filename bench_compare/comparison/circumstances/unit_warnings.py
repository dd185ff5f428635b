"""What units of hardware, which are never held against each other, do to a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.judging.estimates import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench_compare.comparison.judging.estimates import ExactMeasured
    from bench_compare.model import Side
    from bench_compare.statistics.columns import Columns


def unit_warnings(
    sides: tuple[Side, Side], measured: Mapping[str, Measured | ExactMeasured]
) -> Iterator[str]:
    """A sentence where cases of base and other ran on no common unit, and one for each side whose
    documents do not count, for the other has none of their unit."""
    gates = [m for m in measured.values() if isinstance(m, Measured) and m.metric.gates]
    count = max((int(one.other_unit.sum()) for one in gates), default=0)
    if count:
        yield (
            f"{sides[1].label}: {count} {'case' if count == 1 else 'cases'} ran on another "
            "unit of hardware than in base (device or host): provisional"
        )
    for place in (0, 1) if gates else ():
        left, total = max(_left_out(*one.columns[:: 1 - 2 * place]) for one in gates)
        if left:
            yield (
                f"{sides[place].label}: {left} of {total} documents ran on no unit of hardware of "
                f"{sides[1 - place].label} and {'does' if left == 1 else 'do'} not count"
            )


def _left_out(mine: Columns, theirs: Columns) -> tuple[int, int]:
    """How many documents are on units that the other side lacks, where both have some in common;
    and of how many."""
    shared = np.intersect1d(mine.block, theirs.block)
    places = set(zip(mine.document.tolist(), mine.block.tolist(), strict=True))
    alone = [block for _, block in places if block not in shared]
    return (len(alone) if shared.size else 0), len(places)
