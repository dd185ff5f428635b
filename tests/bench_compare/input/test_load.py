"""Files to documents, documents to sides."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace

import pytest
from bench_schema import files
from bench_schema.document import Part
from bench_schema.errors import DocumentError
from bench_schema.journal import Journal

from bench_compare.errors import InputError, UsageError
from bench_compare.input.load import load
from bench_compare.input.sides import Grouping, group, pair
from bench_compare.model import Source
from tests.bench_compare.build import case, document


def saved(path, run_id="run", **changes):
    files.save(path, document([case("g", [[1, 2, 3]])], run_id=run_id, **changes))
    return str(path)


def paths(patterns):
    return [os.path.basename(source.path) for source in load(patterns)[0]]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.zst"])
def test_packed_documents_are_read(tmp_path, name):
    assert load([saved(tmp_path / name)])[0][0].document.run.id == "run"


def test_a_folder_is_searched_in_order_and_into_its_depth(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.json", "a.json.gz", "deep/c.json.zst"):
        saved(tmp_path / name)
    assert paths([str(tmp_path)]) == ["a.json.gz", "b.json", "c.json.zst"]


def test_a_glob_is_sorted_and_a_file_counts_once(tmp_path):
    for name in ("b1.json", "b0.json"):
        saved(tmp_path / name)
    assert paths([str(tmp_path / "b*.json"), str(tmp_path / "b0.json")]) == ["b0.json", "b1.json"]


def test_a_file_whose_name_looks_like_a_glob_is_itself(tmp_path):
    assert paths([saved(tmp_path / "a[1].json")]) == ["a[1].json"]


def test_a_journal_is_read_unless_its_document_is_there(tmp_path):
    whole = document([case("g", [[5, 6]])])
    for name in ("a.json.journal", "b.json.journal"):
        with Journal.create(tmp_path / name, replace(whole, cases=())) as journal:
            journal.append_case(whole.cases[0])
    saved(tmp_path / "b.json")
    sources, _ = load([str(tmp_path)])
    assert [os.path.basename(one.path) for one in sources] == ["a.json.journal", "b.json"]
    assert len(sources[0].document.cases) == 1


def test_other_json_in_a_folder_is_passed_over_with_a_remark(tmp_path):
    saved(tmp_path / "a.json")
    (tmp_path / "other.json").write_text(json.dumps({"verdicts": []}))
    sources, remarks = load([str(tmp_path)])
    assert (len(sources), len(remarks)) == (1, 1)
    assert "other.json: passed over" in remarks[0]


def test_a_damaged_document_in_a_folder_is_passed_over_and_named(tmp_path):
    whole = (tmp_path / "a.json").as_posix()
    saved(whole)
    text = (tmp_path / "a.json").read_bytes()
    (tmp_path / "b.json").write_bytes(text[: len(text) // 2])
    sources, (remark,) = load([str(tmp_path)])
    assert [whole] == [source.path for source in sources]
    assert remark.startswith(f"{tmp_path}/b.json: ")
    assert remark.endswith("; passed over")
    with pytest.raises(DocumentError, match="cut off"):
        load([f"{tmp_path}/b.json"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "empty"),
        (b'{"schema_version": 1', "cut off"),
        (b"not json at all", "not JSON"),
        (b'{"schema_version": 99, "cases": []}', "99"),
        (gzip.compress(b"x" * 100, mtime=0)[:20], "cut off"),
        (b"[]", "b.json"),
        (b'{"graphs": []}', "b.json"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_name(tmp_path, content, sentence):
    path = tmp_path / "b.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError) as error:
        load([str(path)])
    assert sentence in str(error.value)
    assert "b.json" in str(error.value)


@pytest.mark.parametrize("pattern", ["none*.json", "."])
def test_where_nothing_is_found_that_is_said(tmp_path, monkeypatch, pattern):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no "):
        load([pattern])


def source(path, label=None, run_id=None, **changes):
    made = document([case("g", [[1]])], label=label, run_id=run_id or path, **changes)
    return Source(path, made, "bench")


def labels(sources, **grouping):
    base, others = group(sources, Grouping(**grouping))
    return [(side.label, len(side.sources)) for side in (base, *others)]


def test_documents_of_one_label_stand_together_and_the_first_is_the_base():
    sources = [source("1", "new"), source("2", "old"), source("3", "new")]
    assert labels(sources) == [("new", 2), ("old", 1)]


def test_documents_without_a_label_stand_alone_under_their_file_names():
    assert labels([source("x/a.json"), source("x/b.json")]) == [("a.json", 1), ("b.json", 1)]


def test_files_of_one_name_keep_their_folders():
    assert labels([source("x/a.json"), source("y/a.json")]) == [("x/a.json", 1), ("y/a.json", 1)]


def test_sides_can_be_tags_machines_and_files():
    sources = [source("1", "l", tags={"k": "x"}), source("2", "l", tags={"k": "y"})]
    assert labels(sources, by="tag:k") == [("x", 1), ("y", 1)]
    assert labels(sources, by="file") == [("1", 1), ("2", 1)]
    with pytest.raises(InputError, match="all documents have the machine 'host'"):
        labels(sources, by="machine")


def test_engines_of_one_document_can_be_sides():
    both = document([case("g", engine=key) for key in ("numpy", "torch")])
    base, (other,) = group([Source("a", both, "bench")], Grouping("engine"))
    assert (base.engines, other.engines) == (("numpy",), ("torch",))


def test_another_side_can_be_the_base():
    assert labels([source("1", "a"), source("2", "b")], base="b") == [("b", 1), ("a", 1)]


def test_sides_can_be_named():
    assert labels([source("1"), source("2")], labels=("x", "y")) == [("x", 1), ("y", 1)]


def test_two_lists_of_documents_are_two_sides():
    base, other = pair([source("1"), source("2")], [source("3", "new")], ())
    assert [(base.label, len(base.sources)), other.label] == [("a", 2), "b"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("new", "new: on two sides"), ("copy", "copy: the same run as new, on two sides")],
)
def test_lists_that_share_a_run_would_compare_it_with_itself(path, sentence):
    """``--a '*.json' --b 'new*.json'``: everything that is new would be the same as itself."""
    base = [source("old", run_id="r1"), source("new", run_id="r2")]
    with pytest.raises(InputError, match=sentence):
        pair(base, [source(path, run_id="r2")], ())


def test_a_run_under_two_labels_would_be_compared_with_itself():
    with pytest.raises(InputError, match="2: the same run as 1, on two sides"):
        group([source("1", "old", "r"), source("2", "new", "r")], Grouping())


def test_the_label_that_names_two_sides_is_told():
    with pytest.raises(UsageError, match="'y' names two sides"):
        group([source("1"), source("2"), source("3")], Grouping(labels=("x", "y", "y")))


def test_a_run_counts_once_beside_what_it_was_merged_into():
    part = document([case("g")], run_id="r1")
    whole = replace(document([case("g")], run_id="r2"), parts=(Part(part.run, part.machine),))
    with pytest.raises(InputError, match="2: the same run as 1; it must not count twice"):
        pair([Source("1", part, "bench"), Source("2", whole, "bench")], [source("3")], ())


@pytest.mark.parametrize(
    ("sources", "grouping", "sentence"),
    [
        ([source("1")], {}, "1: one document; a second one is needed"),
        ([source("1", "l"), source("2", "l")], {"by": "label"}, "all documents have the label 'l'"),
        ([source("1", "l", "r"), source("2", "l", "r"), source("3")], {}, "the same run as 1"),
        ([source("1", tags={"x": "1"})], {"by": "tag:k"}, "no tag 'k' to group by; its tags: x"),
        ([source("1"), source("2")], {"by": "engine"}, "only one engine, numpy"),
        ([], {}, "no documents"),
    ],
)
def test_a_side_that_stands_alone_says_why(sources, grouping, sentence):
    with pytest.raises(InputError) as error:
        group(sources, Grouping(**grouping))
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("grouping", "sentence"),
    [
        ({"by": "colour"}, "no grouping 'colour'; choose from label"),
        ({"by": "tag"}, "no grouping 'tag'"),
        ({"labels": ("x",)}, "--label: 1 for 2 sides"),
        ({"labels": ("x", "x")}, "'x' names two sides"),
        ({"base": "z"}, "no side 'z'; choose from 1, 2"),
    ],
)
def test_a_wrong_grouping_is_refused_with_the_choices(grouping, sentence):
    with pytest.raises(UsageError) as error:
        group([source("1"), source("2")], Grouping(**grouping))
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("l", "l"), ["1", "2"]),
        ((None, None), ["1", "2"]),
        (("old", "new"), ["old", "new"]),
        (("old", None), ["1", "2"]),
    ],
)
def test_two_documents_are_compared_whatever_their_labels(labels, names):
    base, others = group([source("1", labels[0]), source("2", labels[1])], Grouping())
    assert names == [side.label for side in (base, *others)]
