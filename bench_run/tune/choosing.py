"""Choice of winners, for one graph and for all: arrays in, decisions out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from bench_schema.estimate import two_sided
from bench_schema.tuning import Ratio, Total

from bench_run.text import percent_text
from bench_run.tune.racing import intervals, preferred, raced_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from bench_run.plan.cases import PlannedGraph
    from bench_run.tune.racing import Fate, Logs, Option, RaceState


# The rounds of the finalists were taken in turns, so their differences are taken round by round:
# what moved all of them cancels. The interval of a mean of differences is Student's. A tie is
# decided here, not in the race: that ran in one process, where a plan's place in memory may favour
# it by as much as ties are apart; rounds are of as many processes.


@dataclass(frozen=True)
class Finalist:
    """A candidate that was confirmed: completed, and not wrong."""

    index: int
    rank: int
    """Among equals the lowest is preferred: the default's is 0."""
    logs: npt.NDArray[np.float64]
    """Logarithms of the times of its rounds."""


@dataclass(frozen=True)
class Raced:
    """One graph after its race."""

    graph: PlannedGraph
    options: Sequence[Option]
    fates: Sequence[Fate]
    """Fate of each option before the race."""
    entered: Sequence[int]
    """Options in the race, in the order of its rows."""
    state: RaceState | None
    ranks: Mapping[int, int]
    finalists: Sequence[int] = ()
    tied: Sequence[int] = ()
    """Tied options, as indices."""

    @property
    def beyond(self) -> str | None:
        """The limit that the default breaks."""
        return self.fates[0].beyond

    def rivals(self, finalists: Sequence[Finalist]) -> Sequence[Finalist]:
        """Return the finalists that may win: without a default that breaks a limit, if others keep
        it."""
        others = [each for each in finalists if each.index != 0]
        return others if others and self.beyond is not None else finalists


@dataclass(frozen=True)
class Decision:
    winner: int
    tied_with: tuple[int, ...]
    gain: Ratio | None
    reason: str


OTHERS = 2
"""Times as many degrees of freedom as its own that all pairs give to the variance of one."""


def ratio(base: Finalist, other: Finalist, common: float | None = None, looks: int = 1) -> Ratio:
    """Return the ratio of the time of `base` to that of `other`. `common`: the mean variance of
    differences of all finalists; the variance of these two is averaged with it, since few rounds
    determine one poorly. `looks`: number of looks at the rounds."""
    rounds = min(base.logs.size, other.logs.size)
    if base.index == other.index:
        return Ratio(1.0, 1.0, 1.0)
    steps = base.logs[:rounds] - other.logs[:rounds]
    mean = float(steps.mean())
    if rounds < 2:
        return Ratio(math.exp(mean))
    variance, degrees = float(steps.var(ddof=1)), rounds - 1
    if common is not None:
        variance, degrees = (variance + OTHERS * common) / (1 + OTHERS), degrees * (1 + OTHERS)
    half = two_sided(degrees, looks) * math.sqrt(variance / rounds)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def common_variance(finalists: Sequence[Finalist]) -> float | None:
    """Return the mean variance of the differences, round by round, of all pairs; None below three
    finalists and two rounds."""
    rounds = min((f.logs.size for f in finalists), default=0)
    if len(finalists) < 3 or rounds < 2:
        return None
    logs = np.array([f.logs[:rounds] for f in finalists])
    pairs = [(a, b) for a in range(len(logs)) for b in range(a)]
    return float(np.mean([(logs[a] - logs[b]).var(ddof=1) for a, b in pairs]))


