"""Rounds that are prepared side by side leave what rounds one after the other leave."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from bench_schema.files import read
from bench_schema.journal import journal_path, read_journal

import bench_run
from bench_run.errors import UsageError
from bench_run.options import Options, Sampling, grouped
from bench_run.runner.parallel import sharing
from bench_run.runner.parallel.gate import CaseRun, Room
from bench_run.runner.parallel.lanes import groups_of, lacks_memory
from tests.bench_run.runner.test_survival import rounds_in, start, wait_for_lines

DOUBLES = Path(__file__).resolve().parents[3] / "doubles"
OPS = ("relu: n=2 c=4 h=8 w=8", "add: dims=4x8 dtype=float", "matmul: m=8 n=8 k=8")


@pytest.fixture(autouse=True)
def device(monkeypatch, tmp_path):
    """An engine with a device on any machine: the double of hipDNN."""
    monkeypatch.syspath_prepend(str(DOUBLES))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(DOUBLES), *sys.path]))
    monkeypatch.setenv("BENCH_RUN_LOCKS", str(tmp_path / "locks"))


def run(**options):
    chosen = {"engine": ("hipdnn",), "op": OPS, "rounds": 3, "iterations": 6, "warmup": 1}
    return bench_run.run((), **{**chosen, "quiet": True, **options})


@pytest.mark.long
def test_every_round_has_its_own_process_and_its_place():
    document = run(prepare=3)
    assert "side by side" == document.run.settings.round_preparation
    assert 3 == len(document.cases)
    for case in document.cases:
        assert ("completed", "passed") == (case.outcome.status, case.validation.status)
        assert [0, 1, 2] == [round_.index for round_ in case.rounds]
        assert 3 == len({round_.pid for round_ in case.rounds})
    for index in range(3):
        places = sorted(case.rounds[index].position for case in document.cases)
        assert [0, 1, 2] == places


@pytest.mark.slow
def test_the_order_of_a_round_is_that_of_rounds_one_after_the_other():
    places = [
        {case.id: [round_.position for round_ in case.rounds] for case in run(prepare=n).cases}
        for n in (1, 3)
    ]
    assert places[0] == places[1]


@pytest.mark.slow
def test_a_round_may_have_several_workers_of_an_engine():
    document = run(prepare=6)
    pids = {round_.pid for case in document.cases for round_ in case.rounds}
    assert 3 < len(pids) <= 6
    for case in document.cases:
        assert 3 == len({round_.pid for round_ in case.rounds})
    for index in range(3):
        assert [0, 1, 2] == sorted(case.rounds[index].position for case in document.cases)


def test_a_host_without_a_place_for_locks_is_told(monkeypatch, tmp_path, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BENCH_RUN_LOCKS", str(tmp_path / "file"))
    document = run(op=OPS[:1], rounds=1, quiet=False)
    assert "completed" == document.cases[0].outcome.status
    assert "other runs on the device are not kept away" in capfd.readouterr().err


def test_on_a_processor_nothing_is_prepared_beside_a_measurement():
    with pytest.raises(UsageError, match="--prepare: rounds on a processor"):
        run(engine=("numpy",), prepare=2)
    assert (
        1 == sharing.share_devices(grouped(Sampling, Options()), {"a": "cpu", "b": "GPU-1"}).lanes
    )


def test_as_many_workers_as_cores_allow_and_at_most_two_for_each_round(monkeypatch):
    lanes = []
    for cores in (2, 8, 64):
        monkeypatch.setattr(sharing, "available_cpus", lambda cores=cores: cores)
        lanes.append(sharing.share_devices(grouped(Sampling, Options()), {"a": "GPU-1"}).lanes)
    assert [1, 5, 10] == lanes


def test_several_engines_have_fewer_workers_each_since_contexts_are_made_one_by_one(monkeypatch):
    monkeypatch.setattr(sharing, "available_cpus", lambda: 256)
    devices = {number: {f"e{i}": f"GPU-{i}" for i in range(number)} for number in (1, 2, 4, 8)}
    lanes = [
        sharing.share_devices(grouped(Sampling, Options()), devices[number]).lanes
        for number in devices
    ]
    assert [10, 7, 5, 4] == lanes


@pytest.mark.long
def test_a_case_that_an_engine_does_not_take_costs_the_others_nothing():
    document = run(prepare=3, op=(*OPS, "sdpa: b=1 h=1 s=4 d=4 dtype=float"))
    statuses = sorted(case.outcome.status for case in document.cases)
    assert 3 == statuses.count("completed")


@pytest.mark.slow
def test_a_run_that_is_killed_while_rounds_are_prepared_loses_none(tmp_path):
    output = tmp_path / "run.json"
    words = [word for op in OPS for word in ("--op", op)]
    engine = ("--engine", "hipdnn", "--prepare", "3")
    process = start(Path("graphs/conv"), output, *words, engine=engine)
    wait_for_lines(process, journal_path(output), 3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = rounds_in(read_journal(journal_path(output)))
    assert kept >= 3
    time.sleep(0.2)
    process = start(Path("graphs/conv"), output, *words, "--resume", engine=engine)
    assert 0 == process.wait(), process.stderr.read()
    assert all([0, 1, 2] == [r.index for r in case.rounds] for case in read(output).cases)


def case_run(graph, engine, place=0):
    from types import SimpleNamespace as Bare

    case = Bare(
        id=f"{graph}{engine}{place}",
        engine=Bare(key=engine),
        graph=Bare(id=Bare(path=graph), turns_with=None),
    )
    return CaseRun(case, 0, place)


def test_engines_of_a_graph_stand_ready_together_but_no_engine_twice():
    case_runs = [case_run("g", "a"), case_run("g", "b"), case_run("g", "a", 1), case_run("h", "b")]
    names = [[one.case.id for one in group] for group in groups_of(case_runs)]
    assert [["ga0", "gb0"], ["ga1"], ["hb0"]] == names


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("CUDA error: out of memory", True),
        ("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY", True),
        ("no kernel image", False),
    ],
)
def test_what_failed_for_lack_of_memory_is_tried_alone(reason, expected):
    from types import SimpleNamespace as Bare

    assert expected == lacks_memory(Bare(outcome=Bare(status="failed", reason=reason)))


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("terminate called after throwing an instance of 'std::bad_alloc'", True),
        ("torch.AcceleratorError: CUDA error: out of memory", True),
        ('in malloc_consolidate: File "allocator.cpp"', False),
        (None, False),
    ],
)
def test_what_crashed_for_lack_of_memory_is_tried_alone(left, expected):
    from types import SimpleNamespace as Bare

    outcome = Bare(status="crashed", reason="the worker process exited with code 1", detail=left)
    assert expected == lacks_memory(Bare(outcome=outcome))


def test_a_case_larger_than_the_room_enters_alone():
    room = Room((10, 10))
    with room.take((100, 1)):
        assert not room.fits((1, 1))
    with room.take((4, 4)), room.take((6, 6)):
        assert not room.fits((1, 0))
