"""Work shared by forked processes."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from multiprocessing import get_context

import pytest

from bench_compare import parallel
from bench_compare.parallel import (
    process_count,
    share_out,
    share_out_beside,
    side_by_side,
    take_turns,
)


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


def test_each_process_takes_a_part(many):
    four = get_context("fork").Barrier(4)

    def work(part):
        four.wait(60)
        return [os.getpid()]

    pids = share_out(work, 100, 1, 1)
    assert [4] * 4 == list(Counter(pids).values())
    assert os.getpid() in pids


def test_who_does_more_beside_takes_less_of_the_work(many):
    done = get_context("fork").Semaphore(0)

    def work(part):
        done.release()
        return [(n, os.getpid()) for n in part]

    def beside():
        return all(done.acquire(timeout=60) for _ in range(14))

    made, found = share_out_beside(work, 16, 1, 1, beside)
    assert (list(range(16)), True) == ([n for n, _ in made], found)
    assert sum(pid == os.getpid() for _, pid in made) <= 2


@pytest.mark.parametrize("turns", [0, 1, 3, 50, 40_000])
def test_each_turn_is_taken_once(many, turns):
    every, _ = take_turns(lambda _, some: list(some), turns, 4, lambda: None)
    assert list(range(turns)) == sorted(turn for some in every for turn in some)


def test_a_process_that_is_lost_leaves_the_turns_of_the_others(many):
    def work(number, turns):
        if number == 1:
            os.kill(os.getpid(), 9)
        return list(turns)

    every, _ = take_turns(work, 20, 3, lambda: None)
    assert every[1] is None
    assert 20 == len(every[0]) + len(every[2])


def test_an_error_beside_the_work_leaves_no_process_behind(many):
    with pytest.raises(ZeroDivisionError):
        share_out_beside(list, 100, 1, 1, lambda: 1 / 0)
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
    two = get_context("fork").Barrier(2)

    def pid():
        two.wait(60)
        return os.getpid()

    first, (second, _) = side_by_side(pid, [pid, os.getpid], worth=True)
    assert first == os.getpid() != second


def test_small_things_are_made_one_after_another(many):
    assert (os.getpid(), [os.getpid()] * 5) == side_by_side(os.getpid, [os.getpid] * 5, worth=False)


@pytest.mark.parametrize("there", [lambda: os._exit(3), lambda: 1 / 0], ids=["lost", "raises"])
def test_what_the_other_process_did_not_make_is_made_here(many, there):
    here = os.getpid()
    made = [lambda: 2 if os.getpid() == here else there()] * 3
    assert (1, [2, 2, 2]) == side_by_side(lambda: 1, made, worth=True)


def test_after_an_error_the_others_take_no_more_turns(many):
    taken = get_context("fork").Value("i", 0)
    begun = get_context("fork").Event()

    def work(number, turns):
        if not number:
            assert begun.wait(60)
            raise ZeroDivisionError
        for _ in turns:
            begun.set()
            time.sleep(0.02)
            taken.value += 1

    with pytest.raises(ZeroDivisionError):
        take_turns(work, 500, 2, lambda: None)
    assert taken.value < 400


def test_turns_fit_a_pipe_of_one_page(many, monkeypatch):
    made = os.pipe

    def small():
        reader, writer = made()
        assert 4096 == fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)  # it would wait for ever
        return reader, writer

    monkeypatch.setattr(parallel.os, "pipe", small)
    every, _ = take_turns(lambda _, some: list(some), 40_000, 1, lambda: None)
    assert [list(range(40_000))] == every


def test_without_a_pipe_to_another_process_one_does_it_all(many, monkeypatch):
    made, pipes = os.pipe, []

    def one():
        if pipes:
            raise OSError(24, "Too many open files")
        pipes.append(made())
        return pipes[0]

    monkeypatch.setattr(parallel.os, "pipe", one)
    every, _ = take_turns(lambda _, some: list(some), 20, 4, lambda: None)
    assert [list(range(20)), None, None, None] == every
