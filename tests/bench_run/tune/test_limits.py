"""Limits of a tuning, and uses of its record, on an engine of the processor."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench_schema.files import read

from bench_run.cli import main

OP = ("--op", "matmul: m=64 n=64 k=64 dtype=half")
FEW = ("--rounds", "3", "--iters", "30", "-q")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With one record that all tests look at: only a slower type keeps the limit."""
    path = tmp_path_factory.mktemp("limits")
    limit = ("--space", "dtype=half,float", "--limit", "error=1e-5")
    assert 0 == main(["tune", *OP, "-e", "numpy", *limit, *FEW, "-o", str(path / "tuned.json")])
    return path


@pytest.fixture
def entry(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return read("tuned.json").tuned.entries[0]


def test_the_one_within_the_limit_wins_and_the_default_is_measured_next_to_it(entry):
    assert ({"dtype": "float"}, True) == (dict(entry.chosen.variant), entry.chosen.error <= 1e-5)
    assert "the only one within the limits; the default breaks one: error 0.0" in entry.reason
    assert (entry.default.case, entry.gain) != (None, None)


@pytest.mark.long
def test_a_default_that_alone_is_left_wins_and_what_it_breaks_is_told(folder, tmp_path):
    words = ("--space", "dtype=half,bfloat16", "--limit", "error=1e-5", "-o")
    assert 0 == main(["tune", *OP, "-e", "numpy", *words, str(tmp_path / "t.json"), *FEW])
    (entry,) = read(tmp_path / "t.json").tuned.entries
    assert (0, {"over a limit", "duplicate"}) == (
        entry.winner,
        {candidate.status for candidate in entry.candidates[1:]},
    )
    assert re.search("no other candidate is left: error .*; the default breaks a", entry.reason)


@pytest.mark.long
def test_limits_hold_for_one_combination_of_all_graphs_too(tmp_path):
    more = (
        "--op",
        "relu: n=1 c=2 h=4 w=4 dtype=half",
        "--scope",
        "global",
        "--limit",
        "error=1e-5",
    )
    words = ("--space", "dtype=half,float", "-o", str(tmp_path / "t.json"))
    assert 0 == main(["tune", *OP, *more, "-e", "numpy", *words, *FEW])
    document = read(tmp_path / "t.json")
    (chosen,) = (total for total in document.tuned.whole.totals if total.chosen)
    assert ({"dtype": "float"}, 2) == (dict(chosen.variant), len(document.tuned.entries))
    assert "the default breaks a limit: error" in document.tuned.entries[0].reason


def test_where_nothing_runs_the_reason_is_told_and_nothing_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("def matmul(a, b):\n    raise ValueError('no')\n")
    words = ("-e", "kernel@bad.py", "--space", "dtype=half,float", "-o", "t.json")
    assert 1 == main(["tune", *OP, *words, *FEW])
    assert "no graph has a candidate that runs: " in capsys.readouterr().err
    assert ["bad.py"] == [path.name for path in tmp_path.iterdir() if path.is_file()]


def test_threads_are_an_axis_of_engines_on_the_processor(tmp_path, capsys):
    words = ("--space", "threads=1,2", "-o", str(tmp_path / "t.json"))
    assert 0 == main(["tune", *OP, "-e", "numpy", *words, *FEW])
    (entry,) = read(tmp_path / "t.json").tuned.entries
    found = [(dict(c.variant), c.engine) for c in entry.candidates]
    assert found == [
        ({}, "numpy"),
        ({"threads": "1"}, "numpy+threads=1"),
        ({"threads": "2"}, "numpy+threads=2"),
    ]
    assert 1 == main(["tune", *OP, "-e", "numpy", "--space", "threads=4096", *FEW])
    assert "engine numpy+threads=4096: 4096 threads, and" in capsys.readouterr().err


@pytest.mark.long
def test_a_kernel_is_tuned_against_an_engine_that_has_one_way(tmp_path, monkeypatch):
    """The kernel's function does the product twice, and does not know the other graph."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text("def matmul(a, b):\n    return (a @ b + a @ b) / 2\n")
    ops = ("--op", "matmul: m=256 n=256 k=256", "--op", "relu: n=1 c=2 h=4 w=4")
    assert 0 == main(["tune", *ops, "--space", "engine=kernel@k.py,numpy", *FEW, "-o", "t.json"])
    document = read("t.json")
    assert ["numpy", "numpy"] == [entry.chosen.engine for entry in document.tuned.entries]
    assert "hot" == document.run.settings.cache


MOSTLY_WRONG = """
import numpy as np
from bench_run import kernel


@kernel("MatmulAttributes", knobs={"MODE": tuple(range(12))})
def product(p):
    mode = p.knobs["MODE"]

    def run(a, b, c):
        np.matmul(a, b, out=c)
        for _ in range(9 if mode == 0 else 1 if mode == 11 else 0):
            np.matmul(a, b, out=c)
        if 0 < mode < 11:
            c += 1

    return run
"""


@pytest.mark.long
def test_wrong_finalists_make_way_for_slower_ones_that_are_right(tmp_path, monkeypatch):
    """Ten wrong ways are the fastest, more than finalists; the default is the slowest."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(MOSTLY_WRONG)
    words = ("--op", "matmul: m=256 n=256 k=256", "-e", "kernel@k.py", "--space", "knob:MODE=all")
    assert 0 == main(["tune", *words, *FEW, "-o", "t.json"])
    (entry,) = read("t.json").tuned.entries
    states = [c.status for c in entry.candidates if c.variant and c.case is not None]
    assert ("11", True) == (entry.chosen.variant.get("knob:MODE"), "wrong" in states)
    assert entry.gain.estimate > 2


CHEAT = """
kept = {}
def matmul(a, b):
    key = id(a), id(b)
    if key not in kept:
        kept[key] = a @ b
    return kept[key]
"""


@pytest.mark.long
def test_a_kernel_that_keeps_its_answer_does_not_win(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cheat.py").write_text(CHEAT)
    words = ("--op", "matmul: m=256 n=256 k=256", "--space", "engine=numpy,kernel@cheat.py")
    assert 0 == main(["tune", *words, *FEW, "-o", "t.json"])
    (entry,) = read("t.json").tuned.entries
    statuses = {c.engine: c.status for c in entry.candidates}
    assert ("numpy", "wrong") == (entry.chosen.engine, statuses["kernel@cheat.py"])


@pytest.mark.long
def test_a_record_of_graphs_that_were_no_files_is_verified_where_they_are_named(entry, capsys):
    assert 1 == main(["tune", "--verify", "tuned.json", "-q"])
    assert "name its graphs again, as files, --op" in capsys.readouterr().err
    assert main(["tune", "--verify", "tuned.json", *OP, *FEW]) in {0, 2}
    assert "matmul_m64n64k64_half_nn" in capsys.readouterr().out


@pytest.mark.long
def test_a_record_that_does_not_hold_here_is_not_verified_and_it_is_said_why(entry, capsys):
    tree = json.loads(Path("tuned.json").read_text())
    tree["engines"][0]["libraries"]["numpy"] = "0.1"
    Path("other.json").write_text(json.dumps(tree))
    assert 1 == main(["tune", "--verify", "other.json", *OP, "-q"])
    assert "can run here: the record is of numpy 0.1, here is" in capsys.readouterr().err


def test_a_winner_that_failed_is_refused(entry, capsys):
    tree = json.loads(Path("tuned.json").read_text())
    found = tree["tuned"]["entries"][0]
    found["candidates"][found["winner"]]["status"] = "failed"
    Path("failed.json").write_text(json.dumps(tree))
    assert 1 == main([*OP, "--tuned", "failed.json"])
    assert f"its winner, candidate {found['winner']}, is 'failed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("hipdnn:out", "name its graphs again"),
        ("nosuch:out", "no kind 'nosuch'"),
        ("hipdnn:", "KIND:"),
    ],
)
def test_an_export_that_cannot_be_is_told_in_a_line(entry, capsys, target, told):
    assert 1 == main(["tune", "--export", target, "tuned.json"])
    assert told in capsys.readouterr().err
