"""What a resumed run goes on with: the same work and nothing else, one run at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from bench_schema.files import read, save
from bench_schema.journal import _ENDING_LENGTH, Journal, journal_path, read_journal

import bench_run
from bench_run.errors import OutputError, UsageError
from bench_run.runner.output import OutputLock, lock_path
from tests.support import graph_json

SETTINGS = {"engine": ["numpy"], "rounds": 2, "iterations": 4, "warmup": 0, "label": "a"}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A folder with one graph and the journal of a run that lost its second round."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "g.json").write_text(json.dumps(graph_json()))
    output = folder / "run.json"
    document = bench_run.run([str(folder / "g.json")], output=str(output), **SETTINGS)
    case = document.cases[0]
    first = replace(case, rounds=case.rounds[:1], init={n: v[:1] for n, v in case.init.items()})
    Journal.create(journal_path(output), replace(document, cases=()), [first]).close()
    output.unlink()
    return folder


@pytest.fixture
def folder(interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path / "work")
    return tmp_path / "work"


def resume(folder, **changes):
    options = {**SETTINGS, **changes}
    output = str(folder / "run.json")
    return bench_run.run([str(folder / "g.json")], output=output, resume=True, **options)


@pytest.mark.long
def test_the_rounds_that_are_missing_are_measured_and_no_others(folder):
    before = read_journal(journal_path(folder / "run.json")).cases[0].rounds[0]
    rounds = resume(folder).cases[0].rounds
    assert [each.index for each in rounds] == [0, 1]
    assert rounds[0].started == before.started


OTHER_WORK = {
    "executions": ({"executions": 50}, "has executions 1, this one 50"),
    "init": ({"init": ["uniform"]}, r'has init \[\], this one \["uniform"\]'),
    "label": ({"label": "b"}, 'has label "a", this one "b"'),
    "no label": ({"label": None}, 'has label "a", this one nothing'),
    "tags": ({"tag": [("build", "7")]}, r'has tags {}, this one {"build": "7"}'),
    "engine": ({"engine": ["numpy", "torch"]}, r'engines \["numpy"\], this one \["numpy", "torch'),
    "check budget": ({"check_budget_s": 0.0}, r"has check_budget_s 0\.2, this one 0\.0"),
    "seed": ({"seed": 3}, "has seed 0, this one 3"),
}


@pytest.mark.parametrize(("changes", "sentence"), OTHER_WORK.values(), ids=OTHER_WORK)
def test_other_work_is_refused_by_name(folder, changes, sentence):
    if "torch" in changes.get("engine", ()):
        pytest.importorskip("torch")
    before = journal_path(folder / "run.json").read_bytes()
    with pytest.raises(UsageError, match=f"^--resume: the unfinished run .*{sentence}"):
        resume(folder, **changes)
    assert journal_path(folder / "run.json").read_bytes() == before


def test_a_graph_that_was_edited_meanwhile_is_refused(folder):
    (folder / "g.json").write_text(json.dumps(graph_json(operation="mul")))
    with pytest.raises(UsageError, match="case 'small_add on numpy' with the fingerprint"):
        resume(folder)


def test_another_variable_that_changes_kernels_is_refused(folder, monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    with pytest.raises(UsageError, match='environment OMP_PROC_BIND nothing, this one "spread"'):
        resume(folder)


def test_a_graph_that_is_gone_is_refused(folder):
    (folder / "g.json").write_text(json.dumps(graph_json(name="other")))
    with pytest.raises(UsageError, match="has case 'small_add on numpy' of graph"):
        resume(folder)


def test_the_rounds_of_a_damaged_line_are_measured_again_and_the_document_says_so(folder):
    path = journal_path(folder / "run.json")
    text = path.read_bytes()
    path.write_bytes(text[: -_ENDING_LENGTH - 9] + b"#" + text[-_ENDING_LENGTH - 8 :])
    document = resume(folder)
    assert [each.index for each in document.cases[0].rounds] == [0, 1]
    assert document.run.notes[0].startswith("line 2 of the journal")


def test_a_sealed_document_is_gone_on_with(folder):
    output = folder / "run.json"
    before = read_journal(journal_path(output)).cases[0].rounds[0]
    save(output, read_journal(journal_path(output)))
    journal_path(output).unlink()
    rounds = resume(folder).cases[0].rounds
    assert [(each.index, each.started == before.started) for each in rounds] == [
        (0, True),
        (1, False),
    ]


def test_a_second_run_for_one_output_is_refused(folder):
    lock = OutputLock(folder / "run.json")
    before = journal_path(folder / "run.json").read_bytes()
    with pytest.raises(
        OutputError, match=rf"run\.json: another run writes to it \(process {os.getpid()}\)"
    ):
        resume(folder)
    lock.release()
    assert journal_path(folder / "run.json").read_bytes() == before


def test_a_lock_that_a_killed_run_left_is_taken_over(folder):
    lock_path(folder / "run.json").write_text("process 1\n")
    assert resume(folder).run.complete
    assert not lock_path(folder / "run.json").exists()


def test_what_a_killed_writer_left_is_removed(folder):
    (folder / ".run.json.123.tmp").write_text("{")
    (folder / ".run.json.journal.123.tmp").write_text("{")
    resume(folder)
    assert {"g.json", "run.json"} == {path.name for path in folder.iterdir()}


def test_a_refused_run_leaves_no_lock(folder):
    with pytest.raises(UsageError):
        resume(folder, seed=9)
    assert not lock_path(folder / "run.json").exists()


@pytest.mark.slow
def test_of_two_resumes_at_once_each_ends_whole_or_is_refused(folder, root):
    paths = os.pathsep.join([str(root), str(root / "schema")])
    words = "g.json -o run.json --resume -e numpy --rounds 2 --iters 4 --warmup 0 --label a -q"
    command = [sys.executable, "-m", "bench_run", *words.split()]
    env = {**os.environ, "PYTHONPATH": paths}
    both = [
        subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in both]
    for words, code in ended:
        assert code == 0 or (code == 1 and "another run writes to it" in words)
    assert 0 in {code for _, code in ended}
    rounds = read(folder / "run.json").cases[0].rounds
    assert [each.index for each in rounds] == [0, 1]
