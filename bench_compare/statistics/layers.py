"""The two layers of spread behind a change: rounds within documents, documents within sides.

Rounds are the independent observations as long as nothing contradicts it. Several documents of a
side can contradict: if their levels differ by more than their rounds explain, the excess is added
to the variance of the change. So a further document narrows an interval unless it shows, by its own
level, that documents of this build differ.

The test is made for all cases together, and for each alone: the ratio of the variance between
documents to what the rounds let expect is F distributed if documents add nothing (Searle, Casella &
McCulloch 1992, Variance components, chapter 3). With a few documents a case has one or two degrees
of freedom, a suite has as many for each of its cases.

Source: Satterthwaite 1946 (degrees of freedom of a sum of variances); Stouffer 1949 (sum of normal
scores).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from bench_schema.estimate import row_mean

from bench_compare.statistics.arrays import Records, filled, units
from bench_compare.statistics.columns import Columns, by_document
from bench_compare.statistics.discovery import false_discovery
from bench_compare.statistics.fits import SHARING_CASES, Fit, fit
from bench_compare.statistics.special import f_above, normal_scores
from bench_compare.statistics.variances import (
    DEFAULT_RUN_SD,
    UNSETTLED_INSIDE_SD,
    between_document_variance,
    fleeting_variance,
    prior,
    shrink,
)

if TYPE_CHECKING:
    from bench_compare.statistics.arrays import Array, Ints, Mask


@dataclass(frozen=True, eq=False)
class BetweenDocuments:
    """Variances between documents of one build, as known beforehand; one entry a case, NaN if
    nothing is known."""

    common: Array
    """Variance that a document adds to all of its cases together."""
    common_dof: Array
    own: Array
    """Variance that a document adds to each case separately."""
    own_dof: Array


def of_rows(between: BetweenDocuments, rows: Mask | Ints) -> BetweenDocuments:
    return BetweenDocuments(
        between.common[rows], between.common_dof[rows], between.own[rows], between.own_dof[rows]
    )


Change: TypeAlias = Records
"""A record of `CHANGE` for each case."""
CHANGE = np.dtype(
    [
        *((name, float) for name in ("shift", "base_level", "other_level", "variance", "dof")),
        # part of the variance: what single documents do to all of their cases, or may do
        *((name, float) for name in ("common", "common_dof")),
        ("leverage", float),  # variance of the shift in units of that of a document's level
        ("least", float),  # in units of the floor's: the sum of the inverses of counts of rounds
        *((name, float) for name in ("movement", "movement_dof")),  # what all cases do together
        *((name, np.int64) for name in ("base_rounds", "other_rounds")),
        *((name, np.int64) for name in ("base_documents", "other_documents")),
        ("apart", bool),  # documents of a side differ beyond their rounds
        ("single", bool),  # judged from inside single rounds
    ]
)


SUSPICION_Z = 1.2816
"""All cases together: documents are taken to differ where chance makes them do so in one of ten
comparisons."""
EVIDENCE_Q = 0.05
"""The same of a single case, after control of false discoveries."""
IN_GROUPS = 0.1
"""Value of `fits.Fit.alike` from which cases move in groups: the common part then lies between the
groups and is not part of any case's movement. Four standard deviations of what 40 independent cases
show in two documents a side."""
LEAST_DOF = 3.0
"""Least degrees of freedom of the variance between documents: with one, a shift would have to reach
127 standard deviations (at 0.5 %), which says nothing of a machine. If documents differ by 1 % as a
whole, intervals of 2 + 1 of them then contain the truth in four of five (1 + 1: in one of six)
cases."""


def of_rounds(sides: tuple[Array, Array], columns: tuple[Columns, Columns]) -> Change:
    """Return the change of cases whose sides are in separate documents."""
    sides = _on_common_units(sides, columns)
    cells = [_cells(place) + (number << 48) for number, place in enumerate(columns)]
    means = [by_document(*one) for one in zip(sides, columns, strict=True)]
    between = fit(
        np.concatenate([one for one, _ in means], axis=1),
        np.repeat([0, 1], [one.shape[1] for one, _ in means]),
        np.concatenate([where.block for _, where in means]),
    )
    rounds = units(sides[0]), units(sides[1])
    shape = _Shape(
        shift=between.other - between.base,
        levels=(between.base, between.other),
        leverage=between.leverage,
        least=1 / np.maximum(rounds[0], 1) + 1 / np.maximum(rounds[1], 1),
        rounds=rounds,
        documents=between.counts,
    )
    values, cell = np.concatenate(sides, axis=1), np.concatenate(cells)
    return _change(values, cell, between, shape, _of_numbers(sides, columns))


def _on_common_units(
    sides: tuple[Array, Array], columns: tuple[Columns, Columns]
) -> tuple[Array, Array]:
    """Return the observations on units of hardware that both sides of a case have; all of them
    without such a unit."""
    blocks = [np.unique(place.block) for place in columns]
    shared = np.intersect1d(blocks[0], blocks[1])
    if not shared.size or all(np.array_equal(one, shared) and one.size == 1 for one in blocks):
        return sides
    known = [np.isfinite(side) for side in sides]
    usable = [np.zeros_like(one) for one in known]
    for block in shared:
        here = [one & (place.block == block) for one, place in zip(known, columns, strict=True)]
        both = (np.any(here[0], axis=1) & np.any(here[1], axis=1)).reshape(-1, 1)
        for one, some in zip(usable, here, strict=True):
            one |= some & both
    none = ~np.any(usable[0], axis=1).reshape(-1, 1)
    base, other = (
        np.where(one | none, side, np.nan) for one, side in zip(usable, sides, strict=True)
    )
    return base, other


ROUNDS_FOR_REPEATS = 3
"""Least count of round numbers for the estimate of repeated effects."""


def _of_numbers(
    sides: tuple[Array, Array], columns: tuple[Columns, Columns]
) -> tuple[Array, Array, Ints] | None:
    """Return the variance over round numbers of the difference between other and base in rounds of
    one number, as means over documents; the share of a round's variance in it; the count of
    numbers. None if no document repeats.

    An effect that recurs in each document of a side (the order of the cases, the places of their
    buffers) shows neither in the rounds of one document nor between documents.
    """
    if all(len(np.unique(place.document)) < 2 for place in columns):
        return None
    codes = [(place.round << 24) + place.block for place in columns]
    shared = np.intersect1d(codes[0], codes[1])
    if len(shared) < ROUNDS_FOR_REPEATS:
        return None
    levels, counts = (np.full((2, len(sides[0]), len(shared)), np.nan) for _ in range(2))
    for number, (side, code) in enumerate(zip(sides, codes, strict=True)):
        for place, one in enumerate(shared.tolist()):
            here = side[:, code == one]
            levels[number, :, place], counts[number, :, place] = row_mean(here), units(here)
    step = levels[1] - levels[0]
    known = units(step)
    rest = np.nan_to_num(step - row_mean(step)[:, None])
    enough = known >= ROUNDS_FOR_REPEATS
    variance = np.where(enough, (rest**2).sum(axis=1) / np.maximum(known - 1, 1), np.nan)
    inverse = np.where(np.isfinite(step), 1 / np.maximum(counts, 1), np.nan)
    return variance, row_mean(inverse[0]) + row_mean(inverse[1]), known


def of_pairs(pair: tuple[Array, Array], place: Columns) -> Change:
    """Return the change of cases whose sides were measured in the same visits: shape (cases,
    visits)."""
    difference = pair[1] - pair[0]
    known = np.isfinite(difference)
    means, _ = by_document(difference, place)
    alone = np.zeros(means.shape[1], np.int64)
    between = fit(means, alone, alone)
    base, other = (row_mean(by_document(np.where(known, x, np.nan), place)[0]) for x in pair)
    visits, documents = units(difference), units(means)
    shape = _Shape(
        shift=between.base,
        levels=(base, other),
        leverage=1 / np.maximum(documents, 1),
        least=2 / np.maximum(visits, 1),
        rounds=(visits, visits),
        documents=(documents, documents),
    )
    return _change(difference, _cells(place), between, shape)


class _Shape(NamedTuple):
    """Fields of `Change` that `_change` takes from its callers."""

    shift: Array
    levels: tuple[Array, Array]
    leverage: Array
    least: Array
    rounds: tuple[Ints, Ints]
    documents: tuple[Ints, Ints]


class _Part(NamedTuple):
    """Part of the variance of a document's level, one entry a case; 0 if absent."""

    variance: Array
    dof: Array


