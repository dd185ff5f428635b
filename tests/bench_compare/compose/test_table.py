"""What makes a table: which documents go together, and which rows a layer has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Memory, Outcome
from bench_schema.pipeline import pipeline_text, read_pipeline
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.compose.answer import compose
from bench_compare.compose.forms import Form, FormConversion, conversion_of
from bench_compare.compose.setup import Question
from bench_compare.compose.table import Table, ratio, total
from bench_compare.errors import InputError
from bench_compare.model import Source
from tests.bench_compare import build
from tests.bench_compare.compose import worlds
from tests.bench_compare.compose.worlds import CHAIN, World, composed


def changed_machine(document, **changes):
    return replace(document, machine=replace(document.machine, **changes))


def on_unit(document, uuid):
    cases = tuple(
        replace(c, rounds=tuple(replace(r, device_uuid=uuid) for r in c.rounds))
        for c in document.cases
    )
    return replace(document, cases=cases)


def with_engine(document, **changes):
    return replace(document, engines=tuple(replace(e, **changes) for e in document.engines))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda d: changed_machine(d, host="elsewhere"),
            "machine.host: elsewhere, but doc0.json has host",
        ),
        (
            lambda d: changed_machine(d, environment={"MIOPEN_FIND": "1"}),
            "machine.environment: MIOPEN_FIND 1, but doc0.json has MIOPEN_FIND not set",
        ),
        (
            lambda d: with_engine(d, libraries={"blas": "2"}),
            "engines.e.libraries: blas 2, but doc0.json has blas not set",
        ),
        (
            lambda d: with_engine(d, knobs={"TILE": "2"}),
            "engines.e.knobs: TILE 2, but doc0.json has TILE not set",
        ),
    ],
)
def test_documents_that_are_unlike_are_refused_with_file_and_field(change, sentence, tmp_path):
    with pytest.raises(InputError) as caught:
        composed(CHAIN, tmp_path, worlds.parts(CHAIN), change(worlds.parts(CHAIN)))
    assert str(caught.value) == f"doc1.json: {sentence}"


def test_what_a_document_does_not_tell_is_not_held_against_it(tmp_path):
    known = with_engine(worlds.parts(CHAIN), plugin_sha256="0" * 64)
    assert composed(CHAIN, tmp_path, worlds.parts(CHAIN), known).problems == ()


def changed(document, layer, **changes):
    cases = [replace(c, **changes) if c.graph.name == layer else c for c in document.cases]
    return replace(document, cases=tuple(cases))


@pytest.mark.parametrize("order", [1, -1])
def test_a_layer_that_failed_in_one_document_counts_by_the_other(order, tmp_path):
    parts = worlds.parts(CHAIN)
    killed = changed(parts, "b", outcome=Outcome("failed", "killed"), rounds=())
    found = composed(CHAIN, tmp_path, *(parts, killed)[::order])
    assert pytest.approx(3440) == found.chosen.time.value


@pytest.mark.parametrize("order", [1, -1])
def test_outputs_that_are_wrong_in_one_document_are_wrong(order, tmp_path):
    parts = worlds.parts(CHAIN)
    wrong = changed(parts, "b", validation=build.validation("failed"))
    found = composed(CHAIN, tmp_path, *(parts, wrong)[::order])
    assert "layer b: e: its outputs are wrong" in found.problems[0]


def test_a_row_without_the_series_that_counts_says_which_it_lacks(tmp_path):
    parts = worlds.parts(CHAIN)
    (b,) = [case for case in parts.cases if case.graph.name == "b"]
    rounds = tuple(replace(r, series={"e2e_ns": r.series["e2e_ns"]}) for r in b.rounds)
    other = tuple(replace(r, series={"device_ns": r.series["e2e_ns"]}) for r in b.rounds)
    mixed = changed(changed(parts, "b", rounds=other), "a", rounds=rounds)
    found = composed(CHAIN, tmp_path, mixed)
    assert "layer b: e: no samples of e2e_ns that took longer than 1 ns" in found.problems[0]


def test_the_workspace_is_not_known_where_one_layer_does_not_say(tmp_path):
    parts = worlds.parts(CHAIN)
    parts = changed(parts, "a", memory=Memory(None, 4096, None))
    parts = changed(parts, "c", memory=Memory(None, 64, None))
    some = composed(CHAIN, tmp_path, parts).chosen.workspace_bytes
    parts = changed(parts, "b", memory=Memory(None, 0, None))
    assert (None, 4096) == (some, composed(CHAIN, tmp_path, parts).chosen.workspace_bytes)


def test_a_seam_of_nothing_is_nothing(tmp_path):
    """Means of three rounds: the pair's less both alone is a rounding apart from zero."""
    world = World({"a": {"e": 1010}, "b": {"e": 2030}}, states=(1.0, 1.1, 0.7))
    (seam,) = [p for p in composed(world, tmp_path).chosen.parts if p.kind == "seam"]
    assert 0 == seam.time_ns or abs(seam.time_ns) > 0.1


