"""hipDNN's own tuner as an engine, and its own clock as a witness."""

from __future__ import annotations

import re
import sys

import pytest

import bench_run
from bench_run.tensors.seeded.inputs import make_inputs
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")


@pytest.fixture
def tuned(release, plugin, small_graph):
    """A run of hipDNN's tuner over two engines, of which the second is faster."""

    def run(profile="attested", variables=None, **facts):
        release(profile, **(variables or {}))
        for name, engine, milliseconds in (("a", "SLOW_ENGINE", 2.0), ("b", "FAST_ENGINE", 1.0)):
            folder = plugin(
                "build", name=f"lib{name}.so", engines=(engine,), milliseconds=milliseconds, **facts
            )
        spec = f"hipdnn:autotune@{folder}"
        document = bench_run.run([str(small_graph)], engine=[spec], rounds=1, iterations=5)
        return document.cases[0]

    return run


def test_the_tuners_winner_is_measured_with_its_claim_beside(tuned):
    case = tuned()
    assert ("completed", "passed") == (case.outcome.status, case.validation.status)
    assert ("FAST_ENGINE", "confirmed") == (case.plan["engine"], case.plan["attribution"])
    assert "FAST_ENGINE, least 1.000 ms, mean 1.000 ms" == case.plan["autotune's winner claims"]
    assert "SLOW_ENGINE, least 2.000 ms, mean 2.000 ms" == case.plan["autotune's others claim"]
    assert 1e6 == pytest.approx(case.summary["device_ns"].median, rel=0.02)


@pytest.mark.parametrize(
    ("variables", "facts", "status", "words"),
    [
        ({}, {"types": ["NoSuchAttributes"]}, "unsupported", "no engine accepts this graph"),
        (
            {"fail": "add_all_engines:HIPDNN_BACKEND_ERROR"},
            {},
            "unsupported",
            "Graph.add_all_engines: no engine runs it (HIPDNN_BACKEND_ERROR)",
        ),
        pytest.param(
            {"fail": "add_all_engines:HANDLE_ERROR"},
            {},
            "failed",
            "Graph.add_all_engines: a fault",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"autotune": "silent"},
            {},
            "unsupported",
            "Graph.autotune: no candidates",
            marks=pytest.mark.slow,
        ),
        (
            {"autotune": "liar"},
            {},
            "failed",
            "Graph.autotune names FAST_ENGINE its winner, and SLOW_ENGINE is active after it",
        ),
        (
            {},
            {"untunable": True},
            "failed",
            "Graph.autotune: Autotune failed: no candidate could be benchmarked",
        ),
    ],
)
def test_a_tuner_that_finds_nothing_says_why(tuned, variables, facts, status, words):
    outcome = tuned("newest", variables, **facts).outcome
    assert (status, True) == (outcome.status, words in outcome.reason)


def test_which_tuner_it_is_and_how_many_were_timed_is_on_record(tuned):
    plan = tuned().plan
    assert (
        "Graph.autotune, standard mode, over every engine that takes the graph"
        == (plan["selection"])
    )
    assert "2, of which 2 were timed" == plan["autotune's candidates"]


def test_hipdnns_own_clock_is_a_witness_with_its_quality(tuned):
    words = tuned().plan["execute_timed_ext says"]
    assert words.startswith("DEVICE_ONLY: median 1.00")
    assert words.endswith(" ms of 5")


@pytest.fixture
def witnessed(open_engine, plugin, monkeypatch):
    """What the witness says after a gated run, and how often it was executed."""

    def ask(qualities="DEVICE_ONLY", **facts):
        engine = open_engine(f"hipdnn@{plugin('one', **facts)}", "attested", {"quality": qualities})
        graph_class, calls = sys.modules["hipdnn_frontend"].Graph, []
        timed = graph_class.execute_timed_ext
        monkeypatch.setattr(
            graph_class, "execute_timed_ext", lambda *a, **k: calls.append(1) or timed(*a, **k)
        )
        plan = engine.plan(engine.build(ADD, {}))
        plan.upload(make_inputs(ADD, 0))
        return engine.stream, plan, calls

    return ask


def test_times_of_unlike_quality_are_never_mixed(witnessed):
    _, plan, _ = witnessed("DEVICE_ONLY,UNSTALLED", milliseconds=1.0)
    words = plan.witness()["execute_timed_ext says"]
    assert re.fullmatch(r"DEVICE_ONLY: median 1\S* ms of 3; UNSTALLED: median 1\S* ms of 2", words)


def test_a_plan_that_forced_the_gate_open_is_not_executed_for_the_witness(witnessed):
    stream, plan, calls = witnessed(waits=["PointwiseAttributes"])
    stream.try_gate()
    words = plan.witness()["execute_timed_ext says"]
    assert ([], True) == (calls, words.startswith("not asked: the engine waited for the device"))


def test_nor_is_one_that_is_to_be_measured_without_a_gate(witnessed):
    stream, plan, calls = witnessed()
    stream.leave_gate_open("another round did without")
    assert {"execute_timed_ext says": "not asked: another round did without"} == plan.witness()
    assert [] == calls


@pytest.mark.parametrize("bound", [True, False])
def test_the_witness_ends_with_the_first_gate_that_opens_by_force(witnessed, monkeypatch, bound):
    """Also where `timed_out` is not bound: a good `Error` without a time tells it."""
    _, plan, calls = witnessed(waits=["PointwiseAttributes"])
    if not bound:
        monkeypatch.delattr(sys.modules["hipdnn_frontend"].ExecutionTiming, "timed_out")
    assert {"execute_timed_ext says": "a gate opened by force"} == plan.witness()
    assert 1 == len(calls)


def test_bindings_without_a_timed_execution_have_no_witness(tuned):
    assert "execute_timed_ext says" not in tuned("newest").plan
