"""Which engine runs, and that no time goes to one that did not."""

from __future__ import annotations

import sys

import pytest

from bench_run.cli import main
from bench_run.engines.hipdnn.choosing import engine_id
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")
MATMUL = FAMILIES["matmul_2d"]("float", "packed")


def plan_of(engine, graph=ADD, variant=None):
    plan = engine.plan(engine.build(graph, {} if variant is None else variant))
    chosen = plan.facts.chosen
    plan.close()
    return chosen


def test_the_engine_that_hipdnn_chose_is_on_record(open_engine):
    chosen = plan_of(open_engine())
    assert ("MIOPEN_ENGINE", "confirmed") == (chosen["engine"], chosen["attribution"])


def test_behaviour_notes_of_the_engine_are_on_record_and_listed(open_engine):
    engine = open_engine()
    assert "RUNTIME_COMPILATION, EXTERNAL_LIBRARY_DEPENDENCY" == plan_of(engine)["notes"]
    listed = [row["notes"] for row in engine.choices(ADD)]
    assert ["RUNTIME_COMPILATION EXTERNAL_LIBRARY_DEPENDENCY", "SUPPORTS_GRAPH_CAPTURE"] == listed


@pytest.mark.parametrize("member", ["get_behavior_notes_for_engine", "get_plan_name"])
def test_what_only_describes_a_plan_is_no_reason_not_to_measure(open_engine, monkeypatch, member):
    engine = open_engine()

    def fail(*_):
        raise RuntimeError("not today")

    monkeypatch.setattr(sys.modules["hipdnn_frontend"].Graph, member, fail)
    assert "MIOPEN_ENGINE" == plan_of(engine)["engine"]


@pytest.mark.parametrize("spec", ["HIPBLASLT_ENGINE", "0x79aeb17432d4a22b", "8768140637164053035"])
def test_the_engine_asked_for_runs(open_engine, spec):
    assert "HIPBLASLT_ENGINE" == plan_of(open_engine(f"hipdnn:{spec}"), MATMUL)["engine"]


def test_a_choice_that_hipdnn_ignores_is_an_outcome_of_its_own(open_engine, monkeypatch):
    engine = open_engine("hipdnn:TEST_ENGINE")
    other = engine_id("MIOPEN_ENGINE")
    graph_class = sys.modules["hipdnn_frontend"].Graph
    monkeypatch.setattr(graph_class, "get_execution_plan_engine_id", lambda _: other)
    words = "preference ignored: TEST_ENGINE was requested and hipDNN chose MIOPEN_ENGINE"
    with pytest.raises(UnsupportedGraphError, match=words):
        plan_of(engine)


@pytest.mark.parametrize("knobs", [{}, {"mix": "0.5"}])
def test_an_engine_that_declines_is_named_with_those_that_do_not(open_engine, knobs):
    engine = open_engine("hipdnn:HIPBLASLT_ENGINE", knobs=knobs)
    words = r"HIPBLASLT_ENGINE does not run this graph; engines that do: MIOPEN_ENGINE, "
    with pytest.raises(UnsupportedGraphError, match=words):
        plan_of(engine)


def test_an_engine_that_no_plugin_has_is_named_with_those_that_there_are(open_engine):
    words = "no loaded plugin has the engine SPELT; engines that run this graph: MIOPEN_ENGINE, TES"
    with pytest.raises(UnsupportedGraphError, match=words):
        plan_of(open_engine("hipdnn:SPELT"))


def test_all_is_a_variant_for_each_engine_that_accepts(open_engine):
    engine = open_engine("hipdnn:all")
    assert [{"engine": "MIOPEN_ENGINE"}, {"engine": "TEST_ENGINE"}] == list(engine.variants(ADD))
    assert 3 == len(engine.variants(MATMUL))


COLON = "hipkernel:Gfx950AttentionDense"


def test_an_engine_whose_name_holds_a_colon_can_be_named(open_engine, plugin):
    engine = open_engine(f"hipdnn:{COLON}@{plugin('colon', engines=(COLON,))}")
    assert str(engine_id(COLON)) == plan_of(engine, ADD)["engine_id"]


