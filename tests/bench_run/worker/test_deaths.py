"""Each death of a worker in words, and what became of the others: the run goes on."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import PurePosixPath

import pytest

import bench_run
from bench_run.report.console import table
from bench_run.worker.parent.death import MemoryKills, describe_death, detail_of
from tests.hostile.mortal_engine import DEATHS
from tests.support import graph_json

HEALTHY = tuple(f"healthy_{index}" for index in range(4))
QUICK = {"rounds": 1, "iterations": 4, "warmup": 1, "timeout_s": 20.0}


@pytest.fixture(scope="module")
def die(_hostile_folder, tmp_path_factory):
    """Runs graphs of these names, each a death or none, in one run: the document."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(_hostile_folder))
        here = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", f"{_hostile_folder}{os.pathsep}{here}".rstrip(os.pathsep))

        def run(names, **options):
            folder = tmp_path_factory.mktemp("graphs")
            for name in names:
                (folder / f"{name}.json").write_text(json.dumps(graph_json(name)))
            return bench_run.run([str(folder)], engine=["mortal"], **{**QUICK, **options})

        yield run


@pytest.fixture(scope="module")
def graveyard(die):
    """The document of a run with all deaths that are quick, or slow, and healthy graphs."""
    documents = {}

    def of(slow):
        if slow not in documents:
            names = [death.name for death in DEATHS if death.slow == slow]
            documents[slow] = die([*names, *HEALTHY])
        return documents[slow]

    return of


def case_of(document, name):
    return next(case for case in document.cases if case.graph.name == name)


@pytest.mark.parametrize(
    "death",
    [pytest.param(death, id=death.name, marks=[pytest.mark.slow] * death.slow) for death in DEATHS],
)
def test_a_death_is_told_in_words(graveyard, death):
    outcome = case_of(graveyard(death.slow), death.name).outcome
    assert (death.status, True) == (outcome.status, death.words in outcome.reason), outcome.reason


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_death_costs_another_case(graveyard, slow):
    document = graveyard(slow)
    living = [case_of(document, name) for name in HEALTHY]
    found = [(c.outcome.status, c.validation.status, len(c.rounds)) for c in living]
    assert [("completed", "passed", 1)] * len(HEALTHY) == found
    statuses = Counter(case.outcome.status for case in document.cases)
    expected = Counter(death.status for death in DEATHS if death.slow == slow)
    assert expected + Counter(completed=len(HEALTHY)) == statuses


def test_the_terminal_says_why_in_one_line(graveyard):
    lines = table(graveyard(slow=False)).splitlines()
    words = "value on mortal: crashed: ValueError: wrong tile (during first_run)"
    assert words in lines


def test_a_thread_that_ends_by_an_exception_is_noted(die):
    case = case_of(die(["thread_fails"]), "thread_fails")
    assert ("completed", True) == (
        case.outcome.status,
        "a thread ended by ValueError: no tile left" in case.notes,
    )


@pytest.mark.slow  # the limit holds for the import as well, which takes seconds on a busy machine
def test_a_hang_says_which_limit_and_which_thread_is_gone(die):
    outcome = case_of(die(["thread_hangs"], timeout_s=8.0), "thread_hangs").outcome
    reason = (
        "no answer within --timeout 8 s (during first_run); it was stopped; "
        "one of its threads ended by ValueError: no tile left"
    )
    assert ("timed out", reason) == (outcome.status, outcome.reason)


@pytest.mark.long
def test_a_death_in_a_later_round_keeps_what_was_measured(die, tmp_path, monkeypatch):
    monkeypatch.setenv("MORTAL_MARK", str(tmp_path / "mark"))
    document = die(["second_round", "healthy_0"], rounds=3, warmup=0, iterations=3)
    dead, alive = (case_of(document, name) for name in ("second_round", "healthy_0"))
    found = [(case.outcome.status, len(case.rounds)) for case in (dead, alive)]
    assert [("crashed", 1), ("completed", 3)] == found


# --- the kernel's out-of-memory killer: its counters as the kernel writes them ---