def _cells(place: Columns) -> Ints:
    """Return a number for each document and unit of hardware in it."""
    return (place.document << 24) + place.block


def _change(
    values: Array,
    cells: Ints,
    between: Fit,
    shape: _Shape,
    numbers: tuple[Array, Array, Ints] | None = None,
) -> Change:
    """Combine both layers of the observations; `numbers`: see `_of_numbers`."""
    size = len(values)
    within = fit(values, np.zeros_like(cells), cells)
    counts = [units(values[:, cells == cell]) for cell in np.unique(cells)]
    share = np.array(counts, float).reshape(-1, size).T
    inverse = row_mean(1 / np.where(share > 0, share, np.nan))  # of rounds of a document
    level = (shape.levels[0] + shape.levels[1]) / 2
    for one in shape.levels:
        level = np.where(np.isfinite(level), level, one)
    spread, dof = _pooled(within.squares, within, level)
    inner = _Part(np.nan_to_num(spread * inverse), dof)
    if numbers is not None:
        inner = _with_recurring(inner, spread, numbers, shape)
    own, common, feared = _documents(within, between, inverse, level)
    degrees = _satterthwaite(inner, own, common)
    variance = shape.leverage * (inner.variance + own.variance + common.variance)
    shared = _Part(
        within.common_variance * np.nan_to_num(inverse), np.full(size, within.common_dof)
    )
    return filled(
        CHANGE,
        shift=shape.shift,
        base_level=shape.levels[0],
        other_level=shape.levels[1],
        variance=np.where(degrees > 0, variance, np.nan),
        dof=degrees,
        common=feared.variance * shape.leverage,
        common_dof=feared.dof,
        base_rounds=shape.rounds[0],
        other_rounds=shape.rounds[1],
        base_documents=shape.documents[0],
        other_documents=shape.documents[1],
        leverage=shape.leverage,
        least=shape.least,
        apart=(own.variance > 0) | (common.variance > 0),
        movement=(shared.variance + common.variance) * shape.leverage,
        movement_dof=_satterthwaite(shared, common),
    )