def test_one_thread_and_as_many_as_there_are_make_no_table(tmp_path):
    def held_to(threads):
        document = worlds.parts(CHAIN)
        settings = replace(document.run.settings, threads=threads, worker_start="fork")
        return replace(document, run=replace(document.run, settings=settings))

    with pytest.raises(InputError, match=r"threads: 1, but doc0\.json has no limit"):
        composed(CHAIN, tmp_path, held_to(None), held_to(1))


def test_rounds_of_two_units_in_one_document_are_refused(tmp_path):
    gpu = with_engine(worlds.parts(CHAIN), device="GPU-1")
    cases = on_unit(gpu, "GPU-1").cases[:-1] + on_unit(gpu, "GPU-2").cases[-1:]
    with pytest.raises(InputError, match=r"doc0\.json: cases\[\d+\]\.rounds\.device_uuid: GPU-2"):
        composed(CHAIN, tmp_path, replace(gpu, cases=cases))


def test_only_engines_that_count_must_agree(tmp_path):
    path = worlds.write_pipeline(CHAIN, tmp_path)
    document = worlds.parts(CHAIN)
    other = build.engine("g", device="GPU-1", device_kind="NVIDIA H200")
    extra = replace(document.cases[0], id="extra", engine="g")
    mixed = replace(document, engines=(*document.engines, other), cases=(*document.cases, extra))
    sources = (Source("both.json", mixed, "bench"),)
    found = compose(Question(sources, path, engines=("e",)))
    assert found.surroundings.device_kind == "cpu"
    with pytest.raises(InputError, match=r"both\.json: engines\.g\.device"):
        compose(Question(sources, path))


def test_three_documents_of_all_rows_are_the_units(tmp_path):
    worlds_of = [replace(CHAIN, states=(s,) * 3) for s in (1.0, 1.1, 1.2)]
    found = composed(CHAIN, tmp_path, *map(worlds.parts, worlds_of))
    assert found.interval == "documents"
    assert found.chosen.time.value == pytest.approx((1.1 * 1.2) ** (1 / 3) * 3440, rel=1e-3)


def test_a_pipeline_whose_layers_name_plans_runs_those(tmp_path):
    world = World({"a": {"e": 100, "e plan=x": 90}, "b": {"e": 100}})
    path = worlds.write_pipeline(world, tmp_path)
    made = read_pipeline(path)
    layers = (replace(made.layers[0], variant={"plan": "x"}), *made.layers[1:])
    path.write_text(pipeline_text(replace(made, layers=layers), tmp_path))
    chain = worlds.chain(World({"a": {"e": 90}, "b": {"e": 100}}), "e")
    parts, whole = (
        (Source(f"{number}.json", one, "bench"),)
        for number, one in enumerate((worlds.parts(world), chain))
    )
    found = compose(Question(parts, path, whole))
    assert (found.chosen.choices["a"], found.baseline.choices["a"]) == ("e plan=x", "e")
    assert found.checks[0].predicted.value == pytest.approx(190)