def test_an_engine_whose_name_holds_a_colon_is_among_all_and_runs(open_engine, plugin):
    engine = open_engine(f"hipdnn:all@{plugin('colon', engines=(COLON,))}")
    (variant,) = engine.variants(ADD)
    assert ({"engine": COLON}, COLON) == (variant, plan_of(engine, ADD, variant)["engine"])


def test_each_variant_of_all_runs_its_engine(open_engine):
    engine = open_engine("hipdnn:all")
    variants = engine.variants(MATMUL)
    assert [v["engine"] for v in variants] == [
        plan_of(engine, MATMUL, v)["engine"] for v in variants
    ]


def test_a_graph_that_no_engine_takes_is_unsupported(open_engine, plugin):
    folder = plugin("narrow", types=["MatmulAttributes"])
    with pytest.raises(UnsupportedGraphError, match="HIPDNN_BACKEND_ERROR"):
        plan_of(open_engine(f"hipdnn@{folder}"))


@pytest.mark.parametrize("spec", ["hipdnn:all", "hipdnn:autotune"])
def test_where_no_engine_is_ranked_hipdnns_words_say_why(open_engine, plugin, spec):
    engine = open_engine(f"{spec}@{plugin('narrow', types=['MatmulAttributes'])}")
    words = "no engine accepts this graph: Failed to get ranked engine ids: no engine accepts"
    variants = engine.variants(ADD)
    with pytest.raises(UnsupportedGraphError, match=words):
        engine.build(ADD, variants[0] if variants else {})


def test_knobs_need_an_engine(open_engine):
    with pytest.raises(UsageError, match="--knob needs an engine's id"):
        plan_of(open_engine(knobs={"mix": "0.25"}))


def test_knobs_are_set_and_on_record(open_engine):
    knobs = {"global.benchmarking": "1", "split.factor": "4", "mix": "0.25", "layout": "nhwc"}
    knobs |= {"tile": "32"}
    chosen = plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs=knobs))
    assert knobs == {name: chosen[f"knob {name}"] for name in knobs}


@pytest.mark.parametrize(
    ("knob", "problem"),
    [
        ({"global.benchmarking": "yes"}, "expected a whole number"),
        ({"global.benchmarking": "2"}, "2 violates its constraint; it takes .*0 to 1"),
        ({"split.factor": "5"}, "5 violates its constraint; it takes .*2 to 16, steps of 2"),
        ({"mix": "nan"}, "expected a finite number"),
        ({"tile": "0"}, "one of 8 16 32 64"),
        ({"layout": "nchw"}, "one of auto channels last nhwc"),
    ],
)
def test_a_knob_of_the_wrong_type_or_value_is_refused(open_engine, knob, problem):
    with pytest.raises(EngineError, match=problem):
        plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs=knob))


def test_an_unknown_knob_is_refused_with_the_known_ones(open_engine):
    with pytest.raises(UnsupportedGraphError, match=r"no knob 'speed'; it has former, global"):
        plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs={"speed": "1"}))


@pytest.mark.parametrize(
    "knob", [{"tile": "8"}, {"layout": "channels last"}], ids=["beyond bounds", "too long"]
)
def test_listed_values_overrule_bounds_and_length(open_engine, knob):
    chosen = plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs=knob))
    assert knob == {name: chosen[f"knob {name}"] for name in knob}


def test_every_value_of_a_knob_can_be_tried(open_engine):
    values = open_engine("hipdnn:MIOPEN_ENGINE").knob_values(ADD, {})
    assert ("8", "16", "32", "64") == values["tile"]
    assert ("auto", "channels last", "nhwc") == values["layout"]
    assert ("2", "4", "6", "8", "10", "12", "14", "16") == values["split.factor"]
    assert {"tag", "mix", "former"}.isdisjoint(values)


def test_choices_list_engines_and_their_knobs(open_engine):
    rows = open_engine("hipdnn").choices(ADD)
    assert ["MIOPEN_ENGINE", "TEST_ENGINE"] == [row["engine"] for row in rows]
    assert (
        "a whole number, default 0, 0 to 1: search the fastest algorithm"
        == (rows[0]["global.benchmarking"])
    )


def test_list_engines_shows_what_a_graph_can_choose_from(release, small_graph, capsys):
    release()
    assert 0 == main(["--list-engines", "--engine", "hipdnn", str(small_graph)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "engine MIOPEN_ENGINE, id 1563989756945604898, notes RUNTIME_COMPILATION" in shown
