"""The estimator: the time of a round, of a case, and the change of two cases. Every table, page and
export uses it, so that the same samples have one time and one ratio everywhere.

All values are natural logarithms of nanoseconds, and samples below one nanosecond (a clock too
coarse) count as one.

- A *place* is where the buffers lay: a round that moved them has several, any other round has one.
- A *round*: the mean over its places of the median of the samples at each. The median is that of
  the logarithms, of an even count the mean of the middle two. `Counted.log`
- A *case*: the mean over its rounds; of several documents the mean over these. `case_log`. Its
  95 % interval is Student's over the rounds, R - 1 degrees of freedom: `case_time`
- A *change*: the mean over visits of other's level in the visit minus base's: `change`. A visit is
  a round that has both sides, otherwise a unit of hardware.
- A *pair*: in a round whose sides took turns in blocks, other and base differ by the median over
  the blocks of other's median in the block minus base's. Their levels there are the middle of both
  rounds, minus and plus half of that: `paired_logs`. So the two times next to a change are those
  that it is made of.

Why. Samples of a round are not independent, rounds are (Kalibera and Jones 2013, "Rigorous
benchmarking in reasonable time"), so no sample outweighs its round. The median does not mind spikes
as a mean does, nor, as a minimum does, how many samples there are. On the logarithms the ratio of
two times is the difference of their locations, and swapping the sides inverts it exactly. One or
two rounds give no spread between rounds: the interval is then that of the pooled median by its
order statistics, which does not include differences between rounds.

Numbers of another kind say so in their name: `summary` pools the samples of all rounds.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench_schema.settings import LEAST_ROUNDS
from bench_schema.student import t_quantile

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from bench_schema.document import Case, Round, Samples
    from bench_schema.provenance import Settings


CONFIDENCE = 0.95


@lru_cache(maxsize=4096)
def two_sided(degrees: float, looks: int = 1) -> float:
    """Return the t within which the share 1 - 0.05 / `looks` of all values lies: of one look the 95
    % interval's, otherwise that of intervals of which several looks share the error. To six
    decimals, as tables have it: so documents that were written give their intervals again."""
    probability = 1 - (1 - CONFIDENCE) / (2 * looks)
    return round(float(t_quantile(probability, np.array(float(degrees)))), 6)


Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Flags: TypeAlias = npt.NDArray[np.bool_]

MAIN_SERIES = ("device_ns", "e2e_ns")
"""The first of these that a case has is its time: in tables, for rates, for a precision asked
for."""
MIN_ROUNDS_FOR_T = 3
LEAST_PAIRS = 2
"""Visits that both sides have, from which on they are compared within them."""
BATCH = 5
EVIDENCE = 4.0
"""Standard errors (of independent samples) between warm-up and the rest. In simulated series of
20 warm samples the share that is called not warm falls from 40 % to 4 % (5 % at an autocorrelation
of 0.5); a transient of 10 % is found as often and leaves the same bias as without this rule."""


def main_series(series: Container[str]) -> str | None:
    """Return the name of the series that is a case's time; None if `series` lacks one."""
    return next((name for name in MAIN_SERIES if name in series), None)


@dataclass(frozen=True)
class WarmupCut:
    cut: int
    """Leading samples to leave out."""
    not_warm: bool
    """The cut fell on the half-way mark: the series never settled."""


