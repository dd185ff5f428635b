"""Two tunings: how good the library's own choice is, and what only one of them measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench_compare.cli import main

STORED = Path(__file__).resolve().parents[2] / "data" / "tuning" / "tuned_v3.json"


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    """Compare the stored tuning with itself after a change."""
    monkeypatch.chdir(tmp_path)

    def run(change, *words):
        tree = json.loads(STORED.read_bytes())
        for name, changed in (("base", False), ("other", True)):
            if changed:
                change(tree)
                tree["run"]["id"] = "another"
                for one in (one for case in tree["cases"] for one in case["rounds"]):
                    one["series"]["device_ns"][0] += 1
            Path(f"{name}.json").write_text(json.dumps(tree))
        code = main(["base.json", "other.json", *words])
        return code, " ".join(capsys.readouterr().out.split())

    return run


def _loses(tree, plan, status="ok"):
    """Leave the ordinary rounds of a plan out."""
    lost = [case["id"] for case in tree["cases"] if case["variant"].get("plan") == plan]
    tree["cases"] = [case for case in tree["cases"] if case["id"] not in lost]
    for candidate in tree["tuned"]["entries"][0]["candidates"]:
        if candidate["case"] in lost:
            candidate |= {"case": None, "rounds": 2, "status": status, "reason": "as it is"}


def test_the_default_of_both_builds_is_told_next_to_each_other(compared):
    def improve(tree):
        tree["tuned"]["entries"][0] |= {"winner": 0, "gain": {"estimate": 1, "low": 1, "high": 1}}

    _, told = compared(improve)
    assert "how good is the default, add: base.json: beaten in 1 of 1 graphs, mean " in told
    assert "other.json: beaten in 0 of 1 graphs" in told


def test_the_page_tells_it_too(compared):
    compared(lambda tree: None, "--html", "page.html")
    assert "how good is the default, add" in Path("page.html").read_text()


def test_a_plan_that_was_too_slow_for_ordinary_rounds_is_not_removed(compared):
    _, told = compared(lambda tree: _loses(tree, "best"))
    assert "removed" not in told


def test_a_plan_that_does_not_run_any_more_is_removed(compared):
    code, told = compared(lambda tree: _loses(tree, "best", "failed"))
    assert (2, True) == (code, "removed small_add [plan=best]" in told)


def test_a_plan_that_is_not_listed_any_more_is_removed_where_all_were_asked_for(compared):
    def change(tree):
        _loses(tree, "best")
        tree["tuned"]["space"] = ["plan=all"]
        entry = tree["tuned"]["entries"][0]
        gone = next(c for c in entry["candidates"] if c["variant"].get("plan") == "best")
        gone["case_variant"] = gone["variant"] = {"plan": "new"}

    code, told = compared(change)
    assert (2, True) == (code, "removed small_add [plan=best]" in told)
