"""Which case is which."""

from __future__ import annotations

import pytest

from bench_compare.errors import InputError
from bench_compare.input.align import align
from tests.bench_compare.build import case, document, engine, side


def pairs(base, other, **changes):
    found = align(side("a", document(base)), side("b", document(other, **changes)))
    return [(p.base and p.base.name, p.other and p.other.name, p.unlike is None) for p in found]


def test_a_renamed_graph_meets_itself():
    assert pairs([case("old", fingerprint="f")], [case("new", fingerprint="f")]) == [
        ("old", "new", True)
    ]


def test_the_same_name_with_another_meaning_is_a_row_that_is_not_compared():
    assert pairs([case("g", fingerprint="1")], [case("g", fingerprint="2")]) == [("g", "g", False)]


def test_another_data_type_under_one_name_is_named():
    base = side("a", document([case("g", fingerprint="1", data_type="float")]))
    other = side("b", document([case("g", fingerprint="2", data_type="half")]))
    assert "another data type: float in base, half in other" in str(align(base, other)[0].unlike)


def test_what_only_one_side_has_is_a_row():
    assert pairs([case("a"), case("b")], [case("b"), case("c")]) == [
        ("a", None, True),
        ("b", "b", True),
        (None, "c", True),
    ]


LAYOUTS = [case("g", variant={"layout": layout}) for layout in ("nchw", "nhwc")]


def test_the_only_variant_of_a_graph_on_either_side_meets():
    assert [("g", "g", True)] == pairs(LAYOUTS[:1], LAYOUTS[1:])


def test_of_several_variants_only_the_same_meet():
    assert [("g", None, True), ("g", "g", True)] == pairs(LAYOUTS, LAYOUTS[1:])


def test_two_builds_of_one_engine_meet():
    base = [case("g", engine="hipdnn:1@/old/plugin.so")]
    assert pairs(base, [case("g", engine="hipdnn:1@/new/plugin.so")]) == [("g", "g", True)]


def test_two_builds_in_one_document_are_kept_apart():
    keys = ("hipdnn:1@/old", "hipdnn:1@/new")
    both = side("a", document([case("g", engine=key) for key in keys]))
    one = side("b", document([case("g", engine=keys[1])]))
    assert list(keys) == [pair.engine for pair in align(both, one)]


def test_sides_with_one_engine_each_are_compared_across_engines():
    assert pairs([case("g", engine="numpy")], [case("g", engine="torch")]) == [("g", "g", True)]


def test_engines_do_not_meet_where_a_side_has_several():
    other = [case("g", engine="torch"), case("g", engine="cudnn")]
    assert (None, "g", True) in pairs([case("g", engine="numpy")], other)


def test_twins_meet_by_their_names():
    base = [case("one", fingerprint="f"), case("two", fingerprint="f")]
    assert pairs(base, base[::-1]) == [("one", "one", True), ("two", "two", True)]


def test_twins_of_one_name_meet_by_the_ends_of_their_paths():
    base = [case("g", path=f"graphs/{place}/g.json", variant={}) for place in ("one", "two")]
    other = [case("g", path=f"/far/away/graphs/{place}/g.json") for place in ("two", "one")]
    found = align(side("a", document(base)), side("b", document(other)))
    paths = [(p.base.cases[0].graph.path[-10:], p.other.cases[0].graph.path[-10:]) for p in found]
    assert [("one/g.json", "one/g.json"), ("two/g.json", "two/g.json")] == paths


def held_by(*documents):
    numbered = enumerate(documents)
    return side(
        "a", *(document([case(n) for n in names], run_id=f"{at}") for at, names in numbered)
    )


def test_a_document_that_lacks_a_case_of_its_piece_misses_it():
    found = align(held_by("xy", "xy", "xy"), held_by("xy", "y", "y"))
    assert [(0, 2), (0, 0)] == [(p.base.missing, p.other.missing) for p in found]


def test_a_suite_in_pieces_misses_nothing():
    found = align(held_by("uv", "xy"), held_by("uv", "xy"))
    assert {(0, 0)} == {(p.base.missing, p.other.missing) for p in found}


def test_an_empty_document_misses_everything():
    found = align(held_by("x", "x"), held_by("x", ""))
    assert [(0, 1)] == [(p.base.missing, p.other.missing) for p in found]


def test_a_case_that_is_there_twice_is_refused():
    twice = side("a", document([case("g"), case("g")]))
    with pytest.raises(InputError, match=r"a0\.json: graph 'g' on engine 'numpy' is there twice"):
        align(twice, twice)


def test_repeats_are_gathered_in_the_order_of_their_documents():
    base = side("a", document([case("g")]), document([case("h"), case("g")]))
    found = align(base, side("b", document([case("g")])))
    assert found[0].base.sources == (0, 1)


def test_documents_of_two_tools_meet_by_name():
    foreign = [case("g", fingerprint="dnn-benchmarking:12ab", engine="MIOPEN")]
    assert pairs([case("g", engine="torch")], foreign) == [("g", "g", True)]


def test_engines_of_no_case_do_not_matter():
    other = [engine("numpy"), engine("idle")]
    assert pairs([case("g")], [case("g")], engines=other) == [("g", "g", True)]
