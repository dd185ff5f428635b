"""Two names of one file are one place, however they are spelled."""

from __future__ import annotations

import json
import os

import pytest
from bench_schema.errors import UnwritableError
from bench_schema.places import Place, check_places, content_kind, journaled, key_of
from hypothesis import given
from hypothesis import strategies as st

from tests.support import graph_json

SPELLINGS = {
    "as it is": "{0}/{1}",
    "through ..": "{0}/sub/../{1}",
    "through a linked folder": "{0}/link/{1}",
    "twice around": "{0}/link/link/./sub/../{1}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a file, a hard link to it, a link, a dangling link, and a link to the folder itself."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(folder)
    (folder / "a").write_text("kept")
    os.link(folder / "a", folder / "hard")
    (folder / "soft").symlink_to("a")
    (folder / "dangling").symlink_to("new")
    return folder


ONE_FILE = [{"a", "hard", "soft"}, {"new", "dangling"}, {"b"}, {"sub/b"}]


@given(
    first=st.sampled_from(sorted(set.union(*ONE_FILE))),
    second=st.sampled_from(sorted(set.union(*ONE_FILE))),
    relative=st.booleans(),
    how=st.tuples(st.sampled_from(sorted(SPELLINGS)), st.sampled_from(sorted(SPELLINGS))),
)
def test_names_are_equal_where_they_lead_to_one_file(folder, first, second, relative, how):
    one, other = (
        SPELLINGS[spelling].format(os.path.relpath(folder) if relative else folder, name)
        for spelling, name in zip(how, (first, second), strict=True)
    )
    same = any({first, second} <= names for names in ONE_FILE)
    assert same == (key_of(one) == key_of(other))
    for inputs, outputs in (
        ([Place("IN", one)], [Place("-o", other)]),
        ([], [Place("--x", one), Place("-o", other)]),
    ):
        if same:
            with pytest.raises(UnwritableError, match="-o "):
                check_places(inputs, outputs)
        else:
            check_places(inputs, outputs)


@pytest.mark.parametrize("stream", ["-", "/dev/stdout", "/dev/null", "/dev/fd/1"])
def test_streams_are_no_places(stream):
    check_places([Place("IN", stream)], [Place("-o", stream), Place("--csv", stream)])


@pytest.mark.parametrize("name", ["new.json", "sub/new.json", "link/sub/new.json"])
def test_what_a_folder_would_be_read_for_is_not_written_into_it(folder, name):
    graphs = Place("GRAPH", str(folder), (".json",))
    with pytest.raises(UnwritableError, match=f"-o {folder}/{name}: lies where GRAPH .* reads"):
        check_places([graphs], [Place("-o", f"{folder}/{name}")])
    check_places([graphs], [Place("--csv", f"{folder}/{name}.csv")])


def test_a_report_does_not_take_the_place_of_a_journal(tmp_path):
    path = str(tmp_path / "x.json")
    with pytest.raises(UnwritableError, match="kept beside"):
        check_places([], [*journaled("-o", path), Place("--csv", f"{path}.journal")])


def test_folders_of_unlike_files_may_be_one(tmp_path):
    tensors = Place("--save-outputs", str(tmp_path), (".safetensors",))
    graphs = Place("--save-graphs", str(tmp_path), (".json",))
    check_places([], [tensors, graphs, Place("--csv", str(tmp_path / "x.csv"))])
    with pytest.raises(UnwritableError, match="--save-graphs"):
        check_places([], [graphs, Place("-o", str(tmp_path / "x.json"))])


CONTENTS = {
    "graph": (json.dumps(graph_json()), "an operation graph"),
    "list": ("[1]", None),
    "report": ('{"kind": "bench-compare", "cases": []}', None),
    "record": ('{"kind": "bench-run tune"}', "a tuning record"),
    "text": ("time,ns\n", None),
    "broken": ("{", None),
    "empty": ("", None),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_a_file_holds_is_told_by_its_content(tmp_path, name):
    text, kind = CONTENTS[name]
    (tmp_path / "x").write_text(text)
    assert kind == content_kind(str(tmp_path / "x"))