def _with_recurring(
    inner: _Part, spread: Array, numbers: tuple[Array, Array, Ints], shape: _Shape
) -> _Part:
    """Widen intervals if rounds of one number have more in common than chance explains."""
    variance, inverse, count = numbers
    expected = spread * inverse
    rows = np.flatnonzero(np.isfinite(variance) & (expected > 0) & (inner.dof > 0))
    rows = rows[(shape.documents[0] + shape.documents[1])[rows] > 2]
    if not rows.size:
        return inner
    dof = np.asarray(count[rows] - 1.0, np.float64)
    factor, degrees = _excess(variance[rows] / expected[rows], dof, inner.dof[rows], 0.0)
    added, more = np.zeros_like(inner.variance), np.zeros_like(inner.variance)
    added[rows], more[rows] = factor * inner.variance[rows], degrees
    return _Part(inner.variance + added, _satterthwaite(inner, _Part(added, more)))


def _pooled(squares: Array, found: Fit, level: Array) -> tuple[Array, Array]:
    """Return the variance of one observation, moved towards those of like cases, and its degrees of
    freedom."""
    own = np.where(found.dof > 0, squares / np.maximum(found.dof, 1), np.nan)
    return shrink(own, found.dof, level, found.alike)


def _documents(
    within: Fit, between: Fit, inverse: Array, level: Array
) -> tuple[_Part, _Part, _Part]:
    """Return the variance that documents add to their rounds': for each case separately, and for
    all together. The third is the part of either that may move all cases at once."""
    size = len(level)
    known = (between.dof > 0) & np.isfinite(level)
    nothing = _Part(np.zeros(size), np.zeros(size))
    if not known.any():
        return nothing, nothing, nothing
    many = int(known.sum()) >= SHARING_CASES
    separate = many and between.alike < IN_GROUPS
    dof = np.where(known, between.dof, 0.0)
    own = (between.own_squares if separate else between.squares) / np.maximum(dof, 1)
    rounds, inner_dof = _pooled(within.own_squares if separate else within.squares, within, level)
    expected = np.nan_to_num(rounds * inverse)
    added, degrees = np.zeros(size), dof.copy()
    alone = known & (expected <= 0)  # documents of single rounds: nothing else tells of a spread
    if separate:
        added[alone], degrees[alone] = shrink(own[alone], dof[alone], level[alone], between.alike)
    else:  # two that agree by luck know no better than what is usual
        usual = LEAST_DOF * DEFAULT_RUN_SD**2 + dof * own
        added[alone] = np.maximum(own, usual / (LEAST_DOF + dof))[alone]
    rows = known & ~alone
    if rows.any():
        ratio, alike = own[rows] / expected[rows], between.alike if separate else 1.0
        factor, degrees[rows] = _excess(ratio, dof[rows], inner_dof[rows], alike)
        added[rows] = factor * expected[rows]
    if separate:
        fleeting = fleeting_variance(np.where(known, own, np.nan), dof, between.side_squares)
        added = np.maximum(added, np.where(known, fleeting - expected, 0.0))
    degrees = np.where(added > 0, np.maximum(degrees, LEAST_DOF), 0.0)
    inside = within.common_variance * float(np.median(inverse[known]))
    excess = between.common_variance - inside
    if not many or excess <= 0 or not _differs(between, inside, within.common_dof):
        return _Part(added, degrees), nothing, nothing
    shared_dof = np.full(size, max(between.common_dof, LEAST_DOF))
    if separate:
        shared = _Part(np.where(known, excess, 0.0), shared_dof)
        return _Part(added, degrees), shared, shared
    return _Part(added, degrees), nothing, _Part(added, shared_dof)


