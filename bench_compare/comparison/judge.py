"""The rule: units → for each case a change, its interval, and a verdict.

1. The unit of a case is what both sides have several of: pairs of one run, else documents, else
   rounds, else the samples of one round (`estimate`).
2. The change is the difference of the means of the units. Its variance is Welch's, then moved
   towards that of the other cases (`moderate`), then raised by what one document cannot show
   (`FLOORS`).
3. *Slower* or *faster*: significant after control of false discoveries, at least as large as the
   threshold, and its 95 % interval beyond half of it. *Same*: the 90 % interval lies within the
   threshold. Otherwise *unclear* (`decide`).

All values are natural logarithms. Arrays have a row for each case; NaN is "not known".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from bench_schema.estimate import LEAST_PAIRS
from bench_schema.student import (
    digamma,
    f_above,
    inverse_trigamma,
    t_quantile,
    t_two_sided,
    trigamma,
)

from bench_compare.comparison.measure import SUMMARY_ROUND
from bench_compare.metrics import METRICS, Rate, Sampled
from bench_compare.model import NEWS, RANK, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.comparison.measure import Array, Ints, Mask, Measured, Units
    from bench_compare.metrics import Metric
    from bench_compare.model import Unit
    from bench_compare.policy import Policy

Records: TypeAlias = Any
"""A structured array (`numpy.recarray`), whose fields are attributes."""

FALSE_DISCOVERIES = 0.05
"""Share of the changes called faster or slower that may be false."""
FLOORS = {"device": 0.001, "host": 0.005}
"""Standard deviation of what one document adds to a case and its rounds cannot show. Of
the verdicts of single documents of one build, 0 of 1,470 were false on an H100 and 13 of 1,064 on
two shared cores (`tests/benchmarks/judge_table.py`)."""
OF_PROCESS = {"device": 0.03, "host": 0.1}
"""Least change between two files of other tools, each of one process. Ten processes of a Python
function on a shared machine lay within 7 to 14 %, and 95 % of their pairs within 10 %; products on
an H200 within 2 % (nvbench)."""
LEAST_DOCUMENTS = 3
"""Documents a side that are units by themselves; fewer are if they differ by more than rounds."""
LEAST_UNITS = 3
"""Fewer say little of their spread: the verdict is provisional."""
MOST_PRIOR = 12.0
"""Degrees of freedom that the other cases add, at most: their noise is not the same."""
LEAST_ALIKE = 5
"""Cases whose variances are moved towards each other."""
RESTLESS = 0.01
"""Chance of a variance so far above those of the others from which on a case keeps its own."""
LEAST_VARIANCE = 2e-5**2
"""Keeps logarithms finite where a coarse clock repeats itself."""

UNITS: tuple[Unit, ...] = ("pair", "document", "round", "iteration", "summary")
"""Names of the units; `ESTIMATE.unit` is a place in them."""
PAIR, DOCUMENT, ROUND, ITERATION, SUMMARY = range(len(UNITS))
ESTIMATE = np.dtype(
    [
        *(
            (name, np.float64)
            for name in ("base_log", "other_log", "shift", "variance", "dof", "floor")
        ),
        *((name, np.float64) for name in ("low", "high", "same_low", "same_high", "p")),
        *((name, np.int32) for name in ("base_units", "other_units", "base_runs", "other_runs")),
        ("unit", np.int8),
        ("paired", bool),
    ]
)
"""`variance` includes `floor`, the part that more rounds do not reduce; `same_low` and `same_high`
are the 90 % interval."""


def blank(kind: np.dtype[np.void], size: int) -> Records:
    """Return records whose numbers are NaN, counts 0 and marks False."""
    made = np.zeros(size, kind).view(np.recarray)
    for name in kind.names or ():
        if kind[name].kind == "f":
            made[name] = np.nan
    return made


def on(metric: str) -> str:
    """Return ``device`` for times of a device, ``host`` for everything else that scatters."""
    return "device" if metric.startswith(("device", "kernel")) else "host"


def false_discovery(p: Array) -> Array:
    """Return p after Benjamini and Hochberg 1995 (q), over all known entries."""
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    stepped = p[order] * len(order) / np.arange(1, len(order) + 1)
    q = np.full_like(p, np.nan)
    q[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return q


def prior(variance: Array, dof: Array, most: float = MOST_PRIOR) -> tuple[float, float]:
    """Return degrees of freedom and variance of what is common to many cases (Smyth 2004, Linear
    models and empirical Bayes methods), by medians, so that restless cases do not set it."""
    half = dof / 2
    e = np.log(np.maximum(variance, LEAST_VARIANCE)) - digamma(half) + np.log(half)
    centre = float(np.median(e))
    spread = (1.4826 * float(np.median(np.abs(e - centre)))) ** 2
    excess = spread - float(np.median(trigamma(half)))
    d0 = most if excess <= 0.02 else min(most, 2 * inverse_trigamma(excess))
    correction = float(digamma(np.array(d0 / 2))) - math.log(d0 / 2)
    return d0, math.exp(centre + correction)


def moderate(variance: Array, dof: Array) -> tuple[Array, Array]:
    """Return variances moved towards those of the other cases, and their degrees of freedom. A case
    far above the others keeps its own."""
    known = np.isfinite(variance) & (dof > 0)
    if known.sum() < LEAST_ALIKE:
        return variance, dof
    d0, common = prior(variance[known], dof[known])
    chance = np.ones(len(variance))
    chance[known] = f_above(variance[known] / common, dof[known], np.full(known.sum(), d0))
    moved = known & (chance >= RESTLESS)
    mixed = (d0 * common + dof * variance) / (d0 + dof)
    return np.where(moved, mixed, variance), np.where(moved, dof + d0, dof)


ROW = np.dtype(
    [
        *((name, np.int32) for name in ("cell", "side", "run", "index", "visit")),
        *((name, np.float64) for name in ("value", "own", "own_dof")),
    ]
)
"""A unit that counts. `cell`: a case on one place; `own`: variance that the row knows of itself."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Units that are compared."""

    table: Records
    """`ROW`; in a paired cell the values are differences of visits, and there is one side."""
    case: Ints
    """Row of the comparison of each cell."""
    paired: Mask
    """Cells that are compared by pairs."""
    used: Mask
    """Marks of the rows that count, among all that were given."""
    shares_run: Mask
    """Cells whose sides have a run in common, and so what its document adds."""
    levels: tuple[Array, Array]
    """Levels of base and other in each cell, of paired visits where these count."""


