"""Documents of other that an estimate leaves out: bad news of theirs must not be lost.

Sides are compared within the units of hardware, or the visits, that both have, and over documents
with samples. What a document of other tells beyond these is held against the slowest document of
base: a case that is slower than all of base there is slower, whatever the other documents say.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_compare.comparison.judging import observations
from bench_compare.comparison.judging.estimates import MeasuredMetric
from bench_compare.metrics import Rate, Sampled
from bench_compare.statistics.columns import Columns, by_document, paired_columns
from bench_compare.statistics.intervals import NOWHERE, PAIR, Estimates, estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_compare.comparison.judging.estimates import ComparisonInputs, ExactMeasured
    from bench_compare.statistics.arrays import Array, Ints, Mask


@dataclass(frozen=True, eq=False)
class WithLeftOut(MeasuredMetric):
    """A metric in which some cases are those of a document that was left out."""

    where: Mapping[int, str] = field(default_factory=dict)
    """Of these cases, which document it is and why it was left out."""


def with_left_out(
    measured: MeasuredMetric | ExactMeasured, inputs: ComparisonInputs
) -> MeasuredMetric | ExactMeasured:
    """The metric, with the worst document that was left out in place of the others where it is
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
    """Of the levels where nothing was estimated."""
    found = measured.estimates.shift
    return np.where(np.isfinite(found), found, measured.other_level - measured.base_level)


def _taken(measured: MeasuredMetric, found: MeasuredMetric, rows: Ints, why: str) -> MeasuredMetric:
    """These rows of `found`, all else of `measured`."""
    mine = np.zeros(len(measured.base_level), bool)
    mine[rows] = True

    def picked(one: object, two: object, name: str) -> Any:
        return np.where(mine, getattr(one, name), getattr(two, name))

    numbers = [one.name for one in fields(Estimates)]
    estimates = {name: picked(found.estimates, measured.estimates, name) for name in numbers}
    levels = ("base_level", "other_level", "other_unit")
    before = measured.where if isinstance(measured, WithLeftOut) else {}
    known = {one.name: getattr(measured, one.name) for one in fields(MeasuredMetric)}
    known |= {name: picked(found, measured, name) for name in levels}
    known["estimates"] = Estimates(**estimates)
    return WithLeftOut(**known, where={**before, **dict.fromkeys(rows.tolist(), why)})


# Units of hardware, and visits, that base has not.

UNITS_DIFFER_RATIO = 1.25
"""Units of one kind differ by up to a fifth."""


def _of_units(
    measured: MeasuredMetric, inputs: ComparisonInputs
) -> Iterator[tuple[MeasuredMetric, Mask, str]]:
    """Each document of other, on one unit, that some case leaves out: held against the slowest of
    base."""
    base, other = measured.columns
    places = list(dict.fromkeys(zip(other.document.tolist(), other.block.tolist(), strict=True)))
    if len(places) < 2:
        return
    held = [(other.document == run) & (other.block == unit) for run, unit in places]
    left = _left_out(measured, places, held)
    if not left.any():
        return
    slowest, reference = _slowest(measured.base, base)
    several = int(left.any(axis=0).sum()) + 1
    for (run, unit), mine, rows in zip(places, held, left.T, strict=True):
        if not rows.any():
            continue
        found = _held_against(measured, inputs, (reference, mine))
        # The worst of several is looked for, so they share the error. Without an interval the raw
        # ratio counts, where it is more than units differ by.
        p, shift = found.estimates.p * several, found.estimates.shift
        raw = np.isnan(p) & (shift > math.log(UNITS_DIFFER_RATIO))
        with np.errstate(invalid="ignore"):
            sure = rows & ((p <= inputs.policy.alpha_ratio) | raw)
        other_unit = slowest != unit
        known = replace(found.estimates, p=np.minimum(p, 1), shift=np.where(raw, np.nan, shift))
        found = replace(found, estimates=known, other_unit=other_unit)
        for apart in (True, False):
            why = "ran on a unit of hardware that base lacks" if apart else "has visits of its own"
            text = f"{_path(inputs, run, unit)} {why}, held against the slowest document of base"
            yield found, sure & (other_unit == apart), text


def _left_out(
    measured: MeasuredMetric, places: Sequence[tuple[int, int]], held: Sequence[Mask]
) -> Mask:
    """Of each case and place of other, whether it has times there that the estimate leaves out."""
    base, other = (np.isfinite(values) for values in (measured.base, measured.other))
    mine, theirs = paired_columns(*measured.columns)
    visited = np.zeros_like(other)
    visited[:, theirs] = base[:, mine] & other[:, theirs]
    has = np.stack([other[:, columns].any(axis=1) for columns in held], axis=1)
    paired = np.stack([visited[:, columns].any(axis=1) for columns in held], axis=1)
    shared = np.stack(
        [base[:, measured.columns[0].block == unit].any(axis=1) for _, unit in places], axis=1
    )
    comparable = has & shared
    apart = has & ~shared & comparable.any(axis=1, keepdims=True)
    is_pair = (measured.estimates.unit == PAIR)[:, None]
    return np.where(is_pair, has & ~paired, apart)


def _slowest(values: Array, columns: Columns) -> tuple[Ints, Array]:
    """Of each case the unit of the slowest document of a side, and the times of that one alone."""
    means, documents = by_document(values, columns)
    worst = np.argmax(np.where(np.isfinite(means), means, -np.inf), axis=1)
    run, unit = documents.document[worst], documents.block[worst]
    alone = np.equal(columns.document, run[:, None]) & np.equal(columns.block, unit[:, None])
    return unit, np.where(alone, values, np.nan)


def _held_against(
    measured: MeasuredMetric, inputs: ComparisonInputs, sides: tuple[Array, Mask]
) -> MeasuredMetric:
    """One document of each side, as if they had run on one unit of hardware."""
    reference, mine = sides
    values = reference, np.where(mine, measured.other, np.nan)
    columns = tuple(
        Columns(np.full_like(one.document, number), one.round, np.zeros_like(one.block))
        for number, one in enumerate(measured.columns)
    )
    floor_sd, looks = inputs.policy.floor_sd, inputs.looks
    found = estimate(values[0], values[1], (columns[0], columns[1]), NOWHERE, floor_sd, looks)
    return replace(
        measured, estimates=found, base_level=found.base_level, other_level=found.other_level
    )


def _path(inputs: ComparisonInputs, run: int, unit: int) -> str:
    source = int(np.flatnonzero((inputs.documents[1] == run) & (inputs.blocks[1] == unit))[0])
    return inputs.sides[1].sources[source].path


# Documents without samples, beside others that have some.


def _of_summaries(
    measured: MeasuredMetric, inputs: ComparisonInputs
) -> Iterator[tuple[MeasuredMetric, Mask, str]]:
    """The worst document of other that has but a summary of a case, held against the slowest of
    base."""
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
    numbers = {one.name: getattr(measured.estimates, one.name) for one in fields(Estimates)}
    nothing = {
        name: np.full_like(values, np.nan if values.dtype.kind == "f" else 0)
        for name, values in numbers.items()
    }
    for source, rows in worst.items():
        mine = np.zeros(len(slowest), bool)
        mine[rows] = True
        found = replace(
            measured,
            estimates=Estimates(**nothing),
            base_level=np.where(np.isfinite(slowest), slowest, np.nan),
            other_level=levels[1],
            other_unit=np.zeros(len(slowest), bool),
        )
        text = f"{inputs.sides[1].sources[source].path} has no samples of it"
        yield found, mine, f"{text}, held against the slowest document of base"