def warmup_cut(samples: Samples) -> WarmupCut:
    """Return the cut of the warm-up at the beginning, by MSER-5, and whether the series never
    settled.

    Of the medians of batches of five log times it leaves out the first d, d in the first half, such
    that (variance of the rest) / (count of the rest) is smallest (White, Cobb & Spratt 2000). In
    short series that alone often finds something in mere noise (two of five series of 20 that were
    warm all along), so what is left out must also differ from the rest: see `EVIDENCE`.
    """
    batches = len(samples) // BATCH
    if batches < 2 or samples.min() <= 0:
        return WarmupCut(0, False)
    medians = np.sort(samples[: batches * BATCH].reshape(batches, BATCH), axis=1)[:, BATCH // 2]
    logs = np.log(medians[::-1])
    logs -= logs[0]  # variances by sums of squares need small numbers
    count = np.arange(1, batches + 1)
    squares = np.cumsum(logs * logs) - np.cumsum(logs) ** 2 / count
    half = batches // 2
    scores = (squares / (count * count))[::-1][: half + 1]
    best = int(np.argmin(scores))
    if best == 0 or not _differs(samples, best * BATCH):
        return WarmupCut(0, False)
    return WarmupCut(best * BATCH, best == half)


def _differs(samples: Samples, cut: int) -> bool:
    """Return True if the medians before and after the cut differ by more than `EVIDENCE`
    deviations."""
    before, after = np.log(samples[:cut]), np.log(samples[cut:])
    middle = float(np.median(after))
    deviation = 1.4826 * float(np.median(np.abs(after - middle)))
    noise = deviation * math.sqrt(1 / len(before) + 1 / len(after))
    return abs(float(np.median(before)) - middle) > EVIDENCE * noise


def middle_log(ordered: Floats | Integers) -> Floats:
    """Return the location of rounds of one length: a sorted row each."""
    count = ordered.shape[1]
    middle = ordered[:, [(count - 1) // 2, count // 2]]
    return np.asarray(np.log(np.maximum(middle, 1)).mean(axis=1))


@dataclass(frozen=True, eq=False)
class Counted:
    """The samples of a round, one at least. All of them count: the warm-up was what the run
    declared, and is not among them."""

    samples: Samples
    moves: Sequence[int] | Integers = ()
    """Numbers of the first samples after each move of the buffers."""

    @property
    def log(self) -> float:
        """The time of the round."""
        if not len(self.moves):
            return float(middle_log(np.sort(self.samples)[None])[0])
        parts = np.split(self.samples, np.maximum(self.moves, 0))
        return mean_of_places(
            np.array([middle_log(np.sort(part)[None])[0] for part in parts if part.size])
        )


def mean_of_places(logs: Floats) -> float:
    """Return the logarithm of the mean of the times at the places of a round."""
    return float(np.log(np.exp(logs).mean()))


def counted(measured: Round, series: str) -> Counted | None:
    """Return the samples of a series; None if the round does not have any."""
    samples = measured.series.get(series)
    if samples is None or not samples.size:
        return None
    return Counted(samples, measured.placements.get(series, ()))


@dataclass(frozen=True, eq=False)
class BlockLevels:
    """Blocks of one side in one round."""

    logs: Floats
    """The median of each block; NaN for one without samples."""
    places: Integers
    """Place of each among the sides of its turn."""


def block_levels(measured: Round, series: str) -> BlockLevels:
    """Return the blocks of a series; none if it was not measured in blocks."""
    begins = measured.blocks.get(series)
    places = np.array(measured.block_places, np.int64)
    if begins is None or not begins.size:
        return BlockLevels(np.empty(0), places[:0])
    parts = np.split(measured.series[series], begins[1:])
    logs = [middle_log(np.sort(p)[None])[0] if p.size else math.nan for p in parts]
    return BlockLevels(np.array(logs), places)


def paired_log(base: BlockLevels, other: BlockLevels) -> float:
    """Return median difference of other and base in blocks of one turn; NaN if they took no turns.
    Two sides of a turn have different places: where one was measured again later, some are
    equal."""
    count = min(base.logs.size, other.logs.size, base.places.size, other.places.size)
    if (base.places[:count] == other.places[:count]).any():
        return math.nan
    differences = other.logs[:count] - base.logs[:count]
    known = differences[np.isfinite(differences)]
    return float(np.median(known)) if known.size else math.nan


def paired_logs(
    levels: tuple[float, float], blocks: tuple[BlockLevels, BlockLevels]
) -> tuple[float, float]:
    """Return the levels of base and other in a round whose sides took turns in blocks: the middle
    of the levels of both rounds, minus and plus half of the difference by blocks. Unchanged if they
    took no turns."""
    step = paired_log(*blocks)
    if not math.isfinite(step):
        return levels
    middle = (levels[0] + levels[1]) / 2
    return middle - step / 2, middle + step / 2


def round_logs(case: Case, series: str) -> Mapping[int, float]:
    """Return the time of each round of a case that has samples which count, by its number."""
    rounds = sorted(case.rounds, key=lambda one: one.index)
    return {one.index: found.log for one in rounds if (found := counted(one, series)) is not None}


def row_mean(values: Floats) -> Floats:
    """Return the mean of the known values in each row; NaN if there are none. For a row of a case's
    rounds it is the location of the case in one document."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def case_log(values: Floats, document: Integers) -> Floats:
    """Return the location of each case, a row of round locations (NaN: no such round); `document`:
    number of the document of each column."""
    numbers = np.flatnonzero(np.bincount(document))
    if len(numbers) < 2:
        return row_mean(values)
    means = [row_mean(values[:, document == number]) for number in numbers]
    return row_mean(np.stack(means, axis=1))


@dataclass(frozen=True)
class Time:
    """Time of a case in nanoseconds, with its 95 % interval if known."""

    ns: float
    low_ns: float | None
    high_ns: float | None

    @property
    def half_width_ratio(self) -> float | None:
        """Half of the interval, relative to the time."""
        if self.low_ns is None or self.high_ns is None or self.ns == 0:
            return None
        return (self.high_ns - self.low_ns) / 2 / self.ns


def time_series(case: Case) -> str | None:
    """Return the series that is the case's time, of those that it has."""
    return main_series(case.summary or {name for one in case.rounds for name in one.series})


def case_time(case: Case, series: str | None = None) -> Time | None:
    """Return a case's time by its rounds, or by its summary if it has no rounds; of its main series
    unless `series` names another. None if the case does not have it."""
    series = time_series(case) if series is None else series
    if series is None:
        return None
    rounds = [found for one in case.rounds if (found := counted(one, series)) is not None]
    if rounds:
        return time_of(rounds)
    summary = case.summary.get(series)
    if summary is None:
        return None
    return Time(summary.median, summary.median_ci_low, summary.median_ci_high)


def time_of(rounds: Sequence[Counted]) -> Time:
    """Return the time of the rounds of a case in one document, one round at least."""
    logs = [each.log for each in rounds]
    value = math.exp(math.fsum(logs) / len(logs))
    if len(logs) >= MIN_ROUNDS_FOR_T:
        return Time(value, *(math.exp(end) for end in t_interval(logs)))
    pooled = np.sort(np.concatenate([each.samples for each in rounds]))
    rank = binomial_rank(len(pooled))
    if rank is None:
        return Time(value, None, None)
    return Time(value, float(pooled[rank]), float(pooled[-1 - rank]))


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of independent values, two at least."""
    count = len(values)
    centre = math.fsum(values) / count
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (count - 1))
    half = two_sided(count - 1) * spread / math.sqrt(count)
    return centre - half, centre + half


@functools.cache
def binomial_rank(count: int) -> int | None:
    """Return the largest k such that the k-th smallest to the k-th largest of ``count`` independent
    values (from 0) hold the median with 95 % confidence; None if all of them do not."""
    tail = (1 - CONFIDENCE) / 2
    log_half = count * math.log(0.5)
    below, rank = 0.0, -1
    for successes in range(count // 2):
        choose = (
            math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
        )
        below += math.exp(choose + log_half)
        if below > tail:
            break
        rank = successes
    return rank if rank >= 0 else None


@dataclass(frozen=True)
class Change:
    """Logarithms of the times of base and other that a change is made of, and of their ratio; its
    95 % interval if it is known."""

    base: float
    other: float
    low: float | None = None
    high: float | None = None

    @property
    def log(self) -> float:
        return self.other - self.base

    @property
    def base_ns(self) -> float:
        return math.exp(self.base)

    @property
    def other_ns(self) -> float:
        return math.exp(self.other)


def change(base: Case, other: Case, series: str) -> Change | None:
    """Return the change of two cases of one document; None if either does not have a round."""
    before, after = _located_rounds(base, series), _located_rounds(other, series)
    pairs = [key for key in before if key in after]
    if len(pairs) >= LEAST_PAIRS:
        blocks = [_blocks_of(case, series) for case in (base, other)]
        levels = [
            paired_logs((before[key], after[key]), (blocks[0][key], blocks[1][key]))
            if key in blocks[0] and key in blocks[1]
            else (before[key], after[key])
            for key in pairs
        ]
        steps = [two - one for one, two in levels]
        ends = t_interval(steps) if len(steps) >= MIN_ROUNDS_FOR_T else ()
        means = (math.fsum(side) / len(steps) for side in zip(*levels, strict=True))
        return Change(*means, *ends)
    if not (before and after):
        return None
    numbers: dict[_Unit, int] = {}
    units = [numbers.setdefault(unit, len(numbers)) for _, unit in (*before, *after)]
    values = np.array([*before.values(), *after.values()])
    side = np.repeat([0, 1], [len(before), len(after)])
    kept, block = comparable(np.arange(len(values)), side, np.array(units))
    one, two = (values[kept] @ weights(side[kept] == number, block) for number in (0, 1))
    return Change(float(one), float(two))


_Unit: TypeAlias = "tuple[str | None, str | None]"
"""Host and device."""


def _located_rounds(case: Case, series: str) -> dict[tuple[int, _Unit], float]:
    """Return the location of each round by its number and where it was measured."""
    logs = round_logs(case, series)
    where = {one.index: (one.host, one.device_uuid) for one in case.rounds}
    return {(index, where[index]): log for index, log in logs.items()}


def _blocks_of(case: Case, series: str) -> dict[tuple[int, _Unit], BlockLevels]:
    """Return the blocks of each round that was measured in blocks, by number and unit of
    hardware."""
    return {
        (one.index, (one.host, one.device_uuid)): block_levels(one, series)
        for one in case.rounds
        if one.blocks
    }


def comparable(columns: Integers, side: Integers, block: Integers) -> tuple[Integers, Integers]:
    """Return the observations in blocks that both sides have, and their blocks; all of them if no
    block is common or there is one side only (one block if the sides share none)."""
    both = np.intersect1d(block[side == 0], block[side == 1])
    if both.size:
        kept = np.isin(block, both)
        return columns[kept], block[kept]
    one_sided = side.min() == side.max()
    return columns, block if one_sided else np.zeros_like(block)


def weights(mine: Flags, block: Integers) -> Floats:
    """Return each observation's weight in the level of a side: the mean over blocks of block
    means."""
    found = np.zeros(len(block))
    numbers = np.unique(block[mine])
    for number in numbers:
        here = mine & (block == number)
        found[here] = 1 / (len(numbers) * here.sum())
    return found


# When a run that stops as soon as its pairs are decided looks at its results.
#
# A run that looks often and stops when it likes what it sees errs more often than its intervals
# say. So it looks a few times, at numbers of rounds that are fixed beforehand, and the looks share
# the error that is allowed: each may spend its part (Lan and DeMets 1983, alpha spending), all
# parts the same, added up by Bonferroni's inequality. That holds for Student's t at any number of
# rounds and for looks that depend on each other in any way; the exact joint distribution would make
# intervals about 5 % narrower (Jennison and Turnbull 2000, Group sequential methods, table 2.1).
# The intervals hold at all looks together (Jennison and Turnbull 1989, repeated confidence
# intervals), so later readers of the document may use them whatever ended the run.

GROWTH = 1.3
"""Rounds at one look over those at the look before."""


def looks(rounds: int, max_rounds: int) -> tuple[int, ...]:
    """Return the numbers of rounds after which results are looked at, the last one `max_rounds`."""
    found = [max(rounds, LEAST_ROUNDS)]
    while found[-1] < max_rounds:
        found.append(min(math.ceil(GROWTH * found[-1]), max_rounds))
    return tuple(found)


def look_count(settings: Settings) -> int:
    """Return the number of looks that share the error of a run; 1 if it did not look."""
    if settings.until is None or settings.max_rounds is None:
        return 1
    return len(looks(settings.rounds, settings.max_rounds))
