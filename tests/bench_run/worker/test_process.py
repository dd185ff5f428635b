"""Whatever an engine does costs one case: each way to die, proved with a real process."""

from __future__ import annotations

import pytest

import bench_run
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineUnavailableError, WorkerCrashedError
from bench_run.options import Options
from bench_run.plan.engines import plan_engines

pytestmark = pytest.mark.usefixtures("fresh_workers")

FAST = {"rounds": 1, "iterations": 2, "warmup": 0}

DEATHS = [
    ("segfault", "crashed", "SIGSEGV"),
    ("abort", "crashed", "SIGABRT"),
    ("exit0", "crashed", "exited with code 0 during first_run"),
    ("sys-exit", "crashed", "SystemExit: 0 (during first_run)"),
    ("fork", "crashed", "SIGKILL"),
    ("bug", "crashed", "ValueError: a bug of the engine (during first_run)"),
    ("close-descriptors", "crashed", "during first_run"),
    ("flood", "crashed", "exited with code 3"),
    ("hang", "timed out", "no answer within --timeout 3 s (during first_run); it was stopped"),
    ("memory", "failed", "no more"),
]
QUICK = ("segfault", "bug", "hang")
"""`test_deaths.py` has many more, in one run."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "status", "reason"),
    [
        pytest.param(*death, id=death[0], marks=[pytest.mark.slow] * (death[0] not in QUICK))
        for death in DEATHS
    ],
)
def test_a_death_is_the_outcome_of_one_case_and_the_run_goes_on(
    hostile, small_graph, way, status, reason
):
    engines = [f"hostile:{way}", "numpy"]
    document = bench_run.run([str(small_graph)], engine=engines, timeout_s=3.0, **FAST)
    dead, alive = sorted(document.cases, key=lambda case: case.engine)
    assert (status, "completed") == (dead.outcome.status, alive.outcome.status)
    assert reason in dead.outcome.reason


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["build", "plan"])
def test_a_build_that_hangs_is_stopped_long_before_the_case(hostile, small_graph, phase):
    document = bench_run.run(
        [str(small_graph)], engine=[f"hostile:hang-{phase}"], build_timeout_s=1.0, **FAST
    )
    outcome = document.cases[0].outcome
    reason = f"longer than --build-timeout 1 s (during {phase}); it was stopped"
    assert ("timed out", phase, reason) == (outcome.status, outcome.phase, outcome.reason)


@pytest.mark.slow
def test_a_plan_that_hangs_costs_itself_and_no_other_plan(hostile, small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["hostile:all"], build_timeout_s=1.0, **FAST
    )
    found = [(case.variant["plan"], case.outcome.status) for case in document.cases]
    assert [("quick", "completed"), ("stuck", "timed out")] == found


@pytest.mark.slow
def test_the_limit_of_building_leaves_the_other_phases_alone(hostile, small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["hostile:hang"], timeout_s=3.0, build_timeout_s=1.0, **FAST
    )
    assert "no answer within --timeout 3 s (during first_run)" in document.cases[0].outcome.reason


@pytest.mark.parametrize(
    ("text", "given", "limit_s"),
    [
        ("cudnn:all", None, 60.0),
        ("cudnn:all", 5.0, 5.0),
        ("cudnn", None, None),
        ("cudnn", 5.0, 5.0),
    ],
)
def test_each_variant_of_many_has_a_minute_to_build(text, given, limit_s):
    options = Options(build_timeout_s=given)
    assert limit_s == plan_engines(options, [parse_spec(text)])[0].build_timeout_s


@pytest.mark.long
def test_the_last_words_are_kept(hostile, small_graph):
    document = bench_run.run([str(small_graph)], engine=["hostile:flood"], **FAST)
    detail = document.cases[0].outcome.detail
    assert detail.endswith("my last words")
    assert len(detail) <= 4096


@pytest.mark.long
def test_a_traceback_of_a_bug_is_kept(hostile, small_graph):
    document = bench_run.run([str(small_graph)], engine=["hostile:bug"], **FAST)
    assert "ValueError: a bug of the engine" in document.cases[0].outcome.detail


@pytest.mark.long
@pytest.mark.parametrize(
    "way", ["print", *(pytest.param(way, marks=pytest.mark.slow) for way in ("locale", "leak"))]
)
def test_noise_does_not_spoil_the_document(hostile, small_graph, way):
    document = bench_run.run([str(small_graph)], engine=[f"hostile:{way}"], **FAST)
    case = document.cases[0]
    assert (case.outcome.status, case.validation.status) == ("completed", "passed")


@pytest.mark.long
def test_a_case_that_died_is_not_visited_again(hostile, small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["hostile:segfault"], rounds=3, iterations=3, warmup=0
    )
    assert (len(document.cases), len(document.cases[0].rounds)) == (1, 0)


@pytest.mark.long
def test_an_engine_that_dies_while_it_opens_ends_the_run_in_one_line(hostile, small_graph):
    with pytest.raises(
        (WorkerCrashedError, EngineUnavailableError),
        match="engine hostile:exit-on-open: it exited with code 7",
    ):
        bench_run.run([str(small_graph)], engine=["hostile:exit-on-open"], **FAST)


@pytest.mark.long
def test_a_result_that_is_wrong_is_still_timed(hostile, small_graph):
    document = bench_run.run([str(small_graph)], engine=["hostile:wrong"], **FAST)
    case = document.cases[0]
    assert (case.validation.status, case.validation.outputs[0].mismatched) == ("failed", 1)
    assert case.summary["e2e_ns"].count == 2


@pytest.mark.long
def test_a_result_that_turns_wrong_later_is_caught(hostile, small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["hostile:wrong-later"], rounds=1, iterations=8, warmup=0
    )
    validation = document.cases[0].validation
    assert validation.status == "failed"
    assert "right in the first run, wrong in" in validation.reason


@pytest.mark.long
def test_an_output_that_nobody_writes_is_a_mismatch(hostile, small_graph):
    document = bench_run.run([str(small_graph)], engine=["hostile:unwritten"], **FAST)
    output = document.cases[0].validation.outputs[0]
    assert (output.elements, "NaN") == (output.mismatched, output.worst[0].actual)


MESSAGES = [
    ("half-a-message", "timed out", "no answer within --timeout 3 s"),
    ("long-message", "timed out", "no answer within --timeout 3 s"),
    ("endless-message", "crashed", "not a message: a message of 4,294,967,295 bytes"),
    ("noise", "crashed", "the worker sent something that is not a message"),
    ("no-such-message", "crashed", "the worker sent something that is not a message"),
    ("messages-without-end", "timed out", "no answer within --timeout 3 s"),
    ("bomb", "crashed", "the worker sent something that is not a message"),
]


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
def test_what_engines_write_to_the_run_costs_their_cases(
    hostile, small_graph, tmp_path, monkeypatch, strict
):
    bomb = tmp_path / "bomb"
    monkeypatch.setenv("HOSTILE_BOMB", str(bomb))
    engines = [*(f"hostile:{way}" for way, _, _ in MESSAGES), "numpy"]
    document = bench_run.run(
        [str(small_graph)], engine=engines, timeout_s=3.0, strict=strict, **FAST
    )
    found = {case.engine: case.outcome for case in document.cases}
    assert "completed" == found.pop("numpy").status
    for (way, status, reason), outcome in zip(MESSAGES, found.values(), strict=True):
        assert (way, status) == (way, outcome.status)
        assert reason in outcome.reason
    assert not bomb.exists()


@pytest.mark.long
def test_a_fork_that_comes_back_does_not_speak_for_the_worker(hostile, small_graph):
    engines = ["hostile:fork-and-return", "numpy"]
    document = bench_run.run([str(small_graph)], engine=engines, timeout_s=20.0, **FAST)
    assert {"completed"} == {case.outcome.status for case in document.cases}
    assert {"passed"} == {case.validation.status for case in document.cases}
