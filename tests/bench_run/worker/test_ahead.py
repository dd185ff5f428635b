"""Workers that are started ahead are those that the first rounds get."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import psutil
import pytest

from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.errors import BenchRunError
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.plan.engines import PlannedEngine
from bench_run.worker.parent.launcher import OPENING_AT_ONCE, openings
from bench_run.worker.parent.pool import WorkerPool

pytestmark = pytest.mark.usefixtures("hostile", "fresh_workers")


def planned(text):
    return PlannedEngine(text, parse_spec(text), EngineOptions(), "none")


@contextmanager
def lanes(spec, count, ahead):
    """Pools beside each other, as those of lanes are, of a pool that started workers ahead."""
    engine = planned(spec)
    pool = WorkerPool(10, {}, fresh="fork")
    pool.start_ahead([engine], ahead)
    beside = [pool.beside(TimeBreakdown()) for _ in range(count)]
    try:
        yield pool, beside, engine
    finally:
        for each in (*beside, pool):
            each.kill()


def workers(pools):
    return [worker._process.pid for pool in pools for worker in pool._workers.values()]


def test_lanes_take_workers_that_were_started_ahead_and_start_those_that_are_missing():
    with lanes("hostile:fine+fork", 3, ahead=2) as (pool, beside, engine):
        template = pool._launcher._templates.started(engine)
        for each in beside:
            assert "cpu" == each.facts(engine).device
        assert 3 == len(set(workers(beside)))
        assert {template._process.pid} == {psutil.Process(p).ppid() for p in workers(beside)}


def test_whoever_is_not_taken_is_ended():
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with lanes("hostile:fine+fork", 1, ahead=3) as (pool, beside, engine):
        beside[0].facts(engine)
        pool.end_ahead()
    after = {process.pid for process in psutil.Process().children(recursive=True)}
    assert set() == after - before


def test_who_fails_ahead_is_started_again_where_its_error_is_met():
    refused = pytest.raises(BenchRunError, match="exited with code 7")
    with lanes("hostile:exit-on-open+fork", 1, ahead=1) as (_, beside, engine), refused:
        beside[0].facts(engine)


def test_an_engine_that_does_not_allow_forks_has_none_ahead():
    with lanes("hostile:fine", 1, ahead=2) as (pool, beside, engine):
        beside[0].facts(engine)
        assert [psutil.Process().pid] == [psutil.Process(p).ppid() for p in workers(beside)]
        assert pool is not beside[0]


def test_workers_outlive_the_thread_that_was_the_first_to_ask():
    """The template that they are forked from starts then, and takes them along when it ends."""
    with lanes("hostile:fine+fork", 2, ahead=0) as (_, (first, second), engine):
        asking = threading.Thread(target=first.facts, args=(engine,))
        asking.start()
        asking.join()
        second.facts(engine)
        assert "fork" == second.worker_start
        (pid,) = workers([second])
        with pytest.raises(psutil.TimeoutExpired):
            psutil.Process(pid).wait(0.5)


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_devices_share_how_many_workers_open_at_once(devices):
    copies = [planned(f"cudnn+device={n}") for n in range(devices)]
    assert [max(1, OPENING_AT_ONCE // devices)] * devices == openings(copies)


def test_engines_that_are_no_copies_do_not_share_what_opens_at_once():
    """One may import for seconds while another one is ready to open."""
    assert [OPENING_AT_ONCE] * 2 == openings([planned("cudnn"), planned("torch:cuda")])
