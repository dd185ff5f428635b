"""How engines on the CPU are held to a number of threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import bench_run
from bench_run.engines.spec import parse_spec
from bench_run.errors import UsageError
from bench_run.machine.affinity import choose_cpus
from bench_run.options.read import read_threads

QUICK = {"rounds": 1, "iterations": 2, "warmup": 0}


def siblings(folder, *cores):
    for core in cores:
        for number in core:
            place = folder / f"cpu{number}" / "topology"
            place.mkdir(parents=True)
            (place / "thread_siblings_list").write_text(",".join(map(str, core)) + "\n")


@pytest.mark.parametrize(
    ("threads", "chosen"), [(1, {7}), (2, {7, 6}), (4, {4, 5, 6, 7}), (6, {2, 3, 4, 5, 6, 7})]
)
def test_threads_get_cores_of_their_own_as_long_as_there_are_some(tmp_path, threads, chosen):
    siblings(tmp_path, (0, 4), (1, 5), (2, 6), (3, 7))
    assert chosen == choose_cpus(set(range(8)), threads, tmp_path)


def test_processors_that_the_process_may_not_use_are_left_out(tmp_path):
    assert {3} == choose_cpus({1, 3}, 1, tmp_path)


def test_a_pinned_process_keeps_to_its_processors_and_so_do_its_later_threads():
    code = (
        "import os, threading\n"
        "from bench_run.machine.affinity import pin_process\n"
        "pin_process(1)\n"
        "seen = [os.sched_getaffinity(0)]\n"
        "thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))\n"
        "thread.start(); thread.join()\n"
        "print(sorted(map(len, seen)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[1, 1]\n" == done.stdout


def test_the_document_says_how_many_threads_were_asked_for(small_graph):
    document = bench_run.run([str(small_graph)], engine=["numpy"], threads=1, **QUICK)
    assert (1, "completed") == (
        document.run.settings.threads,
        document.cases[0].outcome.status,
    )


def test_an_engine_may_have_threads_of_its_own():
    assert 3 == parse_spec("numpy+threads=3").threads


@pytest.mark.parametrize("text", ["numpy+threads=0", "numpy+threads=", "numpy+threads=two"])
def test_threads_are_a_number_from_one_on(text):
    with pytest.raises(UsageError, match=r"one number after .threads=, 1 or more"):
        parse_spec(text)


@pytest.mark.long
def test_more_threads_than_processors_are_refused(small_graph):
    most = len(os.sched_getaffinity(0))
    with pytest.raises(UsageError, match=f"this process may use {most} processors"):
        bench_run.run([str(small_graph)], engine=["numpy"], threads=most + 1, **QUICK)


def test_engines_on_the_cpu_have_one_thread_unless_more_are_asked_for(small_graph):
    runs = [
        bench_run.run([str(small_graph)], engine=["numpy"], **threads, **QUICK)
        for threads in ({}, {"threads": None})
    ]
    assert [1, None] == [run.run.settings.threads for run in runs]


@pytest.mark.parametrize(("text", "threads"), [("all", None), ("2", 2)])
def test_threads_are_a_number_or_all(text, threads):
    assert threads == read_threads("--threads", text)
