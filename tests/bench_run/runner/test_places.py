"""No command writes over what it reads, over another of its outputs, or over a finished run."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest
from bench_schema.files import read, save
from bench_schema.journal import Journal, journal_path

from bench_run.cli import main
from bench_run.runner.output import Record, interrupted
from tests.support import graph_json

QUICK = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--warmup", "0", "-q")


def contents(folder):
    """Bytes of every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def finished(bench_run_command, small_graph):
    """A run that is done, its document in run.json."""
    assert bench_run_command(small_graph.name, *QUICK, "-o", "run.json").returncode == 0
    return small_graph.with_name("run.json")


REFUSED = {
    "-o small_add.json": "-o small_add.json: GRAPH small_add.json is read",
    "-o small_add.json --force": "-o small_add.json: GRAPH small_add.json is read",
    "-o x.json --csv ./x.json": "--csv ./x.json: -o x.json writes there, too",
    "-o x.json --csv x.json.journal": "--csv x.json.journal: -o x.json.journal writes there, too",
    "--csv x --markdown ../{0}/x": "--markdown ../{0}/x: --csv x writes there, too",
    "-o run.json": "-o run.json: holds a finished run: replace it with --force",
    "--csv run.json": "--csv run.json: holds a finished run: choose another file",
    "--markdown other.json": "--markdown other.json: holds an operation graph",
    "-o other.json --force": "-o other.json: holds an operation graph",
    "-o small_add.meta.json": "-o small_add.meta.json: GRAPH small_add.meta.json is read",
    "--config c.toml --csv c.toml": "--csv c.toml: --config c.toml is read",
    "--config given.toml": "-o small_add.json: GRAPH small_add.json is read",
    "--init a=file:a.npy --csv a.npy": "--csv a.npy: --init a.npy is read",
    "net.toml --csv weights/w.npy": "--csv weights/w.npy: GRAPH weights/w.npy is read",
    "--save-graphs out --write-golden out": "--write-golden out: --save-graphs out writes there",
    "-o out/x.json --write-golden out": "--write-golden out: -o out/x.json writes there",
    "--golden g -o g/x.json": "-o g/x.json: lies where --golden g reads",
    "--save-suite suite.toml -o suite/x.json": "--save-suite suite: -o suite/x.json writes there",
    "--dry-run --save-suite suite.toml --csv suite.toml": "--csv suite.toml",
}


@pytest.mark.long
@pytest.mark.parametrize("words", REFUSED)
def test_what_would_be_lost_is_refused_in_one_line(finished, tmp_path, words, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text(json.dumps(graph_json("other")))
    (tmp_path / "c.toml").write_text("rounds = 1")
    rule = 'init = { "b" = "file:weights/w.npy" }'
    (tmp_path / "net.toml").write_text(f'[[graph]]\nid = "a"\nop = "add: dims=4x8"\n{rule}\n')
    (tmp_path / "given.toml").write_text('output = "small_add.json"')
    for name in ("g", "out", "suite", "weights"):
        (tmp_path / name).mkdir()
    (tmp_path / "weights" / "w.npy").write_bytes(b"values")
    before = contents(tmp_path)
    filled = words.format(tmp_path.name).split()
    assert 1 == main([finished.with_name("small_add.json").name, *QUICK, *filled])
    (line,) = capsys.readouterr().err.splitlines()
    assert REFUSED[words].format(tmp_path.name) in line
    assert contents(tmp_path) == before


@pytest.mark.long
def test_a_finished_run_is_replaced_with_force(finished, bench_run_command):
    before = read(finished).run.id
    assert bench_run_command("small_add.json", *QUICK, "-o", "run.json", "--force").returncode == 0
    assert before != read(finished).run.id


@pytest.mark.long
def test_resume_of_a_finished_run_says_so_and_changes_no_byte(finished, bench_run_command):
    before = contents(finished.parent)
    words = [word for word in QUICK if word != "-q"]
    done = bench_run_command("small_add.json", *words, "-o", "run.json", "--resume")
    assert (done.returncode, contents(finished.parent)) == (0, before)
    assert "run.json: the run is finished: nothing is measured" in done.stderr
    assert "Validation: PASSED" in done.stdout


@pytest.mark.long
def test_an_unfinished_run_is_gone_on_with_or_replaced(finished, bench_run_command):
    document = read(finished)
    run = replace(document.run, complete=False, finished=None)
    header = replace(document, run=run, cases=())
    Journal.create(journal_path(finished), header, document.cases).close()
    finished.unlink()
    before = contents(finished.parent)
    done = bench_run_command("small_add.json", *QUICK, "-o", "run.json")
    assert (done.returncode, contents(finished.parent)) == (1, before)
    assert "continue it with --resume, or replace it with --force" in done.stderr
    assert bench_run_command("small_add.json", *QUICK, "-o", "run.json", "--force").returncode == 0
    assert read(finished).run.id != document.run.id
    assert not journal_path(finished).exists()


def test_a_merge_leaves_its_inputs_and_other_documents(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink("run.json", "soft.json")
    shutil.copy("run.json", "older.json")
    before = contents(tmp_path)
    for output, sentence in (
        ("run.json", "-o run.json: DOC run.json is read"),
        ("soft.json", "-o soft.json: DOC run.json is read"),
        ("older.json", "-o older.json: holds a finished run: replace it with --force"),
        ("small_add.json", "-o small_add.json: holds an operation graph"),
    ):
        assert 1 == main(["merge", "run.json", "-o", output])
        assert sentence in capsys.readouterr().err
    assert contents(tmp_path) == before
    assert 0 == main(["merge", "run.json", "-o", "older.json", "--force"])


@pytest.mark.long
def test_an_unfinished_document_is_no_finished_one(finished, bench_run_command):
    document = read(finished)
    save(finished, replace(document, run=replace(document.run, complete=False)))
    done = bench_run_command("small_add.json", *QUICK, "-o", "run.json")
    assert (done.returncode, "an unfinished run is there" in done.stderr) == (1, True)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no /dev/shm here")
def test_a_file_below_dev_is_a_file_and_stdout_is_none(finished, bench_run_command):
    kept = f"/dev/shm/{finished.parent.name}-{os.getpid()}.json"
    try:
        shutil.copy(finished, kept)
        done = bench_run_command("small_add.json", *QUICK, "-o", kept)
        assert (1, True) == (done.returncode, "holds a finished run" in done.stderr)
        words = ("-o", kept, "--force", "--csv", "/dev/stdout")
        assert "id,graph" in bench_run_command("small_add.json", *QUICK, *words).stdout
    finally:
        os.unlink(kept)


@pytest.mark.parametrize("output", [None, "-", "run.json"])
def test_ctrl_c_advises_resume_only_where_there_is_something_to_resume(output):
    assert ("--resume" in interrupted(output)) == (output == "run.json")


def test_an_interrupted_rerun_leaves_the_finished_document(finished, bench_run_command):
    document, before = read(finished), finished.read_bytes()
    header = replace(document, run=replace(document.run, complete=False, finished=None), cases=())
    with Record.begin(str(finished), header, [], resume=False, force=True) as record:
        record.add(document.cases[0])
        part = record.finish([], complete=False)
    assert (before, 1) == (finished.read_bytes(), len(part.cases))
    assert journal_path(finished).exists()