def _differs(between: Fit, inside: float, dof: float) -> bool:
    """Return True if documents move all cases by more than their rounds do."""
    if inside <= 0:
        return True
    ratio, degrees = between.common_variance / inside, between.common_dof
    return float(f_above(np.array([ratio]), np.array([degrees]), np.array([dof]))[0]) <= EVIDENCE_Q


def _excess(ratio: Array, dof: Array, inner_dof: Array, alike: float) -> tuple[Array, Array]:
    """Return the excess variance of documents over that expected from their rounds, in units of the
    latter, with its degrees of freedom; 0 if it may be chance."""
    chance = f_above(ratio, dof, inner_dof)
    found = np.where(false_discovery(chance) <= EVIDENCE_Q, ratio, 1.0)
    count = len(ratio)
    together = 1 + (count - 1) * alike
    # as many cases as if they did not move together
    if count < SHARING_CASES or float(normal_scores(chance).sum()) <= SUSPICION_Z * math.sqrt(
        count * together
    ):
        return np.maximum(found - 1, 0.0), dof
    d0, s0 = prior(ratio, dof)
    found = (d0 * np.maximum(s0, 1.0) + dof * ratio) / (d0 + dof)
    degrees = np.maximum(dof, np.minimum(d0 + dof, dof * count / together))
    return np.maximum(found - 1, 0.0), degrees


def _satterthwaite(*parts: _Part) -> Array:
    """Return degrees of freedom of the sum of variances; 0 if none is known."""
    total = np.asarray(sum(one.variance for one in parts))
    lost = sum(one.variance**2 / np.where(one.dof > 0, one.dof, np.inf) for one in parts)
    best = np.max([one.dof for one in parts], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lost > 0, total**2 / lost, best)


GUESS_WORTH = 3.0
"""Documents that a guess about them is worth."""


def with_unsettled(part: Change, inside: Array | None = None) -> Change:
    """Add the variance between documents that unsettled rounds, or samples within them (`inside`, a
    variance), let expect; the larger the number of agreeing documents, the smaller it is."""
    spread = np.where(part.single, np.nan, part.variance / part.least)
    states = between_document_variance(spread)
    if inside is not None:
        states = np.maximum(states, np.where(inside > UNSETTLED_INSIDE_SD**2, inside, 0.0))
    return _with(part, states * part.leverage * _doubt(part), part.dof)


def _doubt(part: Change) -> Array:
    """Return the share of an assumed variance between documents that remains after this many
    agreed; 0 if the documents themselves show the variance."""
    more = np.maximum(part.base_documents + part.other_documents - 2, 0)
    return np.where(part.apart, 0.0, GUESS_WORTH / (GUESS_WORTH + more))


def _with(part: Change, states: Array, dof: Array) -> Change:
    added, made = states > 0, part.copy()
    for name in ("variance", "common", "movement"):
        made[name] += states
    for name in ("common_dof", "movement_dof"):
        made[name] = np.where(added, dof, part[name])
    made.apart |= added
    return made


def with_known(part: Change, between: BetweenDocuments | None) -> Change:
    """Add what is known of documents beforehand, if they do not tell more themselves."""
    if between is None:
        return part
    doubt = _doubt(part) * part.leverage
    common, own = between.common * doubt, between.own * doubt
    known = np.isfinite(common + own) & ~part.apart
    common, own = (np.where(known, one, 0.0) for one in (common, own))
    dof = _satterthwaite(
        _Part(part.variance, part.dof),
        _Part(common, np.nan_to_num(between.common_dof)),
        _Part(own, np.nan_to_num(between.own_dof)),
    )
    made = part.copy()
    made.variance += common + own
    made.dof = np.where(known, dof, part.dof)
    for name in ("common", "movement"):
        made[name] += common
        made[f"{name}_dof"] = np.where(known, between.common_dof, part[f"{name}_dof"])
    made.apart |= known
    return made
