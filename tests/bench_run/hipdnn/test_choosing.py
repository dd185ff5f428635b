"""Which engine runs, and that no time goes to one that did not."""

from __future__ import annotations

import pytest

from bench_run.cli import main
from bench_run.engines.hipdnn.choosing import engine_id
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError, UsageError
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")
MATMUL = FAMILIES["matmul_2d"]("float", "packed")


SOFT = {"without": "Graph.create_execution_plan_ext,Graph.get_ranked_engine_ids"}
"""What no release lacks beside a read-back; the engine copes with it all the same."""


def plan_of(engine, graph=ADD, variant=None):
    plan = engine.plan(engine.build(graph, {} if variant is None else variant))
    chosen = plan.facts.chosen
    plan.close()
    return chosen


@pytest.mark.parametrize("profile", ["hard", "newest"])
def test_the_engine_that_hipdnn_chose_is_on_record(open_engine, profile):
    chosen = plan_of(open_engine(profile=profile))
    assert ("MIOPEN_ENGINE", "confirmed") == (chosen["engine"], chosen["attribution"])


@pytest.mark.parametrize("profile", ["old", "middle"])
def test_a_release_that_does_not_tell_leaves_the_engine_open(open_engine, profile):
    chosen = plan_of(open_engine(profile=profile))
    assert "engine" not in chosen
    assert "requested, not confirmed" == chosen["attribution"]


def test_a_numbered_engine_of_an_old_release_is_requested_not_confirmed(open_engine):
    chosen = plan_of(open_engine("hipdnn:1", "old"))
    assert ("1", "requested, not confirmed") == (chosen["engine"], chosen["attribution"])


def test_a_name_is_refused_where_it_could_be_ignored_in_silence(open_engine):
    with pytest.raises(EngineUnavailableError, match=r"0\.1\.0 has no engine_id_to_name .* number"):
        open_engine("hipdnn:MIOPEN_ENGINE", "old")


@pytest.mark.parametrize("spec", ["HIPBLASLT_ENGINE", "0x79aeb17432d4a22b", "8768140637164053035"])
@pytest.mark.parametrize("profile", ["middle", "hard", "newest"])
def test_the_engine_asked_for_runs(open_engine, spec, profile):
    assert "HIPBLASLT_ENGINE" == plan_of(open_engine(f"hipdnn:{spec}", profile), MATMUL)["engine"]


def test_a_preference_that_hipdnn_ignores_is_an_outcome_of_its_own(open_engine):
    engine = open_engine("hipdnn:HIPBLASLT_ENGINE", variables=SOFT)
    words = "preference ignored: HIPBLASLT_ENGINE was requested and hipDNN chose MIOPEN_ENGINE"
    with pytest.raises(UnsupportedGraphError, match=words):
        plan_of(engine)


@pytest.mark.parametrize("profile", ["middle", "newest"])
def test_an_engine_that_declines_is_named_with_those_that_do_not(open_engine, profile):
    engine = open_engine("hipdnn:HIPBLASLT_ENGINE", profile)
    words = r"HIPBLASLT_ENGINE does not run this graph; engines that do: MIOPEN_ENGINE, .*Failed to"
    with pytest.raises(UnsupportedGraphError, match=words):
        plan_of(engine)


def test_all_is_a_variant_for_each_engine_that_accepts(open_engine):
    engine = open_engine("hipdnn:all")
    assert [{"engine": "MIOPEN_ENGINE"}, {"engine": "TEST_ENGINE"}] == list(engine.variants(ADD))
    assert 3 == len(engine.variants(MATMUL))


COLON = "hipkernel:Gfx950AttentionDense"


@pytest.mark.parametrize("profile", ["middle", "hard", "newest"])
def test_an_engine_whose_name_holds_a_colon_can_be_named(open_engine, plugin, profile):
    folder = plugin("colon", engines=(COLON,))
    engine = open_engine(f"hipdnn:{COLON}@{folder}", profile)
    assert str(engine_id(COLON)) == plan_of(engine, ADD)["engine_id"]


def test_an_engine_whose_name_holds_a_colon_is_among_all_and_runs(open_engine, plugin):
    engine = open_engine(f"hipdnn:all@{plugin('colon', engines=(COLON,))}")
    (variant,) = engine.variants(ADD)
    assert ({"engine": COLON}, COLON) == (variant, plan_of(engine, ADD, variant)["engine"])


def test_variants_of_engines_that_nobody_names_are_their_numbers(open_engine):
    variants = open_engine("hipdnn:all", "middle").variants(ADD)
    assert {"engine": str(engine_id("TEST_ENGINE"))} in variants


@pytest.mark.parametrize("profile", ["hard", "newest"])
def test_each_variant_of_all_runs_its_engine(open_engine, profile):
    engine = open_engine("hipdnn:all", profile)
    variants = engine.variants(MATMUL)
    assert [v["engine"] for v in variants] == [
        plan_of(engine, MATMUL, v)["engine"] for v in variants
    ]


def test_all_on_a_release_that_cannot_list_says_so(open_engine):
    engine = open_engine("hipdnn:all", variables=SOFT)
    with pytest.raises(UnsupportedGraphError, match=r"has no Graph\.get_ranked_engine_ids"):
        plan_of(engine, ADD, engine.variants(ADD)[0] if engine.variants(ADD) else {})


def test_a_graph_that_no_engine_takes_is_unsupported(open_engine, plugin):
    folder = plugin("narrow", types=["MatmulAttributes"])
    with pytest.raises(UnsupportedGraphError, match="HIPDNN_BACKEND_ERROR"):
        plan_of(open_engine(f"hipdnn@{folder}"))


def test_knobs_need_an_engine(open_engine):
    with pytest.raises(UsageError, match="--knob needs an engine's id"):
        plan_of(open_engine(knobs={"mix": "0.25"}))


def test_knobs_are_set_and_on_record(open_engine):
    knobs = {"global.benchmarking": "1", "split.factor": "4", "mix": "0.25", "layout": "nhwc"}
    chosen = plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs=knobs))
    assert knobs == {name: chosen[f"knob {name}"] for name in knobs}


@pytest.mark.parametrize(
    ("knob", "problem"),
    [
        ({"global.benchmarking": "yes"}, "expected a whole number"),
        ({"global.benchmarking": "2"}, "expected 0 to 1"),
        ({"split.factor": "5"}, "expected steps of 2 from 2"),
        ({"mix": "nan"}, "expected a finite number"),
        ({"layout": "nchw"}, "choose from auto, nhwc"),
    ],
)
def test_a_knob_of_the_wrong_type_or_value_is_refused(open_engine, knob, problem):
    with pytest.raises(EngineError, match=problem):
        plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs=knob))


def test_an_unknown_knob_is_refused_with_the_known_ones(open_engine):
    with pytest.raises(UnsupportedGraphError, match=r"no knob 'speed'; it has global.benchmarking"):
        plan_of(open_engine("hipdnn:MIOPEN_ENGINE", knobs={"speed": "1"}))


@pytest.mark.parametrize(
    ("profile", "spec", "missing"),
    [("middle", "MIOPEN_ENGINE", "KnobSetting"), ("old", "1", "create_execution_plan_ext")],
)
def test_a_release_without_knobs_is_named_with_what_it_lacks(open_engine, profile, spec, missing):
    with pytest.raises((EngineError, EngineUnavailableError), match=rf"has no .*{missing}"):
        plan_of(open_engine(f"hipdnn:{spec}", profile, knobs={"mix": "0"}))


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
    assert "engine MIOPEN_ENGINE, id 1563989756945604898, global.benchmarking a whole" in shown
