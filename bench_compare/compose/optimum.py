"""The best choice: the least time or energy, under limits of the error.

Time and energy are sums over nodes and pairs of nodes, so the least weighted sum of the two is a
mixed integer linear program, which HiGHS solves (`scipy.optimize.milp`). Each option of a node is a
variable of 0 or 1. A pair of nodes has a variable for each two options that may go together; those
of one option add up to that option's own (the linearisation that is exact on trees of links: there
the linear program has whole numbers by itself). Options with the same costs to a neighbour share
these variables. A limit is a row.

Before a program is solved, options that another one of their node beats are left out: one that
costs no more whatever the neighbours take, and no more of any limit. If one is left of each node
there is nothing to solve.

Of equals, the answer is the one that HiGHS comes to, which starts from the same seed each time: the
same problem has the same answer, and which of the equals that is means nothing.
"""

from __future__ import annotations

import ctypes
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.comparison.measure import Array, Ints, Mask


MOST_NODES = 2000
"""Largest number of nodes in HiGHS's search tree for one program."""
CLOSE = 1e-9
"""Differences below this share are none."""
INFEASIBLE = 2
"""The status of `milp`."""
COST_SPAN, LIMIT_SPAN = 1e6, 1e3
"""Scales of costs and limits: the tolerances of HiGHS, 1e-6 and 1e-7, are absolute."""


@dataclass(frozen=True, eq=False)
class Term:
    """Joint cost of one node or two: arrays with an axis for each."""

    nodes: tuple[int, ...]
    time: Array
    energy: Array
    """NaN if it is not known."""


@dataclass(frozen=True, eq=False)
class Limit:
    """Sums over nodes that may not exceed a bound."""

    bound: float
    costs: tuple[Array, ...]
    """Costs of the options of each node."""

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

    def admits(self, choice: Sequence[int]) -> bool:
        """Return True if no limit is exceeded."""
        return all(limit.admits(limit.of(choice)) for limit in self.limits)


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


@dataclass(frozen=True, eq=False)
class _Neighbour:
    """A node that another one has terms with."""

    node: int
    own: Ints
    """Kind of each option."""
    others: Ints
    """Kind of each option of the neighbour."""
    kinds: Array
    """Time and energy of each two kinds."""


@contextmanager
def muted() -> Iterator[None]:
    """Discard output of C code: HiGHS 1.12, which is in SciPy 1.17, sometimes prints a line
    regardless of its settings, and stdout carries the answer."""
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)


def _weighted(times: Array, energies: Array, weights: tuple[float, float]) -> Array:
    """Return the weighted sum; infinite if it is not possible or not known. A weight of zero asks
    nothing of what it multiplies: it may be unknown."""
    time_weight, energy_weight = weights
    costs = time_weight * times if time_weight else np.where(np.isfinite(times), 0.0, np.inf)
    costs = costs + energy_weight * energies if energy_weight else costs
    return np.where(np.isfinite(costs), costs, np.inf)


