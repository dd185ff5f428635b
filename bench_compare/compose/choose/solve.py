"""The cheapest choice of one option for each node, where pairs of nodes have costs together.

A partitioned boolean quadratic problem (PBQP; Scholz and Eckstein 2002; Anderson and Gregg 2018 for
the layouts of networks). Nodes are taken out one by one: without neighbours (R0), with one (RI: on
a chain this is dynamic programming), with two (RII), each exactly; with more neighbours as long as
the table of what remains to be known fits, which is exact as well. Where it does not fit, options
of one node are tried in turn (branch and bound), and the answer says whether that came to an end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_compare.statistics.arrays import Array

MOST_ENTRIES = 1 << 22
"""Of a table that is made while a node is taken out."""
MOST_BRANCHES = 2000


@dataclass(frozen=True, eq=False)
class Factor:
    """What some nodes cost together; an axis for each, in their order."""

    nodes: tuple[int, ...]
    costs: Array


@dataclass(frozen=True)
class Solution:
    choice: tuple[int, ...]
    """Number of the option of each node; empty where none is possible."""
    cost: float
    """Infinite where none is possible."""
    optimal: bool


@dataclass
class _Budget:
    branches: int
    spent: bool = False


@dataclass
class _State:
    """Factors that are left, by node, and how nodes that are gone follow from those that are."""

    sizes: Sequence[int]
    factors: dict[int, set[int]] = field(default_factory=dict)
    """Node to numbers of factors."""
    pool: dict[int, Factor] = field(default_factory=dict)
    gone: list[tuple[int, tuple[int, ...], Array]] = field(default_factory=list)
    """(node, nodes that decide it, its best option for each choice of these)."""
    adjacent: dict[int, set[int]] = field(default_factory=dict)
    """Node to its neighbours."""
    constant: float = 0.0
    made: int = 0

    def add(self, factor: Factor) -> None:
        if not factor.nodes:
            self.constant += float(factor.costs)
            return
        self.pool[self.made] = factor
        for node in factor.nodes:
            self.factors[node].add(self.made)
            self.adjacent.setdefault(node, set()).update(factor.nodes)
            self.adjacent[node].discard(node)
        self.made += 1

    def take(self, node: int) -> list[Factor]:
        """The factors of a node, out of the state."""
        numbers = sorted(self.factors.pop(node))
        taken = [self.pool.pop(number) for number in numbers]
        for number, factor in zip(numbers, taken, strict=True):
            for other in factor.nodes:
                if other != node:
                    self.factors[other].discard(number)
        for other in self.adjacent.pop(node, ()):
            self.adjacent[other].discard(node)
        return taken

    def neighbours(self, node: int) -> set[int]:
        return self.adjacent.get(node, set())

    def rank(self, node: int) -> int:
        """Entries of the table that taking it out would make; 0 where it has one neighbour at most,
        as what is left then grows by nothing."""
        around = self.neighbours(node)
        if len(around) <= 1:
            return 0
        return self.sizes[node] * math.prod(self.sizes[one] for one in around)


def solve(
    sizes: Sequence[int],
    factors: Iterable[Factor],
    branches: int = MOST_BRANCHES,
    entries: int = MOST_ENTRIES,
) -> Solution:
    """`sizes`: how many options each node has. Costs may be infinite, not NaN."""
    state = _State(sizes, {node: set() for node in range(len(sizes))})
    for factor in factors:
        state.add(factor)
    budget = _Budget(branches)
    choice, cost = _solve(state, math.inf, budget, entries)
    if math.isinf(cost):
        return Solution((), cost, not budget.spent)
    return Solution(tuple(choice[node] for node in range(len(sizes))), cost, not budget.spent)


def _solve(
    state: _State, best: float, budget: _Budget, entries: int
) -> tuple[dict[int, int], float]:
    """The best choice below `best`; an infinite cost where there is none."""
    _reduce(state, entries)
    if state.constant >= best:
        return {}, math.inf
    if not state.factors:
        return _unrolled(state, {}), state.constant
    return _branch(state, best, budget, entries)


def _reduce(state: _State, entries: int) -> None:
    """Takes out every node whose table fits, those with the smallest tables first."""
    ranks = {node: state.rank(node) for node in state.factors}
    queue = [(rank, node) for node, rank in ranks.items()]
    heapify(queue)
    while queue:
        rank, node = heappop(queue)
        if ranks.get(node) != rank:
            continue  # it is gone, or its neighbours are others by now
        if rank > entries:
            return
        del ranks[node]
        touched = set(state.neighbours(node))
        _eliminate(state, node)
        for other in touched:
            ranks[other] = state.rank(other)
            heappush(queue, (ranks[other], other))


def _eliminate(state: _State, node: int) -> None:
    taken = state.take(node)
    around = tuple(sorted({other for factor in taken for other in factor.nodes} - {node}))
    table = joint(taken, (*around, node), state.sizes)
    state.gone.append((node, around, table.argmin(axis=-1)))
    state.add(Factor(around, table.min(axis=-1)))


def joint(factors: Iterable[Factor], nodes: tuple[int, ...], sizes: Sequence[int]) -> Array:
    """Sum of the factors over all choices of `nodes`."""
    table = np.zeros(tuple(sizes[node] for node in nodes))
    for factor in factors:
        axes = sorted(range(len(factor.nodes)), key=lambda i: nodes.index(factor.nodes[i]))
        shape = [sizes[node] if node in factor.nodes else 1 for node in nodes]
        table += factor.costs.transpose(axes).reshape(shape)
    return table


def _branch(
    state: _State, best: float, budget: _Budget, entries: int
) -> tuple[dict[int, int], float]:
    """Every option of the node with most neighbours, the most promising first."""
    node = max(state.factors, key=lambda one: (len(state.neighbours(one)), -one))
    found: dict[int, int] = {}
    lowest = math.inf
    branches = [(_bound(part), option, part) for option, part in _parts(state, node)]
    for bound, option, part in sorted(branches, key=lambda row: row[:2]):
        if bound >= min(best, lowest):
            break
        if budget.branches <= 0:
            budget.spent = True
            break
        budget.branches -= 1
        choice, cost = _solve(part, min(best, lowest), budget, entries)
        if cost < lowest:
            lowest, found = cost, {**choice, node: option}
    return (_unrolled(state, found), lowest) if found else ({}, math.inf)


def _parts(state: _State, node: int) -> Iterable[tuple[int, _State]]:
    """The state with each option of a node chosen."""
    for option in range(state.sizes[node]):
        left: dict[int, set[int]] = {other: set() for other in state.factors if other != node}
        part = _State(state.sizes, left, constant=state.constant)
        for factor in state.pool.values():
            part.add(_chosen(factor, node, option))
        yield option, part


def _chosen(factor: Factor, node: int, option: int) -> Factor:
    if node not in factor.nodes:
        return factor
    axis = factor.nodes.index(node)
    rest = tuple(other for other in factor.nodes if other != node)
    return Factor(rest, np.take(factor.costs, option, axis=axis))


def _bound(state: _State) -> float:
    """No choice costs less."""
    return state.constant + sum(float(factor.costs.min()) for factor in state.pool.values())


def _unrolled(state: _State, known: Mapping[int, int]) -> dict[int, int]:
    """The nodes that are gone, last one first: each follows from those that were left then."""
    choice = dict(known)
    for node, around, table in reversed(state.gone):
        choice[node] = int(table[tuple(choice[other] for other in around)])
    return choice
