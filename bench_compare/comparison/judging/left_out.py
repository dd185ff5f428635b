"""Documents of other that an estimate leaves out: bad news of theirs must not be lost.

Sides are compared within the units of hardware, or the visits, that both have, and over documents
with samples; where they share no unit, over all of them together. What documents of other tell
beyond that is held against the slowest document of base: a case that is slower there than in all of
base is slower, whatever the other documents say.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.comparison.judging.estimates import MeasuredMetric
from bench_compare.metrics import Rate, Sampled
from bench_compare.rounds import observations
from bench_compare.statistics.arrays import blank
from bench_compare.statistics.columns import Columns, by_document, paired_columns
from bench_compare.statistics.intervals import ESTIMATE, NOWHERE, PAIR, estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_compare.comparison.judging.estimates import ComparisonInputs, ExactMeasured
    from bench_compare.statistics.arrays import Array, Ints, Mask


def with_left_out(
    measured: MeasuredMetric | ExactMeasured, inputs: ComparisonInputs
) -> MeasuredMetric | ExactMeasured:
    """Return the metric, with the worst document that was left out in place of the others if it is
    slower than every document of base, and these are not slower anyway."""
    if not isinstance(measured, MeasuredMetric) or isinstance(measured.metric.reading, Rate):
        return measured
    names = [pair.side.name for pair in inputs.pairs]
    limit = np.log1p(inputs.policy.thresholds(measured.metric.name, names))
    for found, rows, why in (*_of_units(measured, inputs), *_of_summaries(measured, inputs)):
        shift = found.other_level - found.base_level
        with np.errstate(invalid="ignore"):
            known = _shift(measured) >= limit
            known &= ~(measured.estimates.p > inputs.policy.alpha_ratio)
            rows = rows & (shift > limit) & (~known | (shift > _shift(measured)))
        measured = _taken(measured, found, np.flatnonzero(rows), why) if rows.any() else measured
    return measured


def _shift(measured: MeasuredMetric) -> Array:
    """Return the estimated shift; that of the levels if nothing was estimated."""
    found = measured.estimates.shift
    return np.where(np.isfinite(found), found, measured.other_level - measured.base_level)


def _taken(measured: MeasuredMetric, found: MeasuredMetric, rows: Ints, why: str) -> MeasuredMetric:
    """Return `measured` with these rows of `found`."""
    mine = np.zeros(len(measured.base_level), bool)
    mine[rows] = True

    estimates = measured.estimates.copy()
    estimates[mine] = found.estimates[mine]
    cycles = measured.cycles
    if cycles is not None:  # those of the sides that were compared before
        cycles = np.where(mine, np.nan, cycles[0]), np.where(mine, np.nan, cycles[1])
    return replace(
        measured,
        estimates=estimates,
        base_level=np.where(mine, found.base_level, measured.base_level),
        other_level=np.where(mine, found.other_level, measured.other_level),
        other_unit=np.where(mine, found.other_unit, measured.other_unit),
        cycles=cycles,
        where={**measured.where, **dict.fromkeys(rows.tolist(), why)},
    )


UNITS_DIFFER_RATIO = 1.25
"""Units of one kind differ by up to a fifth."""


def _of_units(
    measured: MeasuredMetric, inputs: ComparisonInputs
) -> Iterator[tuple[MeasuredMetric, Mask, str]]:
    """Yield the comparison, its rows and a text for each unit of other of which some case leaves
    documents out: the fastest of them, held against the slowest document of base."""
    (base, mine), (other, theirs) = (
        by_document(*side)
        for side in zip((measured.base, measured.other), measured.columns, strict=True)
    )
    if not mine.document.size or theirs.document.size < 2:
        return
    left = _left_out(measured, (base, mine), (other, theirs))
    if not left.any():
        return
    slowest = np.argmax(np.where(np.isfinite(base), base, -np.inf), axis=1)
    reference = _alone(measured.base, measured.columns[0], mine, slowest)
    numbers = np.unique(theirs.block[left.any(axis=0)]).tolist()
    for unit in numbers:
        here = left & (theirs.block == unit)
        rows = here.any(axis=1)
        fastest = np.argmin(np.where(here, other, np.inf), axis=1)
        found = _held_against(
            measured,
            inputs,
            (reference, _alone(measured.other, measured.columns[1], theirs, fastest)),
        )
        # The worst of several is looked for, so they share the error. Without an interval the raw
        # ratio counts, where it is more than units differ by.
        p, shift = found.estimates.p * (len(numbers) + 1), found.estimates.shift
        raw = np.isnan(p) & (shift > math.log(UNITS_DIFFER_RATIO))
        with np.errstate(invalid="ignore"):
            sure = rows & ((p <= inputs.policy.alpha_ratio) | raw)
        other_unit = np.not_equal(mine.block[slowest], unit)
        known = found.estimates.copy()
        known.p, known.shift = np.minimum(p, 1), np.where(raw, np.nan, shift)
        found = replace(found, estimates=known, other_unit=other_unit)
        runs = np.unique(theirs.document[here.any(axis=0)]).tolist()
        paths = " and ".join(_path(inputs, run, unit) for run in runs)
        for apart in (True, False):
            why = "on a unit of hardware that base lacks" if apart else "in visits of its own"
            text = f"{paths}, {why}, against the slowest document of base"
            yield found, sure & (other_unit == apart), text


def _left_out(
    measured: MeasuredMetric, base: tuple[Array, Columns], other: tuple[Array, Columns]
) -> Mask:
    """Return a mask of the cases and documents of other, on one unit, that the estimate leaves out
    or joins with documents of other units. The arguments are the documents' means and places."""
    has, place = np.isfinite(other[0]), other[1]
    visits = paired_columns(*measured.columns)
    mine, theirs = (
        np.isfinite(values[:, columns])
        for values, columns in zip((measured.base, measured.other), visits, strict=True)
    )
    paired = np.zeros_like(has)
    for number, (run, unit) in enumerate(zip(place.document, place.block, strict=True)):
        columns = measured.columns[1]
        here = (columns.document[visits[1]] == run) & (columns.block[visits[1]] == unit)
        paired[:, number] = (mine & theirs)[:, here].any(axis=1)
    shared = np.stack(
        [np.isfinite(base[0][:, base[1].block == unit]).any(axis=1) for unit in place.block], axis=1
    )
    several = np.stack([(has & (place.block != unit)).any(axis=1) for unit in place.block], axis=1)
    is_pair = np.equal(measured.estimates.unit, PAIR)
    return np.where(is_pair[:, None], has & ~paired, has & ~shared & several)