def decide(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int = 1
) -> Decision:
    """Decide between finalists; there is at least one."""
    lasting = still_open(finalists, default, margin_ratio, looks)
    common = common_variance(lasting)
    equals = tied_finalists(lasting, margin_ratio, common)
    base = next((f for f in lasting if f.index == default), None)
    if base is None:
        best = min(equals, key=_rank)
        return Decision(best.index, _others(equals, best), None, "the default did not complete")
    gains = {f.index: ratio(base, f, common, looks) for f in lasting}
    better = [f for f in lasting if f is not base and _exceeds(gains[f.index], margin_ratio)]
    if not better:
        # It stays, as no finalist was shown to be better by more than the margin. That test
        # is made for each and not only for the one that is preferred among equals: that one changes
        # with noise, and with it the default would come and go.
        others = _others(equals, base)
        reason = "the default is among the fastest" if others else "the default is the fastest"
        if base not in equals:
            best = min(equals, key=_rank)
            margin = percent_text(margin_ratio)
            reason = f"the gain of candidate {best.index} is not shown to exceed {margin}"
        return Decision(base.index, others, Ratio(1.0, 1.0, 1.0), reason)
    best = min([f for f in equals if f in better] or better, key=_rank)
    others = _others(equals, best)
    reason = "first among equals" if others else "the fastest"
    by_index = {finalist.index: finalist for finalist in finalists}
    gain = ratio(by_index[default], by_index[best.index], common, looks)
    return Decision(best.index, others, gain, reason)


def still_open(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int
) -> list[Finalist]:
    """Return the default and the finalists that may win, in the rounds that all of these have. A
    finalist shown to be slower at a look got no more rounds and stays out; of the rest, only those
    whose times are shown get more once the winner is known."""
    left = list(finalists)
    while True:
        rounds = min(f.logs.size for f in left)
        then = [replace(f, logs=f.logs[:rounds]) for f in left]
        slower = {f.index for f in shown_slower(then, margin_ratio, looks)} - {default}
        stay = [f for f in left if f.index not in slower or f.logs.size > rounds]
        if len(stay) == len(left):
            return then
        left = stay


def shown_slower(finalists: Sequence[Finalist], margin_ratio: float, looks: int) -> list[Finalist]:
    """Return the finalists that are behind the fastest by more than the margin, so that more rounds
    are in vain."""
    common = common_variance(finalists)
    fastest = min(finalists, key=lambda f: float(f.logs.mean()))
    return [f for f in finalists if _exceeds(ratio(f, fastest, common, looks), margin_ratio)]


def _exceeds(gain: Ratio, margin_ratio: float) -> bool:
    return gain.low is not None and gain.low > 1 + margin_ratio


def _rank(finalist: Finalist) -> int:
    return finalist.rank


def _others(equals: Sequence[Finalist], best: Finalist) -> tuple[int, ...]:
    return tuple(sorted(f.index for f in equals if f.index != best.index))


def tied_finalists(
    finalists: Sequence[Finalist], margin_ratio: float, common: float | None = None
) -> list[Finalist]:
    """Return the fastest and its equals: behind by less than a border between half the margin and
    the margin (`racing.rules.preferred`), or not shown to be behind by more than half of it."""
    rounds = min(f.logs.size for f in finalists)
    means = np.array([float(f.logs[:rounds].mean()) for f in finalists])
    behind = means - means.min()
    ranks = np.array([f.rank for f in finalists], np.int64)
    _, border = preferred(behind, ranks, math.log1p(margin_ratio))
    fastest = finalists[int(np.argmin(behind))]

    def is_shown_slower(finalist: Finalist) -> bool:
        low = ratio(finalist, fastest, common).low
        return low is None or low > 1 + margin_ratio / 2

    rows = zip(finalists, behind, strict=True)
    return [f for f, far in rows if far <= border or not is_shown_slower(f)]


Facts: TypeAlias = "tuple[bool | None, float | None, int | None]"
"""Determinism (True, False, unknown), error, workspace in bytes."""


def rank_candidates(facts: Mapping[int, Facts], default: int) -> dict[int, int]:
    """Return ranks by deterministic, error, workspace and index; the default is always the first.
    What is not known comes after what is."""

    def key(index: int) -> tuple[bool, int, float, float, int]:
        deterministic, error, workspace = facts[index]
        order = {True: 0, None: 1, False: 2}[deterministic]
        return (
            index != default,
            order,
            math.inf if error is None else error,
            math.inf if workspace is None else workspace,
            index,
        )

    return {index: rank for rank, index in enumerate(sorted(facts, key=key))}


