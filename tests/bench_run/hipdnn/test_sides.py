"""Two builds of one plugin side by side: the table, the exit codes, the document, survival."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest
from bench_schema.files import read
from bench_schema.journal import journal_path

from bench_compare.cli import main as compare
from bench_run.cli import main
from bench_run.engines.base import EngineOptions
from bench_run.engines.spec import parse_spec
from bench_run.graph.make import make_graphs
from bench_run.plan.engines import PlannedEngine
from bench_run.worker.messages import Variants
from bench_run.worker.parent.pool import WorkerPool
from tests.support import child_pids, graph_json

if TYPE_CHECKING:
    from bench_schema.document import Document

SMALL = ("--rounds", "1", "--iters", "4", "--warmup", "1", "--max-time", "none")


def write_plugin(folder, **facts):
    folder.mkdir(exist_ok=True)
    text = json.dumps({"engines": [{"name": "MIOPEN_ENGINE"}], "milliseconds": 1.0, **facts})
    (folder / "libmiopen_plugin.so").write_text(text)
    return f"hipdnn:MIOPEN_ENGINE@{folder}"


@pytest.fixture
def sides(release, small_graph, tmp_path, capsys):
    """Runs A against B and returns exit code, table and document."""

    def run(*words, a=None, b=None):
        release()
        first = write_plugin(tmp_path / "old", **(a or {}))
        second = write_plugin(tmp_path / "new", **(b or {}))
        output = tmp_path / "sides.json"
        command = [str(small_graph), "--a", first, "--b", second, "-o", str(output)]
        code = main([*command, *SMALL, *words])
        return code, capsys.readouterr().out, read(output)

    return run


@dataclass(frozen=True)
class Sides:
    code: int
    table: str
    document: Document
    path: str


@pytest.fixture(scope="module")
def slower(tmp_path_factory, doubles):
    """One run whose B takes 10 % longer: exit code, table, document and its path."""
    folder = tmp_path_factory.mktemp("sides")
    (folder / "add.json").write_text(json.dumps(graph_json()))
    words = ["--a", write_plugin(folder / "old")]
    words += ["--b", write_plugin(folder / "new", milliseconds=1.1, version="1.1.0")]
    words += ["-o", str(folder / "sides.json"), "--rounds", "3", "--iters", "60"]
    env = {**os.environ, "PYTHONPATH": str(doubles), "HIPDNN_DOUBLE_PROFILE": "newest"}
    done = subprocess.run(
        [sys.executable, "-m", "bench_run", str(folder / "add.json"), *words],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    document = read(folder / "sides.json")
    return Sides(done.returncode, done.stdout, document, str(folder / "sides.json"))


@pytest.mark.long
def test_a_slower_build_is_shown_with_its_change_and_exit_code_0(slower):
    assert 0 == slower.code, slower.table
    assert re.search(r"B is (9\.9 %|10\.0 %|1\.1×) slower \(95 % CI", slower.table)
    assert "Accuracy comparison: PASSED" in slower.table


@pytest.mark.long
def test_the_document_tells_the_two_builds_apart(slower):
    first, second = slower.document.engines
    assert first.id == second.id == "1563989756945604898"
    assert first.plugin_sha256 != second.plugin_sha256
    assert ["1.0.0 (libmiopen_plugin)", "1.1.0 (libmiopen_plugin)"] == [
        engine.libraries["MIOPEN_ENGINE"] for engine in slower.document.engines
    ]


def test_each_build_runs_in_a_process_of_its_own(slower):
    pids = [{round_.pid for round_ in case.rounds} for case in slower.document.cases]
    assert pids[0].isdisjoint(pids[1])


def test_the_document_says_how_time_was_taken_and_which_engine_took_it(slower):
    plan = slower.document.cases[1].plan
    assert "hipDNN events, behind a stall gate" == plan["timing"]
    assert ("MIOPEN_ENGINE", "confirmed") == (plan["engine"], plan["attribution"])
    assert {
        "handle and plugins",
        "deserialise",
        "validate",
        "operation graph",
        "plans",
        "build",
    } <= {part.rpartition(" ")[0].rpartition(" ")[0] for part in plan["init"].split(", ")}


def test_one_document_compares_its_two_builds(slower, tmp_path, capsys):
    page = tmp_path / "sides.html"
    code = compare([slower.path, "--group-by", "engine", "--html", str(page)])
    assert code in (0, 2)
    assert "slower" in capsys.readouterr().out
    assert page.stat().st_size > 10_000


@pytest.mark.long
def test_one_wrong_element_of_b_is_exit_code_2_shown_and_still_timed(sides):
    code, table, document = sides(b={"wrong": True})
    assert 2 == code
    assert "Accuracy comparison: FAILED" in table
    outputs = document.cases[1].validation.outputs
    assert (1, 32) == (outputs[0].mismatched, outputs[0].elements)
    assert all("device_ns" in case.summary for case in document.cases)


@pytest.mark.long
def test_a_side_may_name_its_engine_by_number(release, plugin, small_graph, tmp_path, capsys):
    release()
    words = []
    for side in "AB":
        words += [f"--{side.lower()}", f"hipdnn:1563989756945604898@{plugin(side)}"]
    code = main([str(small_graph), *words, *SMALL])
    assert 0 == code
    assert "hipdnn:1563989756945604898@" in capsys.readouterr().out


@pytest.mark.long
def test_another_engine_id_is_the_reference(release, plugin, small_graph, tmp_path, capsys):
    release()
    right, wrong = plugin("right", engines=("CPU_REFERENCE",)), plugin("wrong", wrong=True)
    output = tmp_path / "run.json"
    code = main(
        [
            str(small_graph),
            "--engine",
            f"hipdnn:MIOPEN_ENGINE@{wrong}",
            "--reference",
            f"hipdnn:CPU_REFERENCE@{right}",
            "-o",
            str(output),
            *SMALL,
        ]
    )
    validation = read(output).cases[0].validation
    assert (2, f"hipdnn:CPU_REFERENCE@{right}", 1) == (
        code,
        validation.reference,
        validation.outputs[0].mismatched,
    )


@pytest.mark.long
def test_a_plugin_that_prints_changes_the_locale_leaks_and_forks_spoils_nothing(sides):
    everything = "print locale leak fork"
    code, table, document = sides(b={"misdeed": {"load": everything, "build": everything}})
    assert 0 == code
    assert "schema_version" not in table
    assert ["completed"] * 2 == [case.outcome.status for case in document.cases]


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["print", "locale", "leak"])
@pytest.mark.parametrize("step", ["load", "execute"])
def test_each_misdeed_alone_spoils_nothing(sides, deed, step):
    code, _, document = sides(b={"misdeed": {step: deed}})
    assert 0 == code
    assert ["completed"] * 2 == [case.outcome.status for case in document.cases]


@pytest.mark.long
@pytest.mark.parametrize("deed", ["exit0", pytest.param("segfault", marks=pytest.mark.slow)])
def test_a_build_that_ends_its_process_costs_its_own_case(sides, deed):
    code, table, document = sides(b={"misdeed": {"execute": deed}})
    assert 1 == code
    assert ["completed", "crashed"] == [case.outcome.status for case in document.cases]
    assert "first_run" in document.cases[1].outcome.reason
    assert "crashed" in table


@pytest.mark.slow
def test_a_build_that_hangs_is_stopped(sides):
    code, _, document = sides("--timeout", "6", b={"misdeed": {"build": "hang"}})
    assert (1, "timed out") == (code, document.cases[1].outcome.status)


def test_a_plugin_that_dies_while_it_is_loaded_ends_the_run_with_a_sentence(
    release, plugin, small_graph, capsys
):
    release()
    folder = plugin("dying", misdeed={"load": "exit0"})
    code = main([str(small_graph), "--engine", f"hipdnn@{folder}", "--rounds", "1"])
    assert 1 == code
    assert "exited with code 0" in capsys.readouterr().err


def start(folder, words, output):
    command = [sys.executable, "-m", "bench_run", str(folder), *words, "-o", str(output)]
    budget = ["--rounds", "2", "--iters", "4", "--warmup", "1"]
    return subprocess.Popen(
        [*command, *budget], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )


@pytest.mark.parametrize("lines", [pytest.param(lines, marks=pytest.mark.slow) for lines in (3, 1)])
def test_an_a_b_run_killed_with_9_keeps_its_visits_and_resumes(
    release, graph_folder, tmp_path, lines
):
    release()
    output = tmp_path / "run.json"
    words = [word for side in "ab" for word in (f"--{side}", write_plugin(tmp_path / side))]
    process = start(graph_folder, words, output)
    journal = journal_path(output)
    while not journal.exists() or journal.read_bytes().count(b'\n{"case"') < lines:
        assert process.poll() is None
        time.sleep(0.01)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    resumed = start(graph_folder, [*words, "--resume"], output)
    assert (0, []) == (resumed.wait(), alive)
    rounds = [len(case.rounds) for case in read(output).cases]
    assert ([2] * 8, False) == (rounds, journal.exists())
    assert json.loads(output.read_text())["run"]["complete"]


def cache_folder(pool, side):
    """Of a fresh process, as the system knows its environment."""
    pool.keep_fresh([])
    others = child_pids()
    pool.ask(side, Variants(make_graphs("add: dims=4x8")[0]))
    (pid,) = child_pids() - others
    return psutil.Process(pid).environ()["HIPDNN_CACHE_DIR"]


@pytest.mark.long
def test_a_sides_caches_serve_all_of_its_rounds_and_nobody_elses(fresh_workers, release, tmp_path):
    release()
    spec, pool = parse_spec(write_plugin(tmp_path / "same")), WorkerPool(30.0)
    sides = [PlannedEngine(key, spec, EngineOptions(), "none") for key in ("A", "B")]
    first, again, other = (cache_folder(pool, sides[index]) for index in (0, 0, 1))
    pool.close()
    assert (True, False) == (first == again, first == other)


PARTLY = (
    "--knob does not hold for numpy: without knobs",
    "--device does not hold for numpy: without a choice of devices",
    "--timer events does not hold for numpy: timed by the host's clock",
)


@pytest.mark.long
def test_what_only_one_engine_of_a_run_takes_is_said_of_the_others(release, small_graph, capsys):
    release(devices="2")
    words = "--engine hipdnn:MIOPEN_ENGINE --engine numpy --knob A=1 --device 1 --timer events"
    main([str(small_graph), *words.split(), *SMALL])
    said = capsys.readouterr().err
    assert [note for note in PARTLY if f"note: {note}" not in said] == []
