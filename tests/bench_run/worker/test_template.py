"""Workers that are forked from a template behave as fresh ones do, and are fresh processes."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

import bench_run
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.plan.engines import PlannedEngine
from bench_run.worker.life import Launcher, Preload, Template, start_module
from bench_run.worker.parent.pool import WorkerPool

pytestmark = pytest.mark.usefixtures("hostile", "fresh_workers")


def run(graph, spec, **options):
    return bench_run.run(
        [str(graph)], engine=[spec], rounds=3, iterations=6, reference="none", **options
    )


@pytest.mark.long
def test_each_round_is_a_process_of_its_own(small_graph):
    document = run(small_graph, "hostile:fine+fork")
    assert 3 == len({each.pid for each in document.cases[0].rounds})
    assert "fork" == document.run.settings.worker_start


@pytest.mark.long
def test_fresh_processes_on_request(small_graph):
    assert "exec" == run(small_graph, "hostile:fine+fork", fresh="exec").run.settings.worker_start


@pytest.mark.long
def test_an_engine_that_does_not_allow_it_is_started_afresh(small_graph):
    assert "exec" == run(small_graph, "hostile:fine").run.settings.worker_start


@pytest.mark.long
def test_nothing_is_left_behind(small_graph):
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    run(small_graph, "hostile:fine+fork")
    after = {process.pid for process in psutil.Process().children(recursive=True)}
    assert set() == after - before


@pytest.fixture
def template():
    made = Template("hostile+fork", {}, 60)
    yield made
    made.close()


@pytest.fixture
def worker_ends():
    from multiprocessing.connection import Pipe

    ours, theirs = Pipe()
    read, write = os.pipe()
    yield ours, theirs.fileno(), write
    for descriptor in (read, write):
        os.close(descriptor)


@pytest.mark.long
def test_the_end_of_a_forked_worker_is_told_with_its_signal(template, worker_ends):
    _, pipe, output = worker_ends
    process = template.fork(pipe, output)
    assert None is process.poll()
    os.kill(process.pid, signal.SIGSEGV)
    assert -signal.SIGSEGV == process.wait(10)


@pytest.mark.long
def test_a_forked_worker_leads_a_group_of_its_own(template, worker_ends):
    _, pipe, output = worker_ends
    process = template.fork(pipe, output)
    assert process.pid == os.getpgid(process.pid)


@pytest.mark.long
def test_a_lost_template_forks_no_worker(template, worker_ends):
    _, pipe, output = worker_ends
    assert template.fit
    template._process.kill()
    template._process.wait()
    assert template.fork(pipe, output) is None


@pytest.mark.long
@pytest.mark.parametrize("spec", ["hostile:fine", "hostile:fine+fork"])
def test_a_worker_outlives_the_thread_that_started_it(spec):
    engine = PlannedEngine(spec, parse_spec(spec), EngineOptions(), "none")
    launcher = Launcher("fork", 60)
    pool = WorkerPool(60, launcher)
    try:
        asking = threading.Thread(target=pool.facts, args=(engine,))
        asking.start()
        asking.join()
        with pytest.raises(psutil.TimeoutExpired):
            psutil.Process(pool._workers[spec]._process.pid).wait(0.5)
    finally:
        pool.kill()
        launcher.close()


def test_a_fork_of_the_program_starts_processes_too():
    start_module("this", {}, 0, subprocess.DEVNULL).wait()
    pid = os.fork()
    if pid == 0:
        code = start_module("this", {}, 0, subprocess.DEVNULL).wait()
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.long
def test_the_workers_of_a_lost_template_are_lost_too(template, worker_ends):
    _, pipe, output = worker_ends
    process = template.fork(pipe, output)
    template._process.kill()
    assert -signal.SIGKILL == process.wait(10)


@pytest.mark.long
def test_a_worker_that_is_lost_with_its_template_costs_no_case(small_graph):
    case = run(small_graph, "hostile:kill-template+fork").cases[0]
    assert ("completed", 3) == (case.outcome.status, len(case.rounds))


def test_a_template_that_imports_for_ever_is_not_waited_for():
    made = Template("hostile:hang-preload+fork", {}, 0.3)
    assert not made.fit
    assert -signal.SIGKILL == made._process.wait(10)
    made.close()


@pytest.mark.long
@pytest.mark.parametrize(("way", "status"), [("segfault", "crashed"), ("hang", "timed out")])
def test_what_a_forked_worker_does_costs_its_case_only(small_graph, way, status):
    document = run(small_graph, f"hostile:{way}+fork", timeout_s=3)
    assert status == document.cases[0].outcome.status


@pytest.mark.long
def test_a_template_whose_run_is_gone_before_it_began_imports_nothing():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(pickle.dumps(Preload("hostile:hang-preload+fork")))
    ours.close()
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, "-m", "bench_run.worker.life", str(number)]
        assert 0 == subprocess.run(command, pass_fds=(number,), timeout=30, check=False).returncode
