"""The solver against trying everything, on small random problems."""

from __future__ import annotations

import ctypes
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.compose.optimum import Limit, Problem, Term, least, minimise, muted
from tests.support import examples


def costs(draw, shape, holes=True):
    numbers = draw(
        st.lists(st.integers(-5, 20), min_size=math.prod(shape), max_size=math.prod(shape))
    )
    found = np.array(numbers, float).reshape(shape)
    return np.where(found > 17, np.inf, found) if holes else found


@st.composite
def networks(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    linked = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    nodes = [*((n,) for n in range(len(sizes))), *linked]
    return sizes, [
        Term(one, costs(draw, lengths), np.zeros(lengths))
        for one in nodes
        if (lengths := [sizes[n] for n in one])
    ]


def every_choice(sizes):
    return itertools.product(*map(range, sizes))


@pytest.mark.long
@given(networks())
@settings(max_examples=examples(150), deadline=None)
def test_the_solver_finds_what_trying_everything_finds(network):
    problem = Problem(tuple(network[0]), tuple(network[1]))
    found = minimise(problem, 1.0, 0.0)
    best = min(problem.takes(choice)[0] for choice in every_choice(problem.sizes))
    assert (found.optimal, found.time) == (True, best)
    if found.choice:
        assert best == problem.takes(found.choice)[0]


def hard(nodes, options):
    """Every node has costs with every other one."""
    generator = np.random.default_rng(0)
    tables = [(pair, generator.random((options,) * 2)) for pair in pairs_of(nodes)]
    return Problem((options,) * nodes, tuple(Term(pair, t, t) for pair, t in tables))


@pytest.mark.long
def test_a_search_that_is_cut_short_says_so():
    found = minimise(hard(10, 4), 1.0, 0.0, nodes=1)
    assert (False, True) == (found.optimal, 0 < found.gap < 1)


def test_two_nodes_that_never_go_together_have_no_choice():
    problem = Problem((1, 1), (Term((0, 1), np.full((1, 1), np.inf), np.zeros((1, 1))),))
    found = least(problem, "time")
    assert ((), True) == (found.choice, found.optimal)


def test_the_same_problem_has_the_same_answer_among_equals():
    flat = Problem(
        (4,) * 6, tuple(Term(pair, np.ones((4, 4)), np.ones((4, 4))) for pair in pairs_of(6))
    )
    assert 1 == len({minimise(flat, 1.0, 0.0).choice for _ in range(5)})


def pairs_of(nodes):
    return itertools.combinations(range(nodes), 2)


@st.composite
def problems(draw, lift=6):
    """`lift`: so high that no sum is below zero."""
    sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    linked = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    terms = []
    for nodes in [*((n,) for n in range(len(sizes))), *linked]:
        shape = [sizes[n] for n in nodes]
        times, energies = (costs(draw, shape, holes=False) + lift for _ in range(2))
        terms.append(Term(nodes, times, energies))
    limits = []
    for _ in range(draw(st.integers(0, 2))):
        errors = tuple(np.abs(costs(draw, (size,), holes=False)) for size in sizes)
        limits.append(Limit(float(draw(st.integers(1, 40))), errors))
    return Problem(sizes, tuple(terms), tuple(limits))


def admitted(problem):
    for choice in every_choice(problem.sizes):
        if all(limit.admits(limit.of(choice)) for limit in problem.limits):
            yield problem.takes(choice)


GOALS = {"time": lambda t, _: t, "energy": lambda _, e: e}


@pytest.mark.parametrize("goal", GOALS)
@given(problem=problems())
@settings(max_examples=examples(60), deadline=None)
def test_the_least_time_and_energy_within_limits_are_those_of_trying_everything(goal, problem):
    found = least(problem, goal)
    values = [GOALS[goal](*point) for point in admitted(problem)]
    if not values:
        assert found.choice == ()
    elif found.optimal:
        assert GOALS[goal](found.time, found.energy) == pytest.approx(min(values))


@given(problem=problems(), solves=st.integers(1, 12))
@settings(max_examples=examples(60), deadline=None)
def test_a_search_under_limits_that_is_cut_short_knows_how_far_it_may_be_off(problem, solves):
    found = minimise(problem, 1.0, 0.0, solves)
    values = [time for time, _ in admitted(problem)]
    if found.choice:
        assert found.time * (1 - found.gap) <= min(values) * (1 + 1e-6)
    elif found.optimal:
        assert values == []


def test_what_the_solver_prints_by_itself_is_no_part_of_the_answer(capfd):
    with muted():
        ctypes.CDLL(None).puts(b"HighsMipSolverData")
    print("answer")
    assert "answer\n" == capfd.readouterr().out
