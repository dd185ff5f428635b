"""A default that breaks a limit is measured, and wins only where nothing else keeps it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace as Bare

import numpy as np
import pytest
from bench_schema.tuning import Ratio, tuned_read

from bench_run.cli import main
from bench_run.tune.choosing import Finalist, Raced, Suite, decide, decide_whole
from bench_run.tune.racing import Fate
from bench_run.tune.record import with_reason
from bench_run.tune.verify import Verified

OP = ("--op", "matmul: m=64 n=64 k=64 dtype=half")
BROKEN = "error 0.001, at most 1e-05 is allowed"
FAST, SLOW = (Finalist(i, i, np.full(5, log)) for i, log in ((0, 0.0), (1, 0.1)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With one record that all tests look at."""
    path = tmp_path_factory.mktemp("limits")
    limit = ("--space", "dtype=half,float", "--limit", "error=1e-5")
    words = ("--rounds", "3", "--iters", "30", "-q", "-o", str(path / "tuned.json"))
    assert 0 == main(["tune", *OP, "--engine", "numpy", *limit, *words])
    return path


@pytest.fixture
def record(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return tuned_read("tuned.json")


def decision(*fates, finalists):
    raced = Raced(None, (), fates, (), None, {})
    return with_reason(raced, decide(raced.rivals(finalists), 0, 0.01), finalists)


@pytest.mark.slow
def test_who_keeps_the_limit_wins_and_the_default_is_confirmed_beside_it(record):
    (entry,) = record.entries
    winner, default = entry.candidates[entry.winner], entry.candidates[0]
    assert ({"dtype": "float"}, True) == (dict(winner.variant), winner.error <= 1e-5)
    assert ("confirmed", True) == (
        default.stage,
        "the default breaks one: error 0.0" in entry.reason,
    )


@pytest.mark.long
def test_a_record_of_graphs_that_were_no_files_is_verified_where_they_are_named(record, capsys):
    assert 1 == main(["tune", "--verify", "tuned.json", "-q"])
    assert "name its graphs again, as files, --op" in capsys.readouterr().err
    assert main(
        ["tune", "--verify", "tuned.json", *OP, "--rounds", "3", "--iters", "30", "-q"]
    ) in {0, 2}
    assert "matmul_m64n64k64_half_nn" in capsys.readouterr().out


@pytest.mark.long
def test_a_record_that_does_not_hold_here_is_not_verified_and_it_is_said_why(record, capsys):
    text = Path("tuned.json").read_text()
    Path("other.json").write_text(re.sub(r'"numpy": ?"[\d.]+"', '"numpy": "0.1"', text))
    assert 1 == main(["tune", "--verify", "other.json", *OP, "-q"])
    assert "can run here: the record is of numpy 0.1, here is" in capsys.readouterr().err


def test_a_winner_that_failed_makes_no_record(record, capsys):
    document = json.loads(Path("tuned.json").read_text())
    (entry,) = document["entries"]
    entry["candidates"][entry["winner"]]["status"] = "failed"
    Path("failed.json").write_text(json.dumps(document))
    assert 1 == main([*OP, "--tuned", "failed.json"])
    assert f"its winner, candidate {entry['winner']}, is 'failed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("hipdnn:out", "name its graphs again"),
        ("nosuch:out", "no kind 'nosuch'"),
        ("hipdnn:", "KIND:"),
    ],
)
def test_an_export_that_cannot_be_is_told_in_a_line(record, capsys, target, told):
    assert 1 == main(["tune", "--export", target, "tuned.json"])
    assert told in capsys.readouterr().err


def test_a_slower_one_that_keeps_the_limit_wins_and_its_loss_is_told():
    found = decision(Fate("ok", beyond=BROKEN), Fate("ok"), finalists=(FAST, SLOW))
    assert (1, True) == (found.winner, found.gain.estimate < 1)
    assert f"the only one within the limits; the default breaks one: {BROKEN}" == found.reason


def test_where_nothing_else_keeps_the_limit_the_default_wins_and_what_it_breaks_is_told():
    found = decision(Fate("ok", beyond=BROKEN), Fate("over a limit", BROKEN), finalists=(FAST,))
    assert 0 == found.winner
    assert (
        f"no other candidate is left: {BROKEN}; the default breaks a limit: {BROKEN}"
        == found.reason
    )


def test_a_default_within_the_limits_wins_by_its_time():
    found = decision(Fate("ok"), Fate("ok"), finalists=(FAST, SLOW))
    assert (0, "the default is the fastest") == (found.winner, found.reason)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (Fate("unsupported", "no plans"), "no other candidate is left: no plans"),
        (Fate("duplicate", "as the default"), "the others are the same"),
    ],
)
def test_a_default_without_rivals_is_not_called_the_fastest(other, reason):
    assert reason == decision(Fate("ok"), other, finalists=(FAST,)).reason


@pytest.mark.parametrize(
    ("recorded", "measured", "holds"),
    [
        (Ratio(1.2, 1.1, 1.3), Ratio(1.1, 1.05, 1.2), True),
        (Ratio(1.2, 1.1, 1.3), Ratio(1.0, 0.98, 1.02), False),
        (Ratio(0.9, 0.88, 0.92), Ratio(0.9, 0.87, 0.93), True),
        (Ratio(0.9, 0.88, 0.92), Ratio(0.7, 0.68, 0.72), False),
        (Ratio(0.9, 0.88, 0.92), None, False),
    ],
)
def test_a_winner_by_its_limit_holds_unless_it_is_slower_than_was_said(recorded, measured, holds):
    assert holds == Verified("g", recorded, measured).holds


@pytest.mark.parametrize(
    ("broken", "winner", "reason"),
    [
        (None, 0, "one for all graphs: the default, the default is the fastest"),
        (
            BROKEN,
            1,
            "one for all graphs: slow, the fastest within the limits; the default breaks a limit: "
            + BROKEN,
        ),
    ],
)
def test_one_combination_for_all_graphs_keeps_the_limit_in_each(broken, winner, reason):
    """The first graph's default breaks it; the second's does not."""
    raced, logs = [], {}
    for number, beyond in enumerate((broken, None)):
        options = [
            Bare(key=key, variant={}, case=Bare(id=f"{number}{key}")) for key in ("", "slow")
        ]
        fates = (Fate("ok", beyond=beyond), Fate("ok"))
        graph = Bare(loaded=Bare(repeat=1), id=Bare(name=f"{number}"))
        raced.append(Raced(graph, options, fates, (0, 1), None, {}))
        logs |= {f"{number}": FAST.logs, f"{number}slow": SLOW.logs}
    found = decide_whole(Suite(raced, logs), [], 0.01)
    assert [(winner, reason)] * 2 == [(each.winner, each.reason) for each in found]
