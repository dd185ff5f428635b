"""What breaks the device costs one case; the engine beside it and the next graph go on."""

from __future__ import annotations

import json

import pytest

from tests.support import graph_json

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("stream", "hostile_gpu")]

QUICK = ("--iters", "4", "--rounds", "1", "--warmup", "2", "--timeout", "25")


@pytest.fixture
def outcomes(bench_run_command, tmp_path, small_graph):
    """Outcomes by engine of a run of a hostile engine beside an honest one, two graphs."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps(graph_json("other", (64, 64))))

    def run(way):
        words = ("--engine", f"hostile_gpu:{way}", "--engine", "torch:cuda", *QUICK)
        done = bench_run_command(small_graph, other, *words, "-o", "out.json")
        assert done.returncode in (0, 1, 2), done.stderr
        found = {}
        for case in json.loads((tmp_path / "out.json").read_text())["cases"]:
            found.setdefault(case["engine"].partition(":")[0], []).append(case)
        return found

    return run


@pytest.mark.parametrize(
    ("way", "status", "word"),
    [
        ("illegal", "failed", "ILLEGAL_ADDRESS"),
        ("memory", "failed", "out of memory"),
        ("hang", "timed out", "no answer"),
        ("die", "crashed", "SIGABRT"),
    ],
)
def test_a_broken_case_says_what_happened_and_the_others_complete(outcomes, way, status, word):
    found = outcomes(way)
    broken = [case["outcome"] for case in found["hostile_gpu"]]
    assert [status] * 2 == [outcome["status"] for outcome in broken]
    assert all(word in outcome["reason"] for outcome in broken)
    assert ["completed"] * 2 == [case["outcome"]["status"] for case in found["torch"]]


def test_an_engine_that_waits_inside_is_measured_and_marked(outcomes):
    case = outcomes("wait")["hostile_gpu"][0]
    assert "completed" == case["outcome"]["status"]
    assert any("behind the closed gate" in note for note in case["notes"])