# Whether the rounds of the finalists are enough. Arrays in, decisions out.
#
# They are when other rounds like them would most likely name the same winner, and when the times
# that are shown, the winner's and the default's, are known as well as is promised. Looks are few,
# at numbers of rounds that are fixed beforehand, and share the error of the intervals
# (`bench_schema/estimate.py`). Drawing rounds again: B. Efron, "Bootstrap methods: another
# look at the jackknife", Annals of Statistics 7 (1979).


CLAIM = 0.001
"""Standard error to which a time is known that is shown. Two tunings then differ by less than 0.1 %
in the median, and hardly ever by more than 0.3 %."""
WORTH = 1.5
"""Factor on `CLAIM`: a finalist with a larger standard error even after all rounds gets no more."""
REDRAWN = 60
SAME = 0.95
"""Share of the redrawn sets of rounds that have to lead to the same winner."""
ROUNDS_AT_MOST = 4
"""Times the rounds asked for."""
FEWEST = 3
"""Rounds below which nothing is known of their spread."""


def open_finalists(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int, most: int
) -> frozenset[int]:
    """Return the finalists that need more rounds: all that may win, until the winner is known; then
    the winner and the default, until their times are known. `most`: round limit. A precision that
    these cannot reach is not aimed for."""
    if not finalists:
        return frozenset()
    if min(f.logs.size for f in finalists) < FEWEST:
        return frozenset(f.index for f in finalists)
    lasting = still_open(finalists, default, margin_ratio, looks)
    winner = decide(lasting, default, margin_ratio, looks).winner
    shown = [f for f in finalists if f.index in (winner, default)]
    if len(lasting) > 1 and not _same_winner(lasting, default, margin_ratio, looks, winner):
        return frozenset(f.index for f in (*lasting, *shown))
    due = []
    for finalist in shown:
        reached = _spread(finalist) / math.sqrt(most)
        if standard_error(finalist) > CLAIM and reached <= WORTH * CLAIM:
            due.append(finalist.index)
    return frozenset(due)


def standard_error(finalist: Finalist) -> float:
    """Return the standard error of the mean of its logarithms, a relative error of the time."""
    return _spread(finalist) / math.sqrt(finalist.logs.size)


def _spread(finalist: Finalist) -> float:
    return float(finalist.logs.std(ddof=1))


def _same_winner(
    finalists: Sequence[Finalist], default: int, margin_ratio: float, looks: int, winner: int
) -> bool:
    rounds = min(f.logs.size for f in finalists)
    draws = np.random.default_rng(rounds).integers(0, rounds, (REDRAWN, rounds))
    others = 0
    for picks in draws:
        drawn = [replace(f, logs=f.logs[picks]) for f in finalists]
        others += decide(drawn, default, margin_ratio, looks).winner != winner
        if others > (1 - SAME) * REDRAWN:
            return False
    return True


@dataclass(frozen=True)
class Combination:
    """One value of every axis for all graphs."""

    key: str
    variant: Mapping[str, str]
    total_ns: float | None
    """Total from the blocks of the race, for ranking only; None if some graph cannot run so."""
    missing: tuple[str, ...]


def combinations(raced: Sequence[Raced]) -> list[Combination]:
    """Return every combination that some graph has, the default first."""
    variants = {o.key: o.variant for each in raced for o in each.options}
    times = [(each, _estimates(each)) for each in raced]
    made = []
    for key, variant in variants.items():
        missing = tuple(each.graph.id.name for each, known in times if key not in known)
        total = sum(each.graph.loaded.repeat * known.get(key, 0.0) for each, known in times)
        made.append(Combination(key, variant, None if missing else total, missing))
    return made


def _estimates(each: Raced) -> dict[str, float]:
    """Return nanoseconds by the option's key, all from blocks beside the default. A duplicate has
    the time of what it is a duplicate of."""
    if each.state is None or 0 not in each.entered or 0 not in each.state.alive:
        return {}
    base = float(np.nanmean(each.state.logs[0]))
    known = {}
    for row, interval in enumerate(intervals(each.state, 0)):
        if interval is not None and row in each.state.alive:
            known[each.options[each.entered[row]].key] = math.exp(base + interval[0])
    for option, fate in zip(each.options, each.fates, strict=True):
        if fate.status == "duplicate" and fate.reason is not None:
            original = fate.reason.partition(" as ")[2]
            original = "" if original == "the default" else original
            if original in known:
                known[option.key] = known[original]
    return known