EVENTS = "low 0\nhigh 0\nmax 812\noom 3\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
STATISTICS = "nr_free_pages 7\noom_kill {}\nnuma_hit 1\n"
VICTIM = (
    "Memory cgroup out of memory: Killed process 71 (python) total-vm:9kB, anon-rss:2097152kB, "
    "file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:96kB oom_score_adj:500"
)
GROUPS = {
    "version 2": ("0::/user.slice/a\n", "user.slice/a/memory.events", "memory.max", EVENTS),
    "version 2 in a container": ("0::/\n", "memory.events", "memory.max", EVENTS),
    "both versions": ("1:cpu:/\n0::/a\n", "unified/a/memory.events", "memory.max", EVENTS),
    "version 1": (
        "9:name=systemd:/\n4:memory:/job\n0::/\n",
        "memory/job/memory.oom_control",
        "memory.limit_in_bytes",
        CONTROL,
    ),
    "version 1 in a container": (
        "4:memory:/docker/f00\n",
        "memory/memory.oom_control",
        "memory.limit_in_bytes",
        CONTROL,
    ),
}


@pytest.fixture
def machine(tmp_path):
    """Writes files below a root."""

    def write(**files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("limit", "words"),
    [("3221225472", " (the limit of its control group is 3 GiB)"), ("max", "")],
)
def test_the_counter_of_the_control_group_names_the_killer(machine, group, limit, words):
    listed, counter, limit_name, form = GROUPS[group]
    file = f"sys/fs/cgroup/{counter}"
    beside = str(PurePosixPath(file).with_name(limit_name))
    root = machine(**{"proc/7/cgroup": listed, file: form.format(4), beside: limit})
    kills = MemoryKills(7, root)
    assert kills.described() is None
    machine(**{file: form.format(5)})
    assert words == kills.described()
    kills.start_again()
    assert kills.described() is None


def test_a_kill_elsewhere_on_the_machine_is_none_of_the_group(machine):
    file = "sys/fs/cgroup/a/memory.events"
    given = {"proc/7/cgroup": "0::/a\n", file: EVENTS.format(0)}
    root = machine(**given, **{"proc/vmstat": STATISTICS.format(1)})
    kills = MemoryKills(7, root)
    machine(**{"proc/vmstat": STATISTICS.format(2)})
    assert (kills.described(), "not by the kernel" in describe_death(-9, "run", "", kills)) == (
        None,
        True,
    )


def test_without_a_group_the_kills_of_the_machine_are_counted(machine):
    kills = MemoryKills(7, machine(**{"proc/vmstat": STATISTICS.format(1)}))
    machine(**{"proc/vmstat": STATISTICS.format(2)})
    words = "only the machine's kills are counted here, this is likely one of them"
    reason = f"the kernel's out-of-memory killer killed it during run (SIGKILL) ({words})"
    assert reason == describe_death(-9, "run", "", kills)


def test_the_log_says_how_much_it_held(machine):
    at_us = int((time.monotonic() + 1) * 1e6)
    log = f"6,10,5,-;{VICTIM.replace('2097152', '1')}\n6,11,{at_us},-;{VICTIM}\n"
    kills = MemoryKills(7, machine(**{"dev/kmsg": log}))
    assert " (it held 2 GiB)" == kills.described()


def test_where_nothing_is_counted_nobody_is_accused(machine):
    kills = MemoryKills(7, machine())
    reason = describe_death(-9, "run", "", kills)
    assert reason == (
        "SIGKILL during run: killed from outside, or by the kernel for lack of memory, which is "
        "not counted"
    )


def test_a_detail_of_many_calls_keeps_what_came_before_them():
    calls = "".join(f"  File x, line {i} in f\n" for i in range(100))
    printed = f"my last words\n{'Fatal Python error: Aborted'}\n\nStack (most recent call first):\n"
    detail = detail_of(f"{printed}{calls}  ...\n")
    assert (detail.splitlines()[0], detail.count("  File"), detail[-3:]) == (
        "my last words",
        8,
        "...",
    )
