"""What is chosen in random planted worlds, against trying everything with the planted numbers.

By time with layouts, by energy and by energy × delay, under limits, with layers that repeat or read
nothing, ties, and seams that are gains.
"""

import itertools
import math
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bench_compare.compose.worlds import World, composed
from tests.support import examples

IDLE_J_PER_NS = 50e-9
"""Of the planted idle power."""
ENGINES = ("e", "f")
VALUES = {
    "time": lambda time, joules: time,
    "energy": lambda time, joules: joules,
}


def random_world(draw, *, energy):
    names = "abcdef"[: draw.randint(1, 5)]
    configurations = ["e", "f", *(["e plan=x", "f plan=y"] if draw.random() < 0.5 else [])]
    configurations += [] if energy else ["e layout=nhwc"]
    most = 130 if draw.random() < 0.4 else 999  # close together, or far apart
    alone = {
        name: {
            c: draw.randint(100, most) for c in configurations if c == "e" or draw.random() < 0.8
        }
        for name in names
    }
    world = World(alone, writers={n: writers(draw, names, i) for i, n in enumerate(names) if i})
    world.seams = seams(draw, world)
    world.repeats = {name: draw.randint(2, 4) for name in names if draw.random() < 0.3}
    rows = [(name, c) for name in names for c in alone[name]]
    world.errors = {row: 10 ** draw.uniform(-6, -2) for row in rows}
    if energy:
        world.joules = {row: draw.choice([1e-5, 2e-5, draw.uniform(5e-6, 3e-5)]) for row in rows}
    else:
        world.convert = {"e": (draw.randint(2, 300), draw.randint(2, 300))}
    return world


def some(draw, configurations):
    """The first one, and each other more often than not."""
    first, *others = configurations
    return [first, *(one for one in others if draw.random() < 0.8)]


def writers(draw, names, place):
    """Of a layer none, the one before, or any two."""
    near = names[place - 1]
    found = {draw.choice(names[:place]), draw.choice(names[:place])}
    return draw.choice([(), (near,), tuple(sorted(found))])


def seams(draw, world):
    near = {(a, b) for a, b in itertools.pairwise(world.order)}
    pairs = near | {(writer, name) for name in world.order for writer in world.reads(name)}
    return {
        (*pair, engine): draw.choice([0, draw.randint(-90, 90), draw.randint(-99, -60)])
        for pair in sorted(pairs)
        for engine in ENGINES
    }


def by_hand(world, choice, least_seam=0):
    """Time and energy of a choice, from the planted numbers alone; as it is predicted with seams of
    any sign, as it is chosen with none below zero."""
    time = joules = 0.0
    for place, name in enumerate(world.order):
        repeat = world.repeats.get(name, 1)
        seam = seam_of(world, place, choice, least_seam) if place else 0
        time += repeat * (world.alone[name][choice[name]] + seam)
        joules += repeat * (world.joules.get((name, choice[name]), 0.0) + seam * IDLE_J_PER_NS)
    return time + conversions(world, choice), joules


def seam_of(world, place, choice, least_seam):
    writer, reader = world.order[place - 1 : place + 1]
    engines = {choice[writer].split()[0], choice[reader].split()[0]}
    known = [
        world.seams[writer, reader, engine]
        for engine in engines
        if engine in world.alone[writer] and engine in world.alone[reader]
    ]
    return max([least_seam if len(engines) == 1 and known else 0, *known])


def conversions(world, choice):
    there, back = world.convert.get("e", (0, 0))
    last = {name: "layout" in choice[name] for name in world.order}
    wanted = {(writer, last[n]) for n in world.order for writer in world.reads(n) or (None,)}
    wanted.add((world.order[-1], False))
    changes = [(is_last, writer is not None and last[writer]) for writer, is_last in wanted]
    return sum(there if is_last else back for is_last, was in changes if is_last != was)


def keeps(world, choice, limits):
    errors = [(world.repeats.get(n, 1), world.errors[n, choice[n]]) for n in world.order]
    found = {
        "error": math.sqrt(sum(r * e * e for r, e in errors)),
        "worst-error": sum(r * e for r, e in errors),
    }
    return all(found[name] <= bound for name, bound in limits.items())


def draw_limits(draw):
    bounds = {"error": 10 ** draw.uniform(-4, -1.5), "worst-error": 10 ** draw.uniform(-4, -1.5)}
    return {name: bounds[name] for name in bounds if draw.random() < 0.3}


@pytest.mark.parametrize("goal", VALUES)
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_choice_of_a_random_world_is_better_than_the_one_that_is_found(goal, seed, tmp_path):
    draw = Random(seed)
    world, limits = random_world(draw, energy=goal != "time"), draw_limits(draw)
    found = composed(world, tmp_path, choose=goal, limits=limits)
    every = itertools.product(*(world.alone[name] for name in world.order))
    choices = [dict(zip(world.order, one, strict=True)) for one in every]
    values = [VALUES[goal](*by_hand(world, one)) for one in choices if keeps(world, one, limits)]
    if found.chosen is None:
        assert values == []
        return
    energy = found.chosen.energy
    told = VALUES[goal](found.chosen.time.value, 0.0 if energy is None else energy.value)
    chosen = found.chosen.choices
    predicted = by_hand(world, chosen, least_seam=-math.inf)
    assert told == pytest.approx(VALUES[goal](*predicted))
    if found.optimal:
        assert VALUES[goal](*by_hand(world, chosen)) == pytest.approx(min(values))


@given(seed=st.integers(0, 2**32), within=st.sampled_from([0.0, 0.05, 0.3]))
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_choice_that_is_fast_enough_takes_less_energy(seed, within, tmp_path):
    world = random_world(Random(seed), energy=True)
    found = composed(world, tmp_path, choose="energy", within=within)
    every = itertools.product(*(world.alone[name] for name in world.order))
    values = [by_hand(world, dict(zip(world.order, one, strict=True))) for one in every]
    most = min(time for time, _ in values) * (1 + within)
    time, joules = by_hand(world, found.chosen.choices)
    assert time <= most * (1 + 1e-6)
    assert joules == pytest.approx(min(j for t, j in values if t <= most * (1 + 1e-9)))