def original_of(each: Raced, key: str) -> int | None:
    """Return the index of the option that runs what this key means; None if nothing does."""
    by_key = {option.key: index for index, option in enumerate(each.options)}
    index = by_key.get(key)
    while index is not None and each.fates[index].status == "duplicate":
        original = (each.fates[index].reason or "").partition(" as ")[2]
        index = by_key.get("" if original == "the default" else original)
    return index if index in each.entered else None


def global_finalists(raced: Sequence[Raced], most: int) -> list[Raced]:
    """Return the graphs with the combinations to confirm as finalists, the same for every graph:
    those of the smallest totals, and the default."""
    ranked = sorted(
        (c for c in combinations(raced) if c.total_ns is not None), key=lambda c: c.total_ns or 0.0
    )
    keys = [c.key for c in ranked[:most]]
    keys = list(dict.fromkeys([*keys, ""]))
    chosen = []
    for each in raced:
        indices = [original_of(each, key) for key in keys]
        known = list(dict.fromkeys(i for i in indices if i is not None))
        chosen.append(replace(each, finalists=known, tied=known))
    return chosen


def total_logs(
    raced: Sequence[Raced], key: str, logs: Mapping[str, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64] | None:
    """Return the logarithm of the suite's total in each round, from the confirmed rounds by id of
    the case; None if a graph lacks them."""
    total: npt.NDArray[np.float64] | None = None
    for each in raced:
        index = original_of(each, key)
        own = None if index is None else logs.get(each.options[index].case.id)
        if own is None:
            return None
        part = each.graph.loaded.repeat * np.exp(own)
        rounds = part.size if total is None else min(total.size, part.size)
        total = part[:rounds] if total is None else total[:rounds] + part[:rounds]
    return None if total is None else np.log(total)


@dataclass(frozen=True)
class Suite:
    raced: Sequence[Raced]
    logs: Mapping[str, Logs]
    """Logarithms of the rounds of correct confirmed cases, by id."""

    def measured(self, chosen: Mapping[int, int]) -> list[int]:
        """Return the places of the graphs whose default and chosen option both have times."""
        return [
            number
            for number, each in enumerate(self.raced)
            if all(each.options[i].case.id in self.logs for i in (0, chosen[number]))
        ]

    def pair(self, number: int, winner: int) -> PairedRounds:
        each = self.raced[number]
        known = [self.logs[each.options[index].case.id] for index in (0, winner)]
        rounds = min(logs.size for logs in known)
        return PairedRounds(each.graph.loaded.repeat, known[0][:rounds], known[1][:rounds])


@dataclass(frozen=True)
class Gain:
    """Total times of all graphs by default and with their winners."""

    default_ns: float
    tuned_ns: float
    ratio: Ratio


@dataclass(frozen=True)
class PairedRounds:
    """Rounds of a graph's default and of its winner, as many of both, and how often it occurs."""

    weight: int
    default: Logs
    winner: Logs


def total_gain(suite: Suite, winners: Mapping[int, int], looks: int) -> Gain | None:
    """Return the gain over the graphs with times. Graphs have as many rounds as each needed, and
    their errors are independent; each moves the logarithm of a total by its share of it, and the
    degrees of freedom are Welch's (1947)."""
    pairs = [suite.pair(number, winners[number]) for number in suite.measured(winners)]
    if not pairs:
        return None
    default_ns = math.fsum(pair.weight * _mean_ns(pair.default) for pair in pairs)
    tuned_ns = math.fsum(pair.weight * _mean_ns(pair.winner) for pair in pairs)
    # What each graph adds to the variance of the logarithm of the ratio of totals; its rounds.
    errors = []
    for pair in pairs:
        rounds = int(pair.default.size)
        moved_variance = 0.0
        if rounds >= 2:
            share = pair.weight * _mean_ns(pair.default) / default_ns
            tuned_share = pair.weight * _mean_ns(pair.winner) / tuned_ns
            moved = share * pair.default - tuned_share * pair.winner
            moved_variance = float(moved.var(ddof=1)) / rounds
        errors.append((moved_variance, rounds))
    estimate = default_ns / tuned_ns
    if any(rounds < 2 for _, rounds in errors):
        return Gain(default_ns, tuned_ns, Ratio(estimate))
    variance = math.fsum(each for each, _ in errors)
    weights = math.fsum(each**2 / (rounds - 1) for each, rounds in errors)
    degrees = max(1, int(variance**2 / weights)) if weights > 0 else 1
    half = two_sided(degrees, looks) * math.sqrt(variance)
    interval = estimate * math.exp(-half), estimate * math.exp(half)
    return Gain(default_ns, tuned_ns, Ratio(estimate, *interval))


def _mean_ns(logs: Logs) -> float:
    return math.exp(float(logs.mean()))


def decide_whole(
    suite: Suite, decisions: Sequence[Decision], margin_ratio: float
) -> list[Decision]:
    """Decide for one combination for all graphs; return each graph's own gain with it. One that
    leaves a graph with a default that breaks a limit wins only where nothing else is left."""
    keys = [c.key for c in combinations(suite.raced)]
    known = {i: total_logs(suite.raced, key, suite.logs) for i, key in enumerate(keys)}
    finalists = [Finalist(i, i, logs) for i, logs in known.items() if logs is not None]
    if not finalists or keys[0] != "":
        return list(decisions)
    rivals = [f for f in finalists if _broken(suite.raced, keys[f.index]) is None]
    whole = decide(rivals or finalists, 0, margin_ratio)
    why, broken = whole.reason, _broken(suite.raced, "")
    if broken is not None:
        others = f"the default breaks a limit: {broken}"
        why = f"the fastest within the limits; {others}" if rivals else f"{why}; {others}"
    reason = f"one for all graphs: {keys[whole.winner] or 'the default'}, {why}"
    under = []
    for each in suite.raced:
        index, gain = original_of(each, keys[whole.winner]), None
        default = suite.logs.get(each.options[0].case.id)
        mine = None if index is None else suite.logs.get(each.options[index].case.id)
        if index is not None and default is not None and mine is not None:
            gain = ratio(Finalist(0, 0, default), Finalist(index, 1, mine))
        under.append(Decision(index or 0, (), gain, reason))
    return under


def _broken(raced: Sequence[Raced], key: str) -> str | None:
    """Return the limit that a graph breaks under a combination that leaves it with its default."""
    left = (each for each in raced if original_of(each, key) == 0)
    return next((each.beyond for each in left if each.beyond is not None), None)


def totals(suite: Suite, decisions: Sequence[Decision]) -> tuple[Total, ...]:
    """Return the time of every combination: confirmed if all graphs were, otherwise as the race
    estimates it, also for options that left it early."""
    chosen = {each.options[d.winner].key for each, d in zip(suite.raced, decisions, strict=True)}
    made = []
    for one in combinations(suite.raced):
        parts, confirmed, missing = [], True, []
        for each in suite.raced:
            index = original_of(each, one.key)
            logs = None if index is None else suite.logs.get(each.options[index].case.id)
            time_ns = _raced_ns(each, index) if logs is None else _mean_ns(logs)
            confirmed &= logs is not None
            if time_ns is None:
                missing.append(each.graph.id.name)
            else:
                parts.append(each.graph.loaded.repeat * time_ns)
        total_ns = None if missing else math.fsum(parts)
        total = Total(dict(one.variant), total_ns, confirmed, tuple(missing))
        made.append(replace(total, chosen=chosen == {one.key}))
    return tuple(made)


def _raced_ns(each: Raced, index: int | None) -> float | None:
    if index is None or each.state is None:
        return None
    return raced_time(each.state, each.entered.index(index))
