"""A run's first line says how long it will take, and so does a dry run."""

from __future__ import annotations

import re

import pytest

from bench_run.runner.forecast import about

UNKNOWN = "1 case, 4 iterations in 2 rounds each: how long is unknown, it did not run here before"
KNOWN = r"1 case, 4 iterations in 2 rounds each: about \d+ s, as earlier runs took here"
ENGINE = ("--engine", "numpy", "--warmup", "0")
QUICK = ("--iters", "4", "--rounds", "2")


@pytest.fixture
def typed(bench_run_command, small_graph, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def typed(*words):
        own = () if "--iters" in words else QUICK
        return bench_run_command(small_graph, *ENGINE, *own, *words)

    return typed


def test_a_machine_remembers_how_long_a_run_took(typed, tmp_path):
    assert UNKNOWN == typed("--dry-run").stdout.splitlines()[-1]
    first, second = (typed().stderr.splitlines() for _ in range(2))
    assert (UNKNOWN, True) == (first[0], re.fullmatch(KNOWN, second[0]) is not None)
    assert any(re.fullmatch(r"about \d+ s left", line) for line in first)
    assert re.fullmatch(KNOWN, typed("--dry-run").stdout.splitlines()[-1])


def test_another_effort_is_not_known(typed):
    typed()
    assert "how long is unknown" in typed("--dry-run", "--iters", "40", "--rounds", "2").stdout
    assert "how long is unknown" in typed("--dry-run", "--threads", "2").stdout
    assert "how long is unknown" in typed("--dry-run", "--reference", "none").stdout


def test_more_rounds_of_the_same_are_known(typed):
    typed()
    assert "about" in typed("--dry-run", "--iters", "8", "--rounds", "4").stdout


def test_rounds_that_a_rule_adds_make_it_the_least(typed):
    typed("--precision", "50%")
    assert "each: at least about" in typed("--precision", "50%", "--dry-run").stdout


def test_of_several_cases_those_that_did_not_run_are_counted(typed):
    typed()
    more = typed("--dry-run", "--op", "relu: dims=4x5", "--op", "exp: dims=4x5")
    assert more.stdout.endswith("how long is unknown, 2 of them did not run here before\n")


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"a": "b"}', "\0"])
def test_a_memory_that_cannot_be_read_costs_nothing(typed, tmp_path, content):
    typed()
    (memory,) = (tmp_path / "cache" / "bench-run").glob("durations-*.json")
    memory.write_text(content)
    assert UNKNOWN == typed("--dry-run").stdout.splitlines()[-1]
    assert 0 == typed().returncode
    assert re.fullmatch(KNOWN, typed("--dry-run").stdout.splitlines()[-1])


def test_a_cache_that_cannot_be_made_costs_nothing(typed, tmp_path):
    (tmp_path / "cache").write_text("")
    assert 0 == typed("--reference-cache", "off").returncode


def test_a_quiet_run_says_nothing(typed):
    assert "" == typed("--quiet").stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "about 1 s"),
        (37.4, "about 37 s"),
        (59.9, "about 60 s"),
        (61, "about 1 min"),
        (134, "about 2 min 10 s"),
        (599, "about 10 min"),
        (1380, "about 23 min"),
        (9000, "about 2.5 h"),
    ],
)
def test_durations_are_said_as_a_person_says_them(seconds, text):
    assert text == about(seconds)