class _Program:
    """The variables of `milp`, options first, then those of pairs, and its rows. They come in
    blocks, one for each node and each pair, of which each adds up to 1."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        sizes = np.array(problem.sizes, dtype=np.int64)
        self._first = np.cumsum(sizes) - sizes
        self._count = self._options = int(sizes.sum())
        """Number of all variables, and of those of options."""
        self._blocks = list(self._first)
        """First variable of each block."""
        self._times: list[Array] = [np.zeros(self._count)]
        self._energies: list[Array] = [np.zeros(self._count)]
        self._rows: list[tuple[Ints, Ints, Array]] = []
        """Numbers, variables and factors of the matrix."""
        self._bounds: list[tuple[float, float]] = []
        self._fits = True
        """Each pair of nodes has options that go together."""
        self._pairs: list[list[_Neighbour]] = [[] for _ in problem.sizes]
        """Neighbours by node."""
        for node, size in enumerate(problem.sizes):
            self._add(self._of(node), np.ones(size), 1.0, 1.0)
        for term in problem.terms:
            if len(term.nodes) == 1:
                self._times[0][self._of(*term.nodes)] += term.time
                self._energies[0][self._of(*term.nodes)] += term.energy
                continue
            # Variables of the kinds of options that may go together: those of one kind add up to
            # the options of the kind.
            both = np.stack((term.time, term.energy))
            first = np.unique(np.concatenate(both, axis=1), axis=0, return_inverse=True)[1].ravel()
            second = np.unique(np.concatenate(both, axis=0), axis=1, return_inverse=True)[1].ravel()
            kinds = np.empty((2, first.max() + 1, second.max() + 1))
            kinds[:, first[:, None], second] = both
            one, other = term.nodes
            self._pairs[one].append(_Neighbour(other, first, second, kinds))
            self._pairs[other].append(_Neighbour(one, second, first, kinds.swapaxes(1, 2)))
            here, there = np.nonzero(np.isfinite(kinds[0]))
            own = self._count + np.arange(here.size)
            if not here.size:
                self._fits = False
                continue
            self._blocks.append(self._count)
            self._count += here.size
            self._times.append(kinds[0, here, there])
            self._energies.append(kinds[1, here, there])
            for node, kind, of_pair in zip(term.nodes, (first, second), (here, there), strict=True):
                rows = np.concatenate((of_pair, kind)) + len(self._bounds)
                factors = np.concatenate((np.ones(own.size), -np.ones(kind.size)))
                self._rows.append((rows, np.concatenate((own, self._of(node))), factors))
                self._bounds += [(0.0, 0.0)] * (kind.max() + 1)
        self._within = np.ones(self._options, dtype=bool)
        """Options that keep every limit by themselves."""
        for limit in problem.limits:
            costs, bound = np.concatenate(limit.costs), limit.bound * (1 + CLOSE)
            self._within &= costs <= bound
            used = np.flatnonzero((costs > 0) & (costs <= bound))
            self._add(used, costs[used] * (LIMIT_SPAN / bound), -np.inf, LIMIT_SPAN)

    def _of(self, node: int) -> Ints:
        return np.arange(self._first[node], self._first[node] + self._problem.sizes[node])

    def _add(self, variables: Ints, factors: Array, low: float, high: float) -> None:
        self._rows.append((np.full(len(variables), len(self._bounds)), variables, factors))
        self._bounds.append((low, high))

    def _beaten(self, alone: Array, weights: tuple[float, float], possible: Mask) -> Mask:
        """Return a mask of the options that another one of their node dominates, whatever the
        neighbours take; options that are not possible are in it, too."""
        left = [possible[self._of(node)] for node in range(len(self._first))]
        uses = [[limit.costs[node] for limit in self._problem.limits] for node in range(len(left))]
        pairs = [
            [(n, _weighted(n.kinds[0], n.kinds[1], weights)) for n in near] for near in self._pairs
        ]
        due = set(range(len(left)))
        while due:
            node = due.pop()
            here = np.flatnonzero(left[node])
            if here.size < 2:
                continue
            own = alone[self._of(node)][here]
            more = own[:, None] - own  # of each option than each other one, at most
            for near, costs in pairs[node]:
                known = costs[:, np.unique(near.others[left[near.node]])]
                kinds = near.own[here]
                with np.errstate(invalid="ignore"):  # neither goes with a kind: it says nothing
                    apart = known[:, None] - known
                    apart = np.where(np.isnan(apart), -np.inf, apart).max(axis=2)
                    more = more + apart[np.ix_(kinds, kinds)]
            beats = more <= 0
            for used in uses[node]:
                beats &= used[here][:, None] <= used[here]
            np.fill_diagonal(beats, val=False)
            for option in range(here.size):
                if beats[:, option].any():
                    beats[option] = False  # a removed option dominates none
                    left[node][here[option]] = False
                    due |= {near.node for near, _ in pairs[node]}
        return np.concatenate([~one for one in left])

    def least(self, time_weight: float, energy_weight: float, nodes: int) -> Best:
        weights = (time_weight, energy_weight)
        costs = _weighted(np.concatenate(self._times), np.concatenate(self._energies), weights)
        possible = np.isfinite(costs)
        possible[: self._options] &= self._within
        lows = np.minimum.reduceat(np.where(possible, costs, np.inf), self._blocks)
        highs = np.maximum.reduceat(np.where(possible, costs, -np.inf), self._blocks)
        if not self._fits or np.isinf(lows).any():
            return NOTHING
        alone = costs[: self._options]
        possible[: self._options] &= ~self._beaten(alone, weights, possible[: self._options])
        choice = self._choice(possible)
        if possible[: self._options].sum() == len(choice) and self._problem.admits(choice):
            time, energy = self._problem.takes(choice)
            if np.isfinite(_weighted(np.array(time), np.array(energy), weights)):
                return Best(choice, time, energy, optimal=True)  # without SciPy
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        span = float((highs - lows).sum()) or 1.0
        widths = np.diff([*self._blocks, self._count])
        scaled = np.where(possible, costs - np.repeat(lows, widths), 0.0) * (COST_SPAN / span)
        while True:
            rows, variables, factors = map(np.concatenate, zip(*self._rows, strict=True))
            matrix = csr_array((factors, (rows, variables)), shape=(len(self._bounds), self._count))
            with muted():
                found = milp(
                    scaled,
                    integrality=np.arange(self._count) < self._options,
                    bounds=Bounds(0.0, possible.astype(float)),
                    constraints=LinearConstraint(matrix, *np.array(self._bounds).T),
                    options={"node_limit": nodes, "mip_rel_gap": 0.0},
                )
            if found.x is None:
                return replace(NOTHING, optimal=found.status == INFEASIBLE)
            choice = self._choice(found.x)
            if self._problem.admits(choice):
                break
            # It is beyond a limit by less than the tolerance of HiGHS: not all of these together.
            chosen = self._first + np.array(choice, dtype=np.int64)
            self._add(chosen, np.ones(len(choice)), 0.0, len(choice) - 1.0)
        best = Best(choice, *self._problem.takes(choice), optimal=found.status == 0)
        if best.optimal:
            return best
        bound = float(lows.sum()) + float(found.mip_dual_bound) * span / COST_SPAN
        cost = float(lows.sum()) + float(found.fun) * span / COST_SPAN
        return replace(best, gap=1 - max(bound, 0.0) / cost if cost > 0 else 0.0)

    def _choice(self, variables: Array | Mask) -> tuple[int, ...]:
        """Return the option of each node whose variable is the largest."""
        edges = zip(self._first, self._problem.sizes, strict=True)
        return tuple(int(np.argmax(variables[a : a + size])) for a, size in edges)


def minimise(
    problem: Problem, time_weight: float, energy_weight: float, nodes: int = MOST_NODES
) -> Best:
    """Return the least weighted sum. A weight of zero asks nothing of what it multiplies: it may be
    unknown. `nodes`: of the tree in which HiGHS may branch."""
    return _Program(problem).least(time_weight, energy_weight, nodes)


def least(problem: Problem, objective: str) -> Best:
    """Return the choice of the least ``time`` or ``energy``."""
    return minimise(problem, 1.0, 0.0) if objective == "time" else minimise(problem, 0.0, 1.0)