def _numbered(*columns: Ints) -> Ints:
    """Return a number for each row of columns: the same for equal rows."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, code = np.unique(
            code * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True
        )
        code = code.ravel()
    return code


def _mean(group: Ints, values: Array, size: int) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(group, values, size) / np.bincount(group, minlength=size))


def placed(units: Units, values: Array, own: tuple[Array, Array], may_pair: bool) -> Rows:
    """Return the rows in cells. A place counts if both sides have it; a case without a common place
    is one cell. In a run that is on both sides only visits of both count, as pairs."""
    case, side, run, round_ = (units[n].astype(np.int64) for n in ("case", "side", "run", "round"))
    at = _numbered(case, units["place"].astype(np.int64))
    counts = ~_beside_samples(case, side, round_)
    both = _of_both(at[counts], side[counts], int(at.max(initial=-1)) + 1)
    shares = np.bincount(case, both[at]) > 0
    used = (both[at] | ~shares[case]) & counts
    cell = _numbered(case, np.where(shares[case], at, -1))
    visit = _numbered(cell, run, round_)
    size = int(cell.max(initial=-1)) + 1
    paired = np.zeros(size, bool)
    if may_pair and size:
        met = _of_both(visit[used], side[used], int(visit.max()) + 1)
        first = np.unique(visit, return_index=True)[1]
        paired = np.bincount(cell[first], met, size) >= LEAST_PAIRS
        used &= met[visit] | ~paired[cell]
    table: Records = np.zeros(len(values), ROW).view(np.recarray)
    columns = cell, side, run, round_, visit, values, *own
    for name, column in zip(ROW.names or (), columns, strict=True):
        table[name] = column
    table = table[used]
    of_cell = np.zeros(size, np.int64)
    of_cell[cell] = case
    levels = _level(table[table.side == 0], size), _level(table[table.side == 1], size)
    together = _numbered(table.cell, table.run)
    shares_run = np.zeros(size, bool)
    shares_run[table.cell[_of_both(together, table.side)[together]]] = True
    if paired.any():
        table = _differences(table, paired)
    return Rows(table, of_cell, paired, used, shares_run, levels)


def _beside_samples(case: Ints, side: Ints, round_: Ints) -> Mask:
    """Return the summaries of documents of which others of the side have samples of the case."""
    group, is_summary = 2 * case + side, round_ == SUMMARY_ROUND
    return np.asarray(is_summary & (np.bincount(group, ~is_summary) > 0)[group])


def _of_both(group: Ints, side: Ints, size: int | None = None) -> Mask:
    """Return the groups that have rows of both sides."""
    size = int(group.max(initial=-1)) + 1 if size is None else size
    counts = (np.bincount(group[side == number], minlength=size) for number in (0, 1))
    return np.logical_and(*(count > 0 for count in counts))


def _level(table: Records, size: int) -> Array:
    """Return the mean over runs of the mean over rounds, in each cell."""
    run = _numbered(table.cell, table.run)
    count = int(run.max(initial=-1)) + 1
    cell = np.zeros(count, np.int64)
    cell[run] = table.cell
    return _mean(cell, _mean(run, table.value, count), size)


def _differences(table: Records, paired: Mask) -> Records:
    """Return the rows with those of paired cells replaced by differences of a visit."""
    mine, base = paired[table.cell], table.side == 0
    before = _mean(table.visit[base], table.value[base], int(table.visit.max()) + 1)
    table.value = np.where(mine, table.value - before[table.visit], table.value)
    table.own = np.where(mine, np.nan, table.own)
    return table[~mine | ~base]


def estimate(
    measured: Measured, name: str, floor_sd: float, extra: Extra | None = None
) -> tuple[Records, Rows]:
    """Return the estimates of a metric, a row for each case, and the rows behind them."""
    units, values = measured.metric(name)
    return _estimate(
        (units, values), name, len(measured.cases[0]), floor_sd, measured.shares_run,
        measured.looks, extra,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Extra:
    """Variance between documents of one build, of each case: known from a calibration, and used
    where each side is one document."""

    variance: Array
    dof: Array


def _estimate(
    given: tuple[Units, Array],
    name: str,
    height: int,
    floor_sd: float,
    may_pair: bool,
    looks: int,
    extra: Extra | None = None,
) -> tuple[Records, Rows]:
    units, values = given
    own = np.full(len(values), np.nan), np.zeros(len(values))
    if f"{name}.variance" in (units.dtype.names or ()):
        own = units[f"{name}.variance"], units[f"{name}.dof"]
    rows = placed(units, values, own, may_pair)
    cells = _of_cells(rows, floor_sd, extra)
    found = blank(ESTIMATE, height)
    if len(cells):
        _join(found, cells, rows.case)
    _intervals(found, looks)
    return found, rows


def _floor(
    rows: Rows, runs: tuple[Array, Array], floor_sd: float, extra: Extra | None
) -> tuple[Array, Array]:
    """Return the variance that more rounds do not reduce, and its degrees of freedom."""
    apart = ~rows.shares_run & (np.minimum(*runs) > 0)
    halves = 1 / np.maximum(runs[0], 1) + 1 / np.maximum(runs[1], 1)
    floor = np.where(apart, floor_sd**2 * halves, 0.0)
    dof = np.full(len(floor), np.inf)
    if extra is not None:
        more = extra.variance[rows.case] * halves
        use = apart & (np.maximum(*runs) == 1) & np.isfinite(more)
        floor, dof = np.where(use, more, floor), np.where(use, extra.dof[rows.case], np.inf)
    return floor, dof


def _of_cells(rows: Rows, floor_sd: float, extra: Extra | None) -> Records:
    """Return the estimates of cells; documents are units where they should be."""
    size = len(rows.case)
    cells = blank(ESTIMATE, size)
    t = rows.table
    group = 2 * t.cell + t.side
    document = _numbered(group, t.run)
    of = np.zeros(int(document.max(initial=-1)) + 1, np.int64)
    of[document] = group
    rounds = np.bincount(document, minlength=len(of))
    mean = _mean(document, t.value, len(of))

    def sums(groups: Ints, values: Array | None = None) -> Array:
        return np.bincount(groups, values, 2 * size).astype(float)

    runs, count = sums(of), sums(group)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = sums(of, mean) / runs
        share = sums(of, 1 / rounds) / runs**2  # of the variance of a round
        between = sums(of, (mean - level[of]) ** 2) / (runs - 1)
        total = sums(group, (t.value - level[group]) ** 2) / (count - 1)
        rest = sums(group, (t.value - mean[document]) ** 2) / (count - runs)
        ratio = between / (share * runs) / rest
    told = np.flatnonzero((runs > 1) & (count > runs) & (rest > 0))
    differ = bool(told.size) and _differ(ratio[told], runs[told] - 1, (count - runs)[told])
    of_own, own_dof = sums(group, t.own), sums(group, t.own_dof)

    a, b = np.arange(size) * 2, np.arange(size) * 2 + 1
    paired = rows.paired
    least = np.where(paired, runs[b], np.minimum(runs[a], runs[b]))
    by_run = (least >= LEAST_DOCUMENTS) | (differ & (np.maximum(runs[a], runs[b]) >= 2))
    parts = []
    for side in (a, b):
        here = np.where(by_run, runs[side], count[side])
        variance = np.where(by_run, between[side], total[side])
        weight = np.where(by_run, 1 / np.maximum(runs[side], 1), share[side])
        parts.append((here, np.where(here > 1, variance, np.nan), weight))
    (n_a, s_a, w_a), (n_b, s_b, w_b) = parts
    with np.errstate(divide="ignore", invalid="ignore"):
        v_a, v_b = s_a * w_a, s_b * w_b
        welch = (v_a + v_b) ** 2 / (v_a**2 / (n_a - 1) + v_b**2 / (n_b - 1))
        welch = np.where(v_a + v_b > 0, welch, n_a + n_b - 2)
        alone = np.isfinite(s_a) ^ np.isfinite(s_b)  # the other's spread stands for both
        s = np.where(np.isfinite(s_a), s_a, s_b)
        own = np.fmax(np.where(n_a == 1, of_own[a], np.nan), np.where(n_b == 1, of_own[b], np.nan))
        weight = np.where(paired, w_b, w_a + w_b)
        variance = np.where(alone, s * weight, v_a + v_b)
        variance = np.where(alone & ~paired, np.fmax(variance, own), variance)
        dof = np.where(alone, np.fmax(n_a, n_b) - 1, welch)
        # A round a side: what the samples of each tell.
        single = ~np.isfinite(variance) & ~paired
        inside = of_own[a] + of_own[b]
        inside_dof = inside**2 / (of_own[a] ** 2 / own_dof[a] + of_own[b] ** 2 / own_dof[b])
        inside_dof = np.where(inside > 0, inside_dof, own_dof[a] + own_dof[b])
    variance = np.where(single, inside, variance)
    dof = np.where(single, inside_dof, dof)
    weight = np.where(single, 1 / (own_dof[a] + 1) + 1 / (own_dof[b] + 1), weight)
    known = np.isfinite(variance)
    kinds = np.select([~known, single, paired, by_run], [SUMMARY, ITERATION, PAIR, DOCUMENT], ROUND)
    cells.unit, cells.paired = kinds, paired
    for kind in np.unique(kinds[known]):
        mine = np.flatnonzero((kinds == kind) & known)
        moved, more = moderate(variance[mine] / weight[mine], dof[mine])
        variance[mine], dof[mine] = moved * weight[mine], more

    cells.base_log, cells.other_log = rows.levels
    cells.shift = cells.other_log - cells.base_log
    cells.base_runs, cells.other_runs = np.where(paired, runs[b], runs[a]), runs[b]
    counted = [np.where(kinds == SUMMARY, 0, np.where(single, 1, n)) for n in (n_a, n_b)]
    cells.base_units, cells.other_units = np.where(paired, counted[1], counted[0]), counted[1]
    floor, floor_dof = _floor(rows, (runs[a], runs[b]), floor_sd, extra)
    cells.floor = np.where(known, floor, np.nan)
    cells.variance = variance + floor
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = cells.variance**2 / (variance**2 / dof + floor**2 / floor_dof)
    cells.dof = np.where(cells.variance > 0, whole, dof)
    return cells


def _differ(ratio: Array, above: Array, below: Array) -> bool:
    """Return True if documents of a side differ by more than their rounds explain: F over all
    cases, each ratio relative to its mean without such a difference."""
    usual = np.where(below > 2, below / np.maximum(below - 2, 0.5), 3.0)
    found = float((above * ratio / usual).sum() / above.sum())
    chance = f_above(np.array(found), np.array(above.sum()), np.array(below.sum()))
    return float(chance) < FALSE_DISCOVERIES


def _join(found: Records, cells: Records, case: Ints) -> None:
    """Enter the estimates of cases: means over their cells. A place of which no scatter is known
    does not count beside one of which it is."""
    height, valid = len(found), np.isfinite(cells.base_log) | np.isfinite(cells.other_log)
    known = np.isfinite(cells.variance + cells.shift)
    valid &= known | ~(np.bincount(case, known, height) > 0)[case]
    cells, case = cells[valid], case[valid]
    count = np.bincount(case, minlength=height)
    with np.errstate(divide="ignore", invalid="ignore"):
        for name in ("base_log", "other_log", "shift"):
            found[name] = np.bincount(case, cells[name], height) / count
        for name in ("variance", "floor"):
            found[name] = np.bincount(case, cells[name], height) / count**2
        squares = np.bincount(case, cells.variance**2 / cells.dof, height) / count**4
        found.dof = np.where(found.variance > 0, found.variance**2 / squares, np.inf)
    for name in ("base_units", "other_units", "base_runs", "other_runs"):
        found[name] = np.bincount(case, cells[name], height)
    found.unit = SUMMARY
    found.unit[case], found.paired[case] = cells.unit, cells.paired


def _intervals(found: Records, looks: int) -> None:
    known = np.isfinite(found.variance) & np.isfinite(found.shift) & (found.dof > 0)
    dof = np.where(known, found.dof, np.nan)
    sd = np.sqrt(np.where(known, found.variance, np.nan))
    for names, share in ((("low", "high"), 0.05), (("same_low", "same_high"), 0.1)):
        half = t_quantile(1 - share / looks / 2, dof) * sd
        found[names[0]], found[names[1]] = found.shift - half, found.shift + half
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(found.shift == 0, 0.0, found.shift / sd)
    found.p = np.minimum(looks * t_two_sided(t, dof), 1.0)


# The verdict.

UP, DOWN, SAME, UNCLEAR, NOTHING = range(5)


def decide(found: Records, q: Array, threshold: Array, least: Array, noise: Array) -> Ints:
    """Return the move of each case. `threshold`: log(1 + T); `least`: smallest change that the way
    of measuring can show; `noise`: that which the files themselves state, NaN where there are
    samples. Of files that state nothing (0) the ratio alone decides."""
    shift = found.shift
    size = np.abs(shift)
    with np.errstate(invalid="ignore"):
        beyond = (size >= np.maximum(threshold, least)) & ~(size <= noise)
        near = np.where(shift > 0, found.low, -found.high)
        moved = beyond & (q <= FALSE_DISCOVERIES) & (near > threshold / 2)
        same = (found.same_low >= -threshold) & (found.same_high <= threshold)
        raw = ~np.isfinite(found.low) & np.isfinite(noise)
        moved |= raw & beyond
        same |= raw & (size <= threshold)
    move = np.select([moved & (shift > 0), moved, same], [UP, DOWN, SAME], UNCLEAR)
    return np.asarray(np.where(np.isfinite(shift), move, NOTHING))


def seen(found: Records, tests: int, threshold: Array, least: Array) -> Array:
    """Return the logarithm of the slow-down that would be called with a probability of 90 %."""
    dof = np.where(found.dof > 0, found.dof, np.nan)
    sd = np.sqrt(found.variance)
    significant = t_quantile(1 - FALSE_DISCOVERIES / 2 / max(tests, 1), dof) * sd
    beyond_half = threshold / 2 + t_quantile(0.975, dof) * sd
    limit = np.fmax(np.fmax(threshold, least), np.fmax(significant, beyond_half))
    return np.asarray(limit + t_quantile(0.9, dof) * sd)


def needed(found: Records, threshold: Array) -> tuple[Array, Ints]:
    """Return how many more units a side would about decide an unclear case, and which; NaN if none
    would. A point near the threshold takes the nearer of both answers."""
    size = np.abs(found.shift)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.maximum(threshold - size, size - threshold / 2) / 2.2
        own = found.variance - found.floor
        by_run = (room**2 <= 1.5 * found.floor) | (found.unit == DOCUMENT)
        count = np.where(by_run, np.fmin(found.base_runs, found.other_runs),
                         np.fmin(found.base_units, found.other_units))  # fmt: skip
        times = np.where(by_run, found.variance / room**2, own / (room**2 - found.floor))
        more = np.ceil(count * times) - count
    unit = np.where(by_run, DOCUMENT, np.where(found.unit >= ROUND, ROUND, found.unit))
    return np.where(np.isfinite(more) & (more >= 1) & (more <= 1000), more, np.nan), unit


# The table of a metric.

NUMBERS = (
    *("base", "other", "ratio", "ci_low", "ci_high", "p", "q"),
    *("threshold_ratio", "rounds_needed", "seen_ratio"),
)
JUDGED = np.dtype(
    [
        *((name, np.float64) for name in NUMBERS),  # NaN: not known
        ("base_rounds", np.int32),
        ("other_rounds", np.int32),
        ("unit", np.int8),  # place in `UNITS`
        ("needed_unit", np.int8),
        ("verdict", np.int8),  # place in `NEWS`
        ("provisional", bool),
        ("clock", bool),  # the time moved, and the cycles did not
        ("least", np.float64),  # log of the smallest change that the way of measuring can show
        ("noise", np.float64),  # that which the files state
        ("other_place", bool),
        ("assumed_sd", np.float64),  # by which single documents are assumed to differ
        ("left_out", np.int8),  # 1: a place that base lacks, 2: rounds that base lacks decide
    ]
)


@dataclass(frozen=True, eq=False)
class Judged:
    """A metric of all pairs of two sides."""

    metric: Metric
    found: Records
    """`ESTIMATE`; of rates that of the time beneath. Empty for a metric of one number a case."""
    rows: Rows | None
    least: Array
    """Logarithm of the smallest change that the way of measuring can show."""
    noise: Array
    floor_sd: float
    offset: Array | None = None
    """Logarithm of the work of other over base, of a rate."""
    levels: tuple[Array, Array] = field(default_factory=lambda: (np.empty(0), np.empty(0)))
    """Log values of base and other, of rates and of metrics of one number."""


def floor_of(name: str, policy: Policy) -> float:
    return FLOORS[on(name)] if policy.floor_sd is None else policy.floor_sd


def scattering(measured: Measured, name: str, policy: Policy, extra: Extra | None) -> Judged:
    """Return a metric that has samples or one number a round."""
    floor_sd = floor_of(name, policy)
    found, rows = estimate(measured, name, floor_sd, extra)
    noise = np.full(len(found), np.nan)
    if isinstance(METRICS[name].reading, Sampled):
        units, _ = measured.metric(name)
        told = units["round"] == SUMMARY_ROUND
        noise[units["case"][told]] = 0.0
        np.maximum.at(
            noise, units["case"][told], np.log1p(np.nan_to_num(units[f"{name}.sd"][told]))
        )
    return Judged(METRICS[name], found, rows, np.zeros(len(found)), noise, floor_sd)


def exact(metric: Metric, levels: tuple[Array, Array]) -> Judged:
    """Return a metric of one number a case, which does not scatter."""
    found = blank(ESTIMATE, len(levels[0]))
    nothing = np.zeros(len(found))
    return Judged(metric, found, None, nothing, nothing, 0.0, levels=levels)


def cycles(measured: Measured, one: Judged) -> Records:
    """Return the estimates of time multiplied by clock, of the cases all of whose rounds have a
    clock."""
    units, values = measured.metric(one.metric.name)
    clock = units["clock_mhz"]
    whole = np.bincount(units["case"], ~(clock > 0), len(one.found))[units["case"]] == 0
    given = units[whole], values[whole] + np.log(clock[whole])
    return _estimate(
        given, "cycles", len(one.found), one.floor_sd, measured.shares_run, measured.looks
    )[0]


def verdict_of(metric: Metric, move: Ints) -> Ints:
    """Return the place in `NEWS` of each move of a metric."""
    good, bad = (
        (Verdict.FASTER, Verdict.SLOWER) if metric.speed else (Verdict.BETTER, Verdict.WORSE)
    )
    up, down = (bad, good) if metric.better == "lower" else (good, bad)
    names = (up, down, Verdict.SAME, Verdict.UNCLEAR, Verdict.UNMEASURED)
    return np.array([RANK[name] for name in names])[move]


def _known(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)


def _ratio(logs: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return _known(np.exp(logs))


def table(one: Judged, q: Array, tests: int, thresholds: Array, measured: Measured) -> Any:
    """Return a row of `JUDGED` for each case."""
    if one.rows is None:
        return exact_table(one, thresholds)
    found, limit = one.found, np.log1p(thresholds)
    move = decide(found, q, limit, one.least, one.noise)
    rate = one.offset is not None
    made = np.zeros(len(found), JUDGED)
    sign = -1.0 if rate else 1.0
    offset = np.zeros(len(found)) if one.offset is None else one.offset
    ends = (found.high, found.low) if rate else (found.low, found.high)
    decided = np.isfinite(found.shift) & np.isfinite(offset)
    numbers = {
        "ratio": _ratio(offset + sign * found.shift),
        "ci_low": _ratio(offset + sign * ends[0]),
        "ci_high": _ratio(offset + sign * ends[1]),
        "p": _known(found.p),
        "q": _known(q),
        "seen_ratio": np.full(len(found), np.nan),
        "rounds_needed": np.full(len(found), np.nan),
    }
    more, unit = needed(found, limit)
    numbers["rounds_needed"] = np.where(move == UNCLEAR, more, np.nan)
    if one.metric.gates:
        numbers["seen_ratio"] = _ratio(seen(found, tests, limit, one.least))
    for name, values in numbers.items():
        made[name] = np.where(decided, values, np.nan)
    base, other = one.levels if rate else (found.base_log, found.other_log)
    made["base"], made["other"], made["threshold_ratio"] = _ratio(base), _ratio(other), thresholds
    if rate:
        move = np.select([move == UP, move == DOWN], [DOWN, UP], move)
    made["verdict"] = verdict_of(one.metric, np.where(decided, move, NOTHING))
    made["unit"] = np.where(decided, found.unit, SUMMARY)
    made["needed_unit"] = np.where(decided, unit, SUMMARY)
    for name in ("base", "other"):
        made[f"{name}_rounds"] = np.where(decided, found[f"{name}_units"], np.isfinite(made[name]))
    few = np.minimum(found.base_units, found.other_units) < LEAST_UNITS
    made["other_place"] = measured.other_place
    made["provisional"] = decided & (few | measured.other_place)
    made["least"], made["noise"] = one.least, one.noise
    assumed = np.isclose(found.floor, 2 * one.floor_sd**2, rtol=1e-9, atol=0)
    assumed &= (found.base_runs == 1) & (found.other_runs == 1)
    made["assumed_sd"] = np.where(assumed, one.floor_sd, np.nan)
    return made


def exact_table(one: Judged, thresholds: Array) -> Any:
    """Return the rows of a metric that does not scatter: the threshold alone decides."""
    base, other = one.levels
    made = np.zeros(len(base), JUDGED)
    for name in NUMBERS:
        made[name] = np.nan
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = other / base
        size = np.abs(np.log(ratio))
    limit = np.log1p(thresholds)
    both = ~np.isnan(base) & ~np.isnan(other)
    with np.errstate(invalid="ignore"):
        same = (base == other) | (size <= limit)
        move = np.select([~both, same, other > base], [NOTHING, SAME, UP], DOWN)
    made["verdict"] = verdict_of(one.metric, move)
    made["ratio"] = np.where(both, _known(ratio), np.nan)
    made["base"], made["other"], made["threshold_ratio"] = base, other, thresholds
    made["base_rounds"], made["other_rounds"] = ~np.isnan(base), ~np.isnan(other)
    made["unit"] = made["needed_unit"] = SUMMARY
    return made


def rate_of(metric: Metric, gates: Sequence[Judged], work: tuple[Array, Array]) -> Judged | None:
    """Return work over time, of each case by the first gate that both of its sides have; `work`:
    logarithms. None if no case has it."""
    assert isinstance(metric.reading, Rate), "of another kind"
    if not gates or not np.isfinite(np.concatenate(work)).any():
        return None
    first = gates[0]
    found = first.found.copy()
    for gate in gates[1:]:
        use = ~np.isfinite(found.shift) & np.isfinite(gate.found.shift)
        found[use] = gate.found[use]
    offset = work[1] - work[0]
    found.p = np.where(np.isfinite(offset), found.p, np.nan)
    return Judged(
        metric, found, first.rows, first.least, first.noise, first.floor_sd, offset,
        (work[0] - found.base_log, work[1] - found.other_log),
    )  # fmt: skip


# What other measured on a place, or in rounds, that base lacks: it can only make a case slower.


def with_left_out(one: Judged, measured: Measured) -> tuple[Judged, npt.NDArray[np.int8]]:
    """Return the metric with the cases that became slower where base has nothing to pair it with:
    the slowest of other there, held against the slowest of base. The numbers say where: 1 a place,
    2 rounds of a run or a summary."""
    why = np.zeros(len(one.found), np.int8)
    units, values = measured.metric(one.metric.name)
    case, side, place = (units[n].astype(np.int64) for n in ("case", "side", "place"))
    at = _numbered(case, place)
    shares = np.bincount(case, _of_both(at, side)[at], len(why)) > 0
    first = np.unique(2 * at + side, return_index=True)[1]
    several = np.bincount(case[first], side[first], len(why)) > 1
    assert one.rows is not None, "metrics of one number have no units"
    left = (side == 1) & (~one.rows.used | (~shares & several)[case])
    if not left.any():
        return one, why
    cases = np.unique(case[left])
    by_run = (units["round"] == SUMMARY_ROUND) | measured.shares_run
    mine = np.flatnonzero(np.isin(case, cases) & (left | (side == 0)))
    group = _numbered(case[mine], side[mine], place[mine],
                      np.where(by_run, units["run"], -1)[mine].astype(np.int64))  # fmt: skip
    level = _mean(group, values[mine], int(group.max()) + 1)[group]
    pair = 2 * case[mine] + side[mine]
    slowest = np.full(2 * len(why), -np.inf)
    np.maximum.at(slowest, pair, level)
    mine = mine[level >= slowest[pair]]
    part = units[mine].copy()
    part["place"] = 0
    found, _ = _estimate(
        (part, values[mine]), one.metric.name, len(why), one.floor_sd, False, 2 * measured.looks
    )
    slower = np.zeros(len(why), bool)
    slower[cases] = True
    with np.errstate(invalid="ignore"):
        slower &= (found.shift > np.nan_to_num(one.found.shift, nan=-np.inf)) & (found.low > 0)
    merged = one.found.copy()
    merged[slower] = found[slower]
    of_run = np.bincount(case[left], by_run[left], len(why)) > 0
    why[slower] = np.where(of_run[slower], 2, 1)
    return replace(one, found=merged), why


# The suite.


@dataclass(frozen=True)
class Shift:
    """Common change of many cases, a logarithm, with its 95 % interval if it is known."""

    shift: float
    low: float | None
    high: float | None
    p: float | None
    units: tuple[int, int]


def suite(one: Judged, cases: Ints, weights: Array | None = None, middle: bool = False) -> Shift:
    """Return the weighted mean of the changes of these cases, or their median (`middle`). Its
    spread is that of units over all of these cases together, as cases share what their unit
    shares."""
    found, rows = one.found, one.rows
    assert rows is not None, "metrics of one number have no units"
    t, height = rows.table, len(found)
    weight = np.zeros(height)
    weight[cases] = 1.0 if weights is None else weights
    weight /= weight.sum()
    changes = found.shift[cases]
    shift = float(np.median(changes) if middle else (weight[cases] * changes).sum())
    cells = np.bincount(rows.case[np.unique(t.cell)], minlength=height)
    scale = (weight / np.maximum(cells, 1))[rows.case[t.cell]]
    by_run = bool((found.unit[cases] == DOCUMENT).any())
    column = t.run if by_run else _numbered(t.run, t.index)
    group = 2 * t.cell + t.side
    level = _mean(group, t.value, 2 * len(rows.case))
    part = _numbered(group, column)
    once = 1 / np.bincount(part)[part]  # of each row, so that a unit counts once
    scale = scale * once / np.bincount(group, once)[group]
    spread, counts = [], []
    for side in (0, 1):
        here = (scale > 0) & (t.side == side)
        number = np.unique(column[here], return_inverse=True)[1]
        sums = np.bincount(number, scale[here] * (t.value - level[group])[here])
        n = len(sums)
        counts.append(n)
        spread.append(float((sums**2).sum()) * n / (n - 1) if n > 1 else math.nan)
    if not counts[0]:
        counts[0], spread[0] = counts[1], 0.0  # pairs
    (v_a, v_b), (n_a, n_b) = spread, counts
    v_a, v_b = v_b * n_b if math.isnan(v_a) else v_a, v_a * n_a if math.isnan(v_b) else v_b
    together = 0.0 if math.isnan(v_a + v_b) else v_a + v_b
    below = v_a**2 / max(n_a - 1, 1) + v_b**2 / max(n_b - 1, 1)
    # Not less than what each case knows of itself: a unit may hold few of the cases.
    rest, own = found.floor[cases], weight[cases] ** 2 * (found.variance - found.floor)[cases]
    known = np.isfinite(own)
    if together == 0 and not known.any():
        return Shift(shift, None, None, None, (n_a, n_b))
    alone = float(own[known].sum())
    if alone > together:
        together, below = alone, float((own[known] ** 2 / found.dof[cases][known]).sum())
    floor = float(rest[known].mean()) if known.any() else 0.0
    variance = (math.pi / 2 if middle else 1.0) * together + floor
    dof = np.array(min((together + floor) ** 2 / below if below > 0 else math.inf, 1e6))
    sd = math.sqrt(variance)
    half = float(t_quantile(0.975, dof)) * sd
    p = float(t_two_sided(np.array(shift / sd if sd else math.inf), dof))
    return Shift(shift, shift - half, shift + half, p, (n_a, n_b))


def common_verdict(metric: Metric, found: Shift, threshold_ratio: float, is_raw: bool) -> Verdict:
    """Return the verdict on a common change, by the rule for a case. `is_raw`: no file of these
    cases has samples, so that the ratio decides where no scatter is known."""
    one = blank(ESTIMATE, 1)
    one.shift, one.p = found.shift, math.nan if found.p is None else found.p
    for name, value in (("low", found.low), ("high", found.high)):
        one[name] = one[f"same_{name}"] = math.nan if value is None else value
    limit, nothing = np.array([math.log1p(threshold_ratio)]), np.zeros(1)
    noise = nothing if is_raw else np.full(1, np.nan)
    move = decide(one, one.p, limit, nothing, noise)
    return NEWS[int(verdict_of(metric, move)[0])]
