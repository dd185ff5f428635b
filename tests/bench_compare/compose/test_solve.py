"""The choice as an integer program against trying every choice."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from bench_compare.compose.choose import Limit, Pair, Problem, solve


def random_problem(seed):
    """Up to five layers of up to four options, pairs of any two groups, and limits."""
    draw = Random(seed)
    sizes = [draw.randint(1, 4) for _ in range(draw.randint(1, 5))]
    costs = [[(draw.uniform(1, 9), draw.uniform(1, 9)) for _ in range(size)] for size in sizes]

    def group(layer):
        chosen = [n for n in range(sizes[layer]) if draw.random() < 0.6]
        return tuple((layer, n) for n in chosen)

    pairs = []
    for one, other in itertools.combinations(range(len(sizes)), 2):
        price = None if draw.random() < 0.1 else (draw.uniform(0, 9), draw.uniform(0, 9))
        pairs.append(Pair((group(one), group(other), group(other)), price))
    limits = []
    if draw.random() < 0.4:
        amounts = [[draw.uniform(0, 1) for _ in range(size)] for size in sizes]
        limits.append(Limit(amounts, draw.uniform(0.2, 1) * len(sizes)))
    return Problem(costs, pairs, limits)


def worth(problem, choice):
    """The value of each objective; infinite for a choice that breaks a rule."""
    taken = set(enumerate(choice))
    values = [math.fsum(problem.costs[at][n][k] for at, n in taken) for k in (0, 1)]
    for pair in problem.pairs:
        first, *others = pair.groups
        if taken & set(first) and any(taken & set(other) for other in others):
            if pair.costs is None:
                return (math.inf, math.inf)
            values = [value + cost for value, cost in zip(values, pair.costs, strict=True)]
    for limit in problem.limits:
        if math.fsum(limit.amounts[at][n] for at, n in taken) > limit.bound:
            return (math.inf, math.inf)
    return tuple(values)


@pytest.mark.parametrize("seed", range(100))
def test_the_best_choice_is_that_of_trying_everything(seed):
    problem = random_problem(seed)
    within = Random(seed).choice([0.0, 0.05, 0.3, 9.0])
    choices = itertools.product(*(range(len(options)) for options in problem.costs))
    every = {choice: worth(problem, choice) for choice in choices}
    least = min(value for value, _ in every.values())
    found = solve(problem, within)
    if math.isinf(least):
        assert found is None
        return
    best = min(b for a, b in every.values() if a <= least * (1 + within) * (1 + 1e-9))
    assert every[found][1] == pytest.approx(best)
    assert every[found][0] <= least * (1 + within) * (1 + 1e-6)