def test_a_fused_graph_beside_all_of_its_parts_is_pointed_out(tmp_path):
    world = World({"fused": {"e": 100, "e fusion=off": 200}, "b": {"e": 10}, "c": {"e": 10}})
    document = worlds.parts(world)
    prints = tuple(map(worlds.fingerprint, "bc"))
    cases = tuple(
        replace(c, graph=replace(c.graph, layers=prints)) if c.variant else c
        for c in document.cases
    )
    found = composed(world, tmp_path, replace(document, cases=cases))
    assert any("the fused graph fused and all of its parts" in one for one in found.remarks)


def test_chains_and_pairs_are_no_rows_of_a_layer(tmp_path):
    found = composed(CHAIN, tmp_path, choose="time")
    assert [len(layer.options) for layer in found.layers] == [1, 1, 1]


def test_a_rewritten_graph_is_a_variant_of_its_own_file_also_where_the_path_has_a_hash_sign():
    paths = ("run#1/a.json", "run#2/a.json", "run#2/a.json#dtype=half,layout=nhwc")
    rewritten = {"dtype": "half", "layout": "nhwc"}
    cases = [
        build.case(
            "a",
            worlds.rounds(CHAIN, 1000),
            engine="e",
            variant=rewritten if path == paths[2] else {},
            fingerprint=build.fingerprint(path),
            path=path,
        )
        for path in paths
    ]
    source = Source("doc.json", build.document(cases), "bench")
    table = Table((source,), {source.path: {"e"}}, "e2e_ns")
    bases = [row.base for row in table.rows]
    assert [build.fingerprint(paths[n]) for n in (0, 1, 1)] == bases


LAYOUTS = {3: ("ncw", "nwc"), 4: ("nchw", "nhwc"), 5: ("ncdhw", "ndhwc")}
TYPES = ("double", "float", "half", "bfloat16")


@st.composite
def conversions(draw):
    rank = draw(st.sampled_from((4, 5)))
    dims = tuple(draw(st.lists(st.integers(1, 99), min_size=rank, max_size=rank)))
    ends = [
        Form(dims, draw(st.sampled_from(TYPES)), draw(st.sampled_from(LAYOUTS[rank])))
        for _ in range(2)
    ]
    return FormConversion(*ends)


@given(need=conversions())
def test_the_line_for_a_conversion_makes_the_graph_that_is_looked_for(need):
    from bench_run.errors import UsageError
    from bench_run.graph.make import make_graphs

    try:
        (graph,) = make_graphs(need.spec)
    except UsageError:
        assert need.source == need.target
        return
    assert conversion_of(graph.name) == need


ONE = np.zeros(6, np.int64)
EVERY = np.ones(6, bool)


def test_nineteen_of_twenty_intervals_hold_the_truth():
    """Rounds share a state of the machine; rows have noise of their own."""
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        state = generator.normal(1, 0.02, 6)
        logs = np.log(100 * state * generator.normal(1, 0.01, (8, 6)))
        found = total(dict.fromkeys(range(8), 1.0), logs, ONE, EVERY).estimate
        held += found.low <= 800 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_what_both_sides_of_a_ratio_share_cancels():
    state = np.random.default_rng(4).normal(1, 0.1, 6)
    logs = np.log([200 * state, 100 * state])
    found, half = ratio(total({0: 1.0}, logs, ONE, EVERY), total({1: 1.0}, logs, ONE, EVERY))
    assert (found.value, half) == (pytest.approx(2), pytest.approx(0))


def test_a_row_that_a_single_round_has_makes_no_interval():
    logs = np.log([[1.0, 1.1, 0.9], [5.0, np.nan, np.nan]])
    found = total({0: 1.0, 1: 1.0}, logs, ONE[:3], EVERY[:3]).estimate
    assert (found.value, found.low) == (pytest.approx(0.99 ** (1 / 3) + 5), None)


def test_an_interval_of_more_than_a_factor_of_two_is_none():
    logs = np.log([[1.0, 1.0, 8.0]])
    assert total({0: 1.0}, logs, ONE[:3], EVERY[:3]).estimate.low is None
