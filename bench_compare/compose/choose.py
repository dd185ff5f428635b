"""The best rows of a pipeline as one integer program (HiGHS, by `scipy.optimize.milp`).

A layer takes one of its options. What two layers cost together depends on a *group* of options
only: a seam on the engines, a conversion on the forms of a tensor. So a pair of groups that costs
something is a variable of its own, which is at least the sum of both groups less one::

    minimise    Σ cost[option]·x[option] + Σ cost[pair]·z[pair]
    subject to  Σ x[option] = 1                       of each layer
                z[pair] ≥ Σ x[group] + Σ x[group'] − 1,   0 ≤ z
                Σ x[group] + Σ x[group'] ≤ 1          of a pair that cannot be
                Σ amount[option]·x[option] ≤ bound    of each limit

Costs of pairs are not negative, so x are the only integers.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.estimate import Floats

Group = tuple[tuple[int, int], ...]
"""Options, each as the numbers of its layer and of the option there."""


@dataclass(frozen=True)
class Pair:
    """Cost of an option of each of two groups together."""

    groups: tuple[Group, ...]
    """Several second groups share the cost: it is paid once if any of them is taken."""
    costs: tuple[float, ...] | None
    """A cost for each objective; None if the pair cannot be."""


@dataclass(frozen=True)
class Limit:
    amounts: Sequence[Sequence[float]]
    """Amounts by layer and option."""
    bound: float


@dataclass(frozen=True)
class Problem:
    costs: Sequence[Sequence[tuple[float, ...]]]
    """Costs by layer, option and objective; infinite for an option that cannot be taken."""
    pairs: Sequence[Pair] = ()
    limits: Sequence[Limit] = field(default=())


def solve(problem: Problem, within: float = 0.0) -> tuple[int, ...] | None:
    """Return the option of each layer that is best by the last objective, with the one before at
    most (1 + `within`) of its own best; None if no choice keeps all limits."""
    program = _Program(problem)
    count = program.objectives.shape[0]
    bounds: list[tuple[Floats, float]] = []
    found: Floats = np.empty(0)
    for number in range(count):
        weights = program.objectives[number]
        best = program.best(weights, bounds)
        if best is None:
            return None
        found = best
        bounds.append((weights, float(weights @ found) * (1 + within)))
    return program.options(found)


def _undominated(
    problem: Problem, layer: int, groups: Mapping[tuple[int, int], list[object]]
) -> list[int]:
    """Return the options of a layer that can be best: of those in the same groups of all pairs,
    those than which no other costs and uses as little."""
    found: dict[tuple[object, ...], list[tuple[int, tuple[float, ...]]]] = defaultdict(list)
    for option, costs in enumerate(problem.costs[layer]):
        worth = (*costs, *(limit.amounts[layer][option] for limit in problem.limits))
        alike = found[tuple(groups.get((layer, option), ()))]
        if not all(map(math.isfinite, worth)):
            continue
        if not any(all(map(operator.le, other, worth)) for _, other in alike):
            alike[:] = [each for each in alike if not all(map(operator.le, worth, each[1]))]
            alike.append((option, worth))
    return sorted(option for alike in found.values() for option, _ in alike)


class _Program:
    """The matrices of a problem."""

    def __init__(self, problem: Problem) -> None:
        groups: dict[tuple[int, int], list[object]] = defaultdict(list)
        for number, pair in enumerate(problem.pairs):
            for place, group in enumerate(pair.groups):
                for option in group:
                    groups[option].append((number, place))
        self._layers = [_undominated(problem, layer, groups) for layer in range(len(problem.costs))]
        self._place = {
            (layer, option): index
            for index, (layer, option) in enumerate(
                (layer, option) for layer, kept in enumerate(self._layers) for option in kept
            )
        }
        self._cells: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self._low: list[float] = []
        self._high: list[float] = []
        size = len(self._place)
        costs = [problem.costs[layer][option] for layer, option in self._place]
        for layer, kept in enumerate(self._layers):
            self._row([(self._place[layer, option], 1.0) for option in kept], 1.0, 1.0)
        for limit in problem.limits:
            cells = [
                (index, limit.amounts[layer][option] / limit.bound)
                for (layer, option), index in self._place.items()
            ]
            self._row(cells, -np.inf, 1.0)
        for pair in problem.pairs:
            first, *others = ([self._place[o] for o in g if o in self._place] for g in pair.groups)
            for second in others:
                both = [(index, 1.0) for index in (*first, *second)]
                if pair.costs is None:
                    self._row(both, -np.inf, 1.0)
                else:
                    self._row([*both, (len(costs), -1.0)], -np.inf, 1.0)
            if pair.costs is not None:
                costs.append(pair.costs)
        self.objectives = np.array(costs, float).T
        self._integral = (np.arange(len(costs)) < size).astype(int)

    def _row(self, cells: Sequence[tuple[int, float]], low: float, high: float) -> None:
        self._cells[len(self._low)] += cells
        self._low.append(low)
        self._high.append(high)

    def best(self, weights: Floats, bounds: Sequence[tuple[Floats, float]]) -> Floats | None:
        """Return the best values of all variables within the bounds."""
        if not all(self._layers):
            return None
        rows, columns, values = zip(
            *((row, at, value) for row, cells in self._cells.items() for at, value in cells),
            strict=True,
        )
        shape = (len(self._low), len(weights))
        matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
        constraints = [LinearConstraint(matrix, self._low, self._high)]
        constraints += [LinearConstraint(one / most, -np.inf, 1 + SLACK) for one, most in bounds]
        found = milp(
            weights / max(float(np.abs(weights).max()), 1e-300),
            integrality=self._integral,
            bounds=Bounds(0, np.where(self._integral, 1.0, np.inf)),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        return None if found.x is None else np.asarray(found.x, float)

    def options(self, values: Floats) -> tuple[int, ...]:
        found: dict[int, int] = {}
        for (layer, option), index in self._place.items():
            if values[index] > 0.5:
                found[layer] = option
        return tuple(found[layer] for layer in range(len(self._layers)))


SLACK = 1e-9
"""Rounding of a bound that an earlier solution met."""
