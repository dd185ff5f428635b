"""Sides take turns in blocks: one at a time, each once in a turn, all to the same end."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import StoppedError
from bench_run.runner.parallel.gate import DeviceGate
from tests.support import examples

LIMIT_S = 20.0


def play(wants, leaves=()):
    """Each side takes blocks until it has as many as it wants; those in `leaves` die after so many.
    Returns the sides in the order of their blocks, their places, and whether two ever met."""
    turns, order, places, met = DeviceGate().turns(len(wants), "seed"), [], [], []
    dies, busy, count = dict(leaves), threading.Lock(), [0] * len(wants)

    def side(number):
        turn = turns[number]
        turn.claim("alone")
        while (place := turn.next_block(enough=count[number] >= wants[number])) is not None:
            if not busy.acquire(blocking=False):
                met.append(number)
                return
            order.append(number)
            places.append(place)
            count[number] += 1
            busy.release()
            if count[number] == dies.get(number):
                break
        turn.end()

    threads = [threading.Thread(target=side, args=(n,), daemon=True) for n in range(len(wants))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    return order, places, met


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_every_side_has_one_block_in_each_turn_and_as_many_as_any_wants(wants):
    order, places, met = play(wants)
    sides, turns = len(wants), max(wants)
    assert met == []
    assert len(order) == sides * turns
    for turn in range(turns):
        part = slice(turn * sides, (turn + 1) * sides)
        assert sorted(order[part]) == list(range(sides))
        assert places[part] == list(range(sides))


def test_the_order_is_drawn_for_each_turn():
    order, _, _ = play([40, 40])
    first = order[::2]
    assert 8 < sum(first) < 32


@pytest.mark.parametrize("after", [1, 3])
def test_a_side_that_dies_ends_no_other_one(after):
    order, _, met = play([6, 6, 6], leaves={1: after}.items())
    assert met == []
    assert [order.count(side) for side in range(3)] == [6, after, 6]


def test_a_side_that_dies_before_its_first_block_is_not_waited_for():
    first, other = DeviceGate().turns(2, "seed")
    other.end()
    first.claim("alone")
    assert first.next_block(enough=False) == 0


def test_whoever_waits_when_the_run_ends_hears_of_it():
    gate, heard = DeviceGate(), []
    first, _ = gate.turns(2, "seed")

    def wait():
        try:
            first.next_block(enough=False)
        except StoppedError:
            heard.append(True)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    gate.stop()
    thread.join(LIMIT_S)
    assert heard == [True]
