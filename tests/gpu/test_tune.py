"""A tuning of all plans of one convolution, and a run with its record."""

from __future__ import annotations

import pytest
from bench_schema.files import read

from bench_run.cli import main
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.make import make_graphs

pytestmark = pytest.mark.gpu

CONV = "conv_fwd: n=32 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=half layout=nhwc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    (folder / "conv.json").write_bytes(write_graph(make_graphs(CONV)[0]))
    words = ("--engine", "cudnn", "--space", "plan=all", "--check-budget", "0.02", "-q")
    record = str(folder / "tuned.json")
    assert main(["tune", str(folder / "conv.json"), *words, "-o", record]) == 0
    return folder


@pytest.fixture(scope="module")
def entry(folder):
    return read(folder / "tuned.json").tuned.entries[0]


def test_many_plans_are_measured_in_two_processes_or_more(entry):
    assert 10 < sum(c.rounds > 1 for c in entry.candidates)


def test_all_of_them_run_on_the_engine_of_the_default(entry):
    assert {"cudnn"} == {c.engine for c in entry.candidates}


def test_the_default_is_among_them_by_its_name(entry):
    names = [c.reason for c in entry.candidates if c.status == "duplicate"]
    assert "the same plan as the default" in names


def test_a_run_with_the_record_takes_the_winner_and_opens_no_second_engine(folder, entry):
    words = ("--rounds", "1", "--iters", "5", "--reference", "none", "--cache", "rotate", "-q")
    path = folder / "taken.json"
    main(
        [str(folder / "conv.json"), "--tuned", str(folder / "tuned.json"), *words, "-o", str(path)]
    )
    document = read(path)
    winner = entry.chosen.plan["plan"]
    assert (["cudnn"], winner) == (
        [e.key for e in document.engines],
        document.cases[0].plan["plan"],
    )