def _alone(values: Array, columns: Columns, documents: Columns, chosen: Ints) -> Array:
    """Return the times of one document of each case."""
    run, unit = documents.document[chosen], documents.block[chosen]
    alone = np.equal(columns.document, run[:, None]) & np.equal(columns.block, unit[:, None])
    return np.where(alone, values, np.nan)


def _held_against(
    measured: MeasuredMetric, inputs: ComparisonInputs, sides: tuple[Array, Array]
) -> MeasuredMetric:
    """Return the metric as one document of each side measures it, as if they had run on one unit of
    hardware."""
    base, other = (
        Columns(np.full_like(one.document, number), one.round, np.zeros_like(one.block))
        for number, one in enumerate(measured.columns)
    )
    floor_sd, looks = inputs.policy.floor_sd, inputs.looks
    found = estimate(*sides, (base, other), NOWHERE, floor_sd, looks)
    return replace(
        measured, estimates=found, base_level=found.base_level, other_level=found.other_level
    )


def _path(inputs: ComparisonInputs, run: int, unit: int) -> str:
    source = int(np.flatnonzero((inputs.documents[1] == run) & (inputs.blocks[1] == unit))[0])
    return inputs.sides[1].sources[source].path


def _of_summaries(
    measured: MeasuredMetric, inputs: ComparisonInputs
) -> Iterator[tuple[MeasuredMetric, Mask, str]]:
    """Yield the comparison of other's worst document with only a summary of a case with base's
    slowest."""
    reading = measured.metric.reading
    if not isinstance(reading, Sampled):
        return
    levels = np.full((2, len(inputs.pairs)), np.nan)
    worst: dict[int, list[int]] = defaultdict(list)
    for row, (one, two) in enumerate(zip(inputs.base, inputs.other, strict=True)):
        if one is None or two is None or len(two.cases) < 2:
            continue
        summaries = observations.summary_levels(two, reading.series)
        if 0 < len(summaries) < len(two.cases):
            source = max(summaries, key=lambda place: summaries[place])
            levels[1, row] = summaries[source]
            worst[source].append(row)
            told = observations.summary_levels(one, reading.series).values()
            levels[0, row] = max([*told, -math.inf])
    if not worst:
        return
    means = by_document(measured.base, measured.columns[0])[0]
    sampled = np.where(np.isfinite(means), means, -np.inf).max(axis=1, initial=-np.inf)
    slowest = np.maximum(levels[0], sampled)
    for source, rows in worst.items():
        mine = np.zeros(len(slowest), bool)
        mine[rows] = True
        found = replace(
            measured,
            estimates=blank(ESTIMATE, len(slowest)),
            base_level=np.where(np.isfinite(slowest), slowest, np.nan),
            other_level=levels[1],
            other_unit=np.zeros(len(slowest), bool),
        )
        text = f"{inputs.sides[1].sources[source].path} has no samples of it"
        yield found, mine, f"{text}, against the slowest document of base"
