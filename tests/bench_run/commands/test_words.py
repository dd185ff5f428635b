"""The first word of the command line: commands, their aliases, and what was probably meant."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from bench_run.commands import said_once
from bench_run.graph.format.hipdnn_json import write_graph
from tests.conformance.graphs import FAMILIES
from tests.support import graph_json

QUICK = ("--engine", "numpy", "--rounds", "1", "--iters", "2", "--warmup", "0")
ALIASES = [
    (("--list-engines",), ("engines",)),
    (("--describe", "g.json", "--engine", "numpy"), ("describe", "g.json", "--engine", "numpy")),
    (("g.json", "--engine", "numpy", "--describe"), ("describe", "g.json", "--engine", "numpy")),
]


@pytest.fixture(autouse=True)
def graph(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps(graph_json()))


@pytest.mark.parametrize(("flag", "word"), ALIASES)
def test_a_flag_of_old_answers_like_its_command(bench_run_command, flag, word):
    old, new = bench_run_command(*flag), bench_run_command(*word)
    assert (0, 0, old.stdout) == (old.returncode, new.returncode, new.stdout)


def test_a_folder_with_a_commands_name_is_given_as_a_path(bench_run_command, tmp_path):
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "g.json").write_text(json.dumps(graph_json()))
    done = bench_run_command("./engines", *QUICK)
    assert (0, True) == (done.returncode, "small_add" in done.stdout)


def test_a_drawing_is_written_by_describe(bench_run_command, tmp_path):
    done = bench_run_command("describe", "g.json", "--engine", "numpy", "--diagram", "g.dot")
    assert (0, True) == (done.returncode, "digraph" in (tmp_path / "g.dot").read_text())


MISTAKES = [
    (("engins",), "engins: no such file or command; did you mean engines?"),
    (("g.json", "describe"), "describe is a command and comes first: bench-run describe …"),
    (("describe", "g.json", "--iters", "3"), "bench-run describe has no flag --iters"),
    (("help", "mesure"), "no help on 'mesure'; did you mean measure?"),
    (("help", "xyz"), "no help on 'xyz'; choose from running, operators, engines, kernels"),
    (("doctor", "now"), "invalid arguments: now; see bench-run doctor --help"),
    (("g.json", "--max", "3"), "--max is ambiguous: --max-time or --max-rounds"),
    (("g.json", "--iters", "3", "--iters", "4"), "--iters is given twice"),
    (("g.json", "--quiet=yes"), "--quiet takes no value"),
    (("g.json", "-z"), "no flag -z; see bench-run help all"),
    (("g.json", "--list"), "no flag --list; did you mean --list-engines?"),
    (("suite:smok",), "suite:smok: no suite of this name; did you mean smoke?"),
]


@pytest.mark.parametrize(("words", "line"), MISTAKES, ids=[" ".join(w) for w, _ in MISTAKES])
def test_a_mistake_is_one_line_that_says_what_to_type(bench_run_command, words, line):
    done = bench_run_command(*words)
    assert (1, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
    assert line in done.stderr


def test_a_file_that_exists_is_no_mistaken_command(bench_run_command, tmp_path):
    (tmp_path / "engins").write_text(json.dumps(graph_json()))
    assert 0 == bench_run_command("engins", *QUICK).returncode


@pytest.mark.parametrize(
    ("name", "said"), [("resample_backward_maxpool", True), ("matmul_2d", False)]
)
def test_a_graph_that_hipdnn_may_have_written_wrong_has_a_note(
    bench_run_command, tmp_path, name, said
):
    (tmp_path / "g.json").write_bytes(write_graph(FAMILIES[name]("float", "packed")))
    done = bench_run_command("describe", "g.json", "--engine", "numpy")
    assert said == ("note: hipDNN wrote graphs with resample_bwd wrong" in done.stdout)


def test_what_cupti_could_not_do_is_said_once():
    notes = ("CUPTI does not load: no libcupti.so.13; pip install 'dnn-bench[cupti]'", "another")
    cases = [SimpleNamespace(notes=notes)] * 2
    assert [notes[0]] == list(said_once(SimpleNamespace(cases=cases), "CUPTI does not"))
