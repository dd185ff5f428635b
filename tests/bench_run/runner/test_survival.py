"""Nothing measured is lost: kill -9 of the run or of a worker at any moment, Ctrl-C, resume."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from bench_schema.document import SCHEMA_VERSION
from bench_schema.files import read
from bench_schema.journal import journal_path, read_journal

import bench_run
from bench_run.errors import OutputError

ROOT = Path(__file__).resolve().parents[3]
SAMPLING = ["--rounds", "3", "--iters", "6", "--warmup", "1"]
NUMPY = ("--engine", "numpy")


def start(folder, output, *words, engine=NUMPY):
    command = [sys.executable, "-m", "bench_run", str(folder), "-o", str(output), *SAMPLING]
    paths = [str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    return subprocess.Popen(
        [*command, *engine, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def lines_of(journal):
    return journal.read_bytes().count(b'\n{"case"') if journal.exists() else 0


def wait_for_lines(process, journal, count):
    """Until the journal holds so many cases, or the run has ended."""
    while lines_of(journal) < count and process.poll() is None:
        time.sleep(0.01)


def kill_after(folder, output, lines, delay_s):
    """Kill the run itself with -9 shortly after its journal reached so many lines."""
    process = start(folder, output)
    journal = journal_path(output)
    wait_for_lines(process, journal, lines)
    time.sleep(delay_s)
    seen = lines_of(journal)
    process.kill()
    process.wait()
    process.stderr.close()
    return seen


def rounds_in(document):
    return sum(len(case.rounds) for case in document.cases)


def check_killed_run(folder, output, lines, delay_s):
    seen = kill_after(folder, output, lines, delay_s)
    journal = journal_path(output)
    if journal.exists():
        assert rounds_in(read_journal(journal)) >= seen
    done = start(folder, output, "--resume")
    assert done.wait() == 0, done.stderr.read()
    done.stderr.close()
    document = read(output)
    assert (document.run.complete, [len(c.rounds) for c in document.cases]) == (True, [3] * 4)
    assert not journal.exists()


@pytest.mark.long
@pytest.mark.parametrize("lines", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_killed_run_keeps_every_visit_and_resumes(graph_folder, tmp_path, lines):
    check_killed_run(graph_folder, tmp_path / "run.json", lines, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_run_killed_at_a_random_moment_loses_nothing(graph_folder, tmp_path, seed):
    chance = random.Random(seed)
    check_killed_run(
        graph_folder, tmp_path / "run.json", chance.randrange(0, 12), chance.uniform(0, 0.3)
    )


def kill_a_worker(folder, output, lines, delay_s):
    process = start(folder, output)
    wait_for_lines(process, journal_path(output), lines)
    time.sleep(delay_s)
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            child.kill()
            break
    process.wait()
    process.stderr.close()
    return read(output)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_worker_killed_at_a_random_moment_costs_at_most_one_case(graph_folder, tmp_path, seed):
    chance = random.Random(seed)
    document = kill_a_worker(
        graph_folder, tmp_path / "run.json", chance.randrange(1, 9), chance.uniform(0, 0.3)
    )
    statuses = [case.outcome.status for case in document.cases]
    assert len(statuses) == 4
    assert statuses.count("completed") >= 3


@pytest.mark.slow
def test_nothing_measured_is_measured_again(graph_folder, tmp_path):
    output = tmp_path / "run.json"
    kill_after(graph_folder, output, 6, 0.0)
    before = {
        (case.id, each.index): each.series["e2e_ns"].tolist()
        for case in read_journal(journal_path(output)).cases
        for each in case.rounds
    }
    done = start(graph_folder, output, "--resume")
    done.wait()
    done.stderr.close()
    after = {
        (case.id, each.index): each.series["e2e_ns"].tolist()
        for case in read(output).cases
        for each in case.rounds
    }
    assert before == {key: after[key] for key in before}


@pytest.mark.long
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_stopped_leaves_a_document_that_can_be_resumed(
    graph_folder, tmp_path, number
):
    output = tmp_path / "run.json"
    process = start(graph_folder, output)
    wait_for_lines(process, journal_path(output), 3)
    process.send_signal(number)
    _, words = process.communicate(timeout=60)
    document = read(output)
    assert (process.returncode, document.run.complete) == (1, False)
    assert b"Traceback" not in words
    assert b"continue with --resume" in words
    done = start(graph_folder, output, "--resume")
    assert done.wait() == 0, done.stderr.read()
    done.stderr.close()
    assert read(output).run.complete


@pytest.mark.slow
def test_a_signal_that_was_to_be_ignored_is(graph_folder, tmp_path):
    """As under nohup."""
    output = tmp_path / "run.json"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = start(graph_folder, output)
    signal.signal(signal.SIGHUP, before)
    wait_for_lines(process, journal_path(output), 1)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert (process.returncode, read(output).run.complete) == (0, True)


def test_an_unfinished_run_is_not_overwritten(small_graph, tmp_path):
    output = tmp_path / "run.json"
    journal_path(output).write_text("{}")
    with pytest.raises(OutputError, match="unfinished run is there: continue it with --resume"):
        bench_run.run([str(small_graph)], output=str(output), engine=["numpy"])


@pytest.mark.slow
def test_a_run_resumes_only_with_its_own_settings(graph_folder, tmp_path):
    output = tmp_path / "run.json"
    kill_after(graph_folder, output, 1, 0.0)
    done = start(graph_folder, output, "--resume", "--seed", "7")
    _, words = done.communicate(timeout=60)
    assert done.returncode == 1
    assert b"--resume: the unfinished run has seed 0, this one 7" in words


@pytest.mark.slow
def test_no_worker_outlives_a_killed_run(graph_folder, tmp_path):
    process = start(graph_folder, tmp_path / "run.json")
    wait_for_lines(process, journal_path(tmp_path / "run.json"), 1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    process.stderr.close()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def programs():
    """What the engine of these tests started."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "86399"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["spawn", "daemon"])
def test_no_program_of_an_engine_outlives_a_killed_run(hostile, graph_folder, tmp_path, way):
    output = tmp_path / "run.json"
    process = start(graph_folder, output, "--engine", f"hostile:{way}")
    wait_for_lines(process, journal_path(output), 2)
    started = [p for p in programs() if p.parent() in psutil.Process(process.pid).children(True)]
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert (len(started), alive) == (1, [])


@pytest.mark.parametrize("way", ["spawn-and-die", "daemon-and-die", "daemon"])
def test_no_program_of_an_engine_outlives_its_worker(hostile, small_graph, way):
    before = programs()
    document = bench_run.run([str(small_graph)], engine=[f"hostile:{way}"], rounds=1)
    expected = "crashed" if way.endswith("die") else "completed"
    left = [program for program in programs() if program not in before]
    assert (document.cases[0].outcome.status, left) == (expected, [])


@pytest.mark.slow
def test_no_program_outlives_a_worker_that_hangs(hostile, small_graph):
    before = programs()
    bench_run.run([str(small_graph)], engine=["hostile:daemon-and-hang"], rounds=1, timeout_s=2)
    assert [program for program in programs() if program not in before] == []


def test_the_sealed_document_is_valid_json_of_the_schema(small_graph, tmp_path):
    output = tmp_path / "run.json"
    bench_run.run(
        [str(small_graph)], output=str(output), engine=["numpy"], rounds=1, iterations=1, warmup=0
    )
    assert json.loads(output.read_text())["schema_version"] == SCHEMA_VERSION
