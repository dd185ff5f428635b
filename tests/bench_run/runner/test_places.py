"""No command writes over what it reads, over another of its outputs, or over a finished run."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest
from bench_schema.files import read, save
from bench_schema.journal import Journal, journal_path
from bench_schema.places import check_places
from bench_schema.settings import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.cli import main
from bench_run.errors import OutputError
from bench_run.options import Options
from bench_run.runner.output import Record, interrupted
from bench_run.runner.places import FOLDERS, INPUTS, REPORTS, check_run_places
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
    "-o x.json --csv ./x.json": "--csv ./x.json: -o x.json would be written to the same file",
    "-o x.json --csv x.json.journal": "--csv x.json.journal: is a file that is kept beside x.json",
    "--csv x --markdown ../{0}/x": "--markdown ../{0}/x: --csv x would be written",
    "-o run.json": "-o run.json: holds a finished run: replace it with --force",
    "--csv run.json": "--csv run.json: holds a finished run: choose another file",
    "--markdown other.json": "--markdown other.json: holds an operation graph",
    "-o other.json --force": "-o other.json: holds an operation graph",
    "-o small_add.meta.json": "-o small_add.meta.json: lies where GRAPH",
    "--config c.toml --csv c.toml": "--csv c.toml: --config c.toml is read",
    "--config given.toml": "-o small_add.json: GRAPH small_add.json is read",
    "--init a=file:a.npy --csv a.npy": "--csv a.npy: --init a.npy is read",
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
    (tmp_path / "given.toml").write_text('output = "small_add.json"')
    for name in ("g", "out", "suite"):
        (tmp_path / name).mkdir()
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
    os.link("run.json", "hard.json")
    shutil.copy("run.json", "older.json")
    before = contents(tmp_path)
    for output, sentence in (
        ("run.json", "-o run.json: DOC run.json is read"),
        ("hard.json", "-o hard.json: DOC run.json is read"),
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


def test_every_setting_that_names_a_file_is_a_place():
    named = {
        name
        for name, row in rows_of(Options).items()
        if row.metavar in ("FILE", "DIR", "D") and name not in ("duty", "direction")
    }
    elsewhere = {"graphs", "output", "save_suite", "against", "a_python", "b_python"}
    assert named == {*INPUTS, *REPORTS, *FOLDERS, *elsewhere}


FILES = {"csv", "csv_samples", "markdown", "trace", "output"}
NAMES = ("g.json", "new.json", "graphs/g.json", "graphs/new.json", "hard.json", "soft.json")
SPELLINGS = ("{}", "./{}", "sub/../{}", "link/{}", "link/link/{}")
spelled = st.builds(str.format, st.sampled_from(SPELLINGS), st.sampled_from(NAMES))


@given(
    graph=st.builds(str.format, st.sampled_from(SPELLINGS), st.sampled_from(("g.json", "graphs"))),
    outputs=st.dictionaries(st.sampled_from(sorted(FILES)), spelled, min_size=1, max_size=3),
)
@settings(deadline=None)
def test_outputs_that_are_allowed_leave_inputs_and_each_other(tmp_path_factory, graph, outputs):
    folder = tmp_path_factory.mktemp("spelled")
    here = os.getcwd()
    os.chdir(folder)
    try:
        for name in ("sub", "graphs"):
            os.mkdir(name)
        for name in ("g.json", "graphs/g.json"):
            (folder / name).write_text(json.dumps(graph_json()))
        os.link("g.json", "hard.json")
        os.symlink("graphs/g.json", "soft.json")
        os.symlink(".", "link")
        before = contents(folder)
        try:
            check_run_places(Options(graphs=(graph,), **outputs))
        except OutputError:
            allowed = False
        else:
            allowed = True
            for name, path in outputs.items():  # as writers do: in place, through links
                with open(path, "w") as file:
                    file.write(name)
            for name, path in outputs.items():
                with open(path) as file:
                    assert name == file.read()
        kept = {name: contents(folder)[name] for name in before}
        assert before == kept
        plain = {os.path.realpath(path) for path in outputs.values()}
        known = {os.path.realpath(name) for name in ("g.json", "graphs/g.json", "hard.json")}
        inside = graph.endswith("graphs") and any("graphs/new" in path for path in plain)
        apart = len(plain) == len(outputs) and not plain & known and not inside
        assert allowed == apart
    finally:
        os.chdir(here)


def test_outputs_may_be_saved_beside_the_graph_but_not_into_its_golden_tensors(small_graph):
    beside = Options(graphs=(str(small_graph),), save_outputs=str(small_graph.parent))
    check_run_places(beside)
    small_graph.with_suffix(".golden").mkdir()
    with pytest.raises(OutputError, match="lies where GRAPH"):
        check_run_places(replace(beside, save_outputs=str(small_graph.with_suffix(".golden"))))


def test_the_check_of_places_takes_streams(small_graph):
    options = Options(graphs=(str(small_graph),), output="-", csv="/dev/stdout")
    check_run_places(options)
    check_places([], [])


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
