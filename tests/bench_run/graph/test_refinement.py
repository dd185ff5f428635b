"""Colours a few at a time: as fine as rounds over all elements make them, at n log n steps."""

import math
import random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.graph import fingerprint as module
from bench_run.graph.fingerprint import fingerprint, quotient
from tests.bench_run.graph.builders import graphs, renamed


def joined(count, pairs, label="x"):
    links = [[] for _ in range(count)]
    for one, other in pairs:
        links[one].append((f"{label} out", other))
        links[other].append((f"{label} in", one))
    return links


def chain(count):
    return joined(count, [(i, i + 1) for i in range(count - 1)])


def fence(count):
    """Up and down by turns: paths forward have length 1, so that news travels slowly."""
    steps = [(i, i + 1) if i % 2 else (i + 1, i) for i in range(count - 1)]
    return joined(count, steps)


def star(count):
    return joined(count, [(0, i) for i in range(1, count)])


def tree(count):
    return joined(count, [((i - 1) // 2, i) for i in range(1, count)])


def shuffled(links, seed):
    order = list(range(len(links)))
    random.Random(seed).shuffle(order)
    new = [[] for _ in links]
    for old, around in enumerate(links):
        new[order[old]] = [(label, order[other]) for label, other in around]
        random.Random(seed + old).shuffle(new[order[old]])
    return new


def coarse_rounds(descriptions, links):
    """Number of colours when all are refined at once until nothing changes."""
    colours, count = list(descriptions), 0
    while count < len(set(colours)):
        count = len(set(colours))
        around = [tuple(sorted((label, colours[o]) for label, o in row)) for row in links]
        keys = list(zip(colours, around, strict=True))
        names = {key: str(i) for i, key in enumerate(dict.fromkeys(keys))}
        colours = [names[key] for key in keys]
    return count


@st.composite
def webs(draw):
    count = draw(st.integers(1, 14))
    ends = st.integers(0, count - 1)
    links = joined(count, draw(st.lists(st.tuples(ends, ends), max_size=24)))
    return [draw(st.sampled_from("ab")) for _ in range(count)], links


@given(webs())
def test_colours_are_as_many_as_rounds_over_all_elements_find(web):
    assert len(quotient(*web)) == coarse_rounds(*web)


@given(webs(), st.integers())
def test_the_order_of_elements_does_not_matter(web, seed):
    descriptions, links = web
    order = list(range(len(links)))
    random.Random(seed).shuffle(order)
    moved = [""] * len(links)
    for old, place in enumerate(order):
        moved[place] = descriptions[old]
    assert quotient(moved, shuffled(links, seed)) == quotient(descriptions, links)


@pytest.mark.parametrize("shape", [chain, fence, star, tree])
def test_the_order_does_not_matter_in_large_graphs(shape):
    links = shape(999)
    assert quotient(["x"] * 999, shuffled(links, 7)) == quotient(["x"] * 999, links)


class Counting(list):
    """Links that count how often they are walked along."""

    walked = 0

    def __getitem__(self, index):
        self.walked += len(list.__getitem__(self, index))
        return list.__getitem__(self, index)


@pytest.mark.parametrize("shape", [chain, fence, star, tree])
@pytest.mark.parametrize("count", [500, 8000])
def test_links_are_walked_along_n_log_n_times(shape, count):
    links = Counting(shape(count))
    quotient(["x"] * count, links)
    both_ways = 2 * (count - 1)
    assert links.walked <= both_ways * (math.log2(count) + 2)


@given(graphs(), st.integers())
def test_large_graphs_have_fingerprints_that_names_and_order_do_not_change(drawn, seed):
    with patch.object(module, "_SMALL", 0):
        assert fingerprint(renamed(drawn, seed)) == fingerprint(drawn)


@pytest.mark.long
@given(graphs(), graphs())
def test_large_graphs_are_told_apart_as_small_ones_are(one, other):
    with patch.object(module, "_SMALL", 0):
        large = fingerprint(one) == fingerprint(other)
    assert large == (fingerprint(one) == fingerprint(other))
