"""Work shared by forked processes."""

from __future__ import annotations

import os

import pytest

from bench_compare import parallel
from bench_compare.parallel import process_count, share_out, share_out_beside, side_by_side


@pytest.fixture
def many(monkeypatch):
    """A machine of four processors."""
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda _: set(range(4)))


@pytest.mark.parametrize("items", [0, 1, 7, 8, 9, 31, 100])
@pytest.mark.parametrize("unit", [1, 8])
def test_the_parts_come_back_in_order(many, items, unit):
    assert list(range(items)) == share_out(list, items, unit, 2)


def test_parts_begin_at_multiples_of_the_unit(many):
    assert [0, 8, 16, 24] == share_out(lambda part: [part.start], 32, 8, 1)


def test_each_part_has_a_process(many):
    pids = share_out(lambda _: [os.getpid()], 100, 1, 1)
    assert (4, os.getpid()) == (len(set(pids)), pids[0])


@pytest.mark.parametrize(("cost", "own"), [(0.0, 25), (0.2, 10), (3.0, 0)])
def test_who_does_more_beside_takes_less_of_the_work(many, cost, own):
    here = os.getpid()
    made, beside = share_out_beside(
        lambda part: [(n, os.getpid() == here) for n in part], (100, 1, 1), lambda: "rest", cost
    )
    assert ("rest", list(range(100))) == (beside, [n for n, _ in made])
    assert own == sum(at_home for _, at_home in made)


def test_an_error_beside_the_work_leaves_no_process_behind(many):
    with pytest.raises(ZeroDivisionError):
        share_out_beside(list, (100, 1, 1), lambda: 1 / 0, 0.0)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_small_work_stays_in_the_process(many):
    assert [os.getpid()] == share_out(lambda _: [os.getpid()], 100, 1, 51)


def test_what_a_lost_process_had_is_done_again(many):
    here = os.getpid()

    def work(part):
        if os.getpid() != here:
            os.kill(os.getpid(), 9)
        return list(part)

    assert list(range(20)) == share_out(work, 20, 1, 1)


def test_an_error_in_a_process_is_raised_here(many):
    def work(part):
        if part.start:
            raise ValueError("bad case")
        return list(part)

    with pytest.raises(ValueError, match="bad case"):
        share_out(work, 20, 1, 1)


def test_no_process_is_left_behind(many):
    share_out(list, 100, 1, 1)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_where_forking_is_not_safe_one_process_does_it(monkeypatch):
    monkeypatch.setattr(parallel.sys, "platform", "darwin")
    assert 1 == process_count(10**6, 1)


def test_two_things_are_made_side_by_side(many):
    first, second = side_by_side(os.getpid, os.getpid, worth=True)
    assert first == os.getpid() != second


@pytest.mark.parametrize("there", [lambda: os._exit(3), lambda: 1 / 0], ids=["lost", "raises"])
def test_what_the_other_process_did_not_make_is_made_here(many, there):
    here = os.getpid()
    found = side_by_side(lambda: 1, lambda: 2 if os.getpid() == here else there(), worth=True)
    assert (1, 2) == found
