"""What is minimised: time, energy, their product, under limits of the error.

Time and energy are sums over nodes and pairs of nodes, so `solve` minimises each, and every
weighted sum of both. Their product (EDP) is no sum, but it is quasi-concave: over all choices it is
smallest at a corner of the lower convex hull of (time, energy). The corners are found by weighted
sums, each between two that are known (Aneja and Nair 1979).

A limit is a sum over nodes too. It enters with a price (Lagrange): a lower bound for every price.
What remains between the bound and the best choice within the limit is closed by branching.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench_compare.compose.choose.solve import Factor, Solution, solve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_compare.statistics.arrays import Array

MOST_SOLVES = 400
"""For one answer under a limit."""
FEW_SOLVES = 60
"""For each corner of time and energy."""
MOST_CORNERS = 200
CLOSE = 1e-9
"""Differences below this share are none."""
TIE = 1e-7
"""Weight of what only decides between equals."""
WIDE = 10
"""Where choices may differ by so many times the least, as one option is far worse than all others,
`TIE` of that is no small difference."""


@dataclass(frozen=True, eq=False)
class Term:
    """What some nodes take together: arrays with an axis for each."""

    nodes: tuple[int, ...]
    time: Array
    energy: Array
    """NaN where it is not known."""

    @cached_property
    def impossible(self) -> Array:
        """Infinite where the time is, else 0."""
        return np.where(np.isinf(self.time), np.inf, 0.0)

    @cached_property
    def possible_time(self) -> Array:
        return np.where(np.isinf(self.time), 0.0, self.time)

    @cached_property
    def unknown(self) -> Array:
        """Infinite where the energy is not known, else 0."""
        return np.where(np.isfinite(self.energy), 0.0, np.inf)

    @cached_property
    def known_energy(self) -> Array:
        return np.where(np.isfinite(self.energy), self.energy, 0.0)


@dataclass(frozen=True, eq=False)
class Limit:
    """Sums over nodes that may not exceed a bound."""

    bound: float
    costs: tuple[Array, ...]
    """Of the options of each node."""

    def of(self, choice: Sequence[int]) -> float:
        return math.fsum(float(row[o]) for row, o in zip(self.costs, choice, strict=True))

    def admits(self, value: float) -> bool:
        return value <= self.bound * (1 + CLOSE)


@dataclass(frozen=True, eq=False)
class Problem:
    sizes: tuple[int, ...]
    terms: tuple[Term, ...]
    limits: tuple[Limit, ...] = ()

    def takes(self, choice: Sequence[int]) -> tuple[float, float]:
        """Time and energy of a choice."""
        places = [tuple(choice[node] for node in term.nodes) for term in self.terms]
        rows = list(zip(self.terms, places, strict=True))
        return (
            math.fsum(float(term.time[place]) for term, place in rows),
            math.fsum(float(term.energy[place]) for term, place in rows),
        )


@dataclass(frozen=True)
class Best:
    choice: tuple[int, ...]
    """Empty where none is possible."""
    time: float
    energy: float
    optimal: bool
    gap: float = 0.0
    """No choice is better by more than this share of what was minimised."""


NOTHING = Best((), math.inf, math.inf, optimal=True)


def minimise(
    problem: Problem, time_weight: float, energy_weight: float, solves: int = MOST_SOLVES
) -> Best:
    """The least weighted sum. `solves`: how many problems without limits may be solved for it."""
    factors = _weighted(problem, time_weight, energy_weight)
    if not problem.limits:
        found, bound = solve(problem.sizes, factors), -math.inf
        bound = found.cost if found.optimal else bound
    else:
        found, bound = _Limited(problem, factors, solves).best()
    if not found.choice:
        return replace(NOTHING, optimal=found.optimal)
    gap = 0.0 if found.optimal or found.cost <= 0 else 1 - max(bound, 0.0) / found.cost
    return Best(found.choice, *problem.takes(found.choice), found.optimal, gap)


def _weighted(problem: Problem, time_weight: float, energy_weight: float) -> list[Factor]:
    """A weight of zero asks nothing of what it multiplies: it may be unknown."""
    return [Factor(term.nodes, _sum(term, time_weight, energy_weight)) for term in problem.terms]


def _sum(term: Term, time_weight: float, energy_weight: float) -> Array:
    costs = term.impossible
    if time_weight:
        costs = costs + time_weight * term.possible_time
    if energy_weight:
        costs = costs + term.unknown + energy_weight * term.known_energy
    return costs


class _Limited:
    """Branch and bound under limits."""

    def __init__(self, problem: Problem, factors: Sequence[Factor], solves: int) -> None:
        self._problem, self._factors = problem, factors
        self._possible = [Factor(f.nodes, np.where(np.isinf(f.costs), np.inf, 0)) for f in factors]
        self._solves = solves
        self._best = Solution((), math.inf, optimal=True)

    def best(self) -> tuple[Solution, float]:
        """The best choice that was found, and what no choice can cost less than."""
        bound = self._search({})
        cost = self._best.cost
        done = bound >= cost - CLOSE * abs(cost) if math.isfinite(cost) else math.isinf(bound)
        return replace(self._best, optimal=done), min(bound, cost)

    def _search(self, fixed: Mapping[int, int]) -> float:
        """A lower bound of everything below: that of what was not looked at, else the best cost or
        more."""
        if self._solves <= 0:
            return -math.inf
        bound, node = -math.inf, None
        for limit in self._problem.limits:
            found, place = self._dual(limit, fixed)
            bound, node = (found, place) if found > bound else (bound, node)
        known = self._best.cost
        if math.isinf(bound) or bound >= known - CLOSE * abs(known) or node is None:
            return bound
        below = [self._search({**fixed, node: option}) for option in self._options(node)]
        return max(bound, min(below))

    def _options(self, node: int) -> list[int]:
        """That of the best choice first."""
        first = self._best.choice[node] if self._best.choice else 0
        return sorted(range(self._problem.sizes[node]), key=lambda option: option != first)

    def _dual(self, limit: Limit, fixed: Mapping[int, int]) -> tuple[float, int | None]:
        """The highest lower bound that a price on the limit gives, infinite where it cannot be
        kept; and the node to try next, None where the bound is reached. Each price is that at which
        two known choices, one beyond the limit and one within, are worth the same."""
        beyond = self._at(self._factors, limit, 0.0, fixed)
        if not beyond:
            return math.inf, None
        if limit.admits(limit.of(beyond)):
            return self._cost(beyond), self._free(fixed)
        within = self._at(self._possible, limit, 1.0, fixed)
        if not within or not limit.admits(limit.of(within)):
            return math.inf, None
        while True:
            low, high = self._cost(beyond), self._cost(within)
            price = (high - low) / (limit.of(beyond) - limit.of(within))
            between = self._at(self._factors, limit, price, fixed)
            line = low + price * limit.of(beyond)
            here = self._cost(between) + price * limit.of(between)
            if here >= line - CLOSE * abs(line) or self._solves <= 0:
                bound = here - price * limit.bound * (1 + CLOSE)
                return bound, _differs(limit, beyond, within)
            if limit.admits(limit.of(between)):
                within = between
            else:
                beyond = between

    def _free(self, fixed: Mapping[int, int]) -> int | None:
        """A node to try where one limit is kept and another one is not."""
        if len(self._problem.limits) == 1:
            return None
        free = [n for n, size in enumerate(self._problem.sizes) if n not in fixed and size > 1]
        spans = {
            n: max(float(np.ptp(m.costs[n])) / m.bound for m in self._problem.limits) for n in free
        }
        return max(free, key=lambda n: (spans[n], -n), default=None)

    def _at(
        self, factors: Sequence[Factor], limit: Limit, price: float, fixed: Mapping[int, int]
    ) -> tuple[int, ...]:
        """The best choice at a price; empty where none is possible."""
        self._solves -= 1
        extra = [Factor((n,), _only(price * r, fixed.get(n))) for n, r in enumerate(limit.costs)]
        found = solve(self._problem.sizes, [*factors, *extra]).choice
        if found and all(one.admits(one.of(found)) for one in self._problem.limits):
            cost = self._cost(found)
            if cost < self._best.cost:
                self._best = Solution(found, cost, optimal=True)
        return found

    def _cost(self, choice: Sequence[int]) -> float:
        return math.fsum(float(f.costs[tuple(choice[n] for n in f.nodes)]) for f in self._factors)


def _differs(limit: Limit, beyond: Sequence[int], within: Sequence[int]) -> int | None:
    """Where two choices differ most in what is limited."""
    gaps = [
        abs(float(row[a] - row[b])) for row, a, b in zip(limit.costs, beyond, within, strict=True)
    ]
    unlike = [n for n, (a, b) in enumerate(zip(beyond, within, strict=True)) if a != b]
    return max(unlike, key=lambda n: gaps[n], default=None)


def _only(row: Array, option: int | None) -> Array:
    if option is None:
        return row
    costs = np.full(row.shape, np.inf)
    costs[option] = row[option]
    return costs


def corners(problem: Problem, edp_only: bool = False) -> tuple[list[Best], bool]:
    """Corners of the lower convex hull of (time, energy), by time, and whether these are all.
    `edp_only`: only where they could have the smallest product."""
    known = replace(problem, terms=tuple(map(_with_energy, problem.terms)))
    first, last = _ends(known)
    if not (first.choice and last.choice):
        return [], first.optimal and last.optimal
    below = min(one.time * one.energy for one in (first, last))
    search = _Corners(known, below if edp_only else math.inf)
    found = [first, *search.between(first, last)]
    found += [last] if (last.time, last.energy) != (first.time, first.energy) else []
    return found, search.complete and all(one.optimal for one in found)


def _ends(known: Problem) -> tuple[Best, Best]:
    """Of choices of the least time that of the least energy, and the other way round."""
    time = _spread(term.possible_time for term in known.terms)
    energy = _spread(term.known_energy for term in known.terms)
    first, last = _among_equals(known, time, energy)
    if time <= WIDE * first.time and energy <= WIDE * last.energy:
        return first, last
    fast, thrifty = (minimise(known, *weights, FEW_SOLVES) for weights in ((1.0, 0.0), (0.0, 1.0)))
    if not (fast.choice and thrifty.choice):
        return fast, thrifty
    time = max(thrifty.time - fast.time, CLOSE * abs(fast.time)) or 1.0
    energy = max(fast.energy - thrifty.energy, CLOSE * abs(thrifty.energy)) or 1.0
    ends = [fast, thrifty, *_among_equals(known, time, energy)]
    first = min(ends, key=lambda one: (one.time, one.energy))
    return first, min(ends, key=lambda one: (one.energy, one.time))


def _among_equals(known: Problem, time: float, energy: float) -> tuple[Best, Best]:
    """The two ends, where choices differ by so much in time and in energy."""
    first = minimise(known, 1 / time, TIE / energy, FEW_SOLVES)
    return first, minimise(known, TIE / time, 1 / energy, FEW_SOLVES)


def _with_energy(term: Term) -> Term:
    """What has no energy is not possible."""
    return replace(term, time=np.where(np.isnan(term.energy), np.inf, term.time))


def _spread(tables: Iterable[Array]) -> float:
    """By how much choices may differ at most; 1 where they do not."""
    return math.fsum(float(np.ptp(table)) for table in tables) or 1.0


@dataclass(frozen=True)
class _Line:
    """No choice has a smaller weighted sum."""

    weights: tuple[float, float]
    least: float

    def least_product(self, a: Best, b: Best) -> float:
        """Of what lies above it between two corners: along the line a product is concave, so it is
        smallest at an end."""
        time, energy = self.weights
        at_a = max(b.energy, (self.least - time * a.time) / energy)
        at_b = max(a.time, (self.least - energy * b.energy) / time)
        return min(a.time * at_a, at_b * b.energy)


class _Corners:
    def __init__(self, problem: Problem, below: float) -> None:
        """`below`: corners of a larger product are not wanted."""
        self._problem, self._below = problem, below
        self._left, self.complete = MOST_CORNERS, True

    def between(self, a: Best, b: Best, floor: _Line | None = None) -> list[Best]:
        if b.time <= a.time or a.energy <= b.energy:
            return []
        product = a.time * b.energy if floor is None else floor.least_product(a, b)
        if product >= self._below:
            return []
        if self._left <= 0:
            self.complete = False
            return []
        self._left -= 1
        weights = (a.energy - b.energy, b.time - a.time)
        found = minimise(self._problem, *weights, FEW_SOLVES)
        self.complete &= found.optimal
        line = weights[0] * a.time + weights[1] * a.energy
        here = weights[0] * found.time + weights[1] * found.energy
        if not found.choice or here >= line - CLOSE * abs(line):
            return []
        self._below = min(self._below, found.time * found.energy)
        floor = _Line(weights, here) if found.optimal else None
        return [*self.between(a, found, floor), found, *self.between(found, b, floor)]


def least(problem: Problem, objective: str) -> Best:
    """The best choice by ``time``, ``energy`` or ``edp``."""
    if objective == "time":
        return minimise(problem, 1.0, 0.0)
    if objective == "energy":
        return minimise(problem, 0.0, 1.0)
    found, complete = corners(problem, edp_only=True)
    if not found:
        return replace(NOTHING, optimal=complete)
    # Of sums below zero, which seams may lead to, the least product need not be a corner.
    complete &= found[0].time >= 0 and found[-1].energy >= 0
    return replace(min(found, key=lambda one: one.time * one.energy), optimal=complete)
