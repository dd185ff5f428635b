"""Whatever is done to a file, the answer is a graph or one sentence; never another exception."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import GraphError
from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from bench_run.graph.work import family, work
from tests.bench_run.graph.builders import COLLECTED, conv_bias_relu, graphs
from tests.support import examples

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "NaN", "unset", "float", "add", "CROSS_CORRELATION", "\ud83d"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ORIGINALS = [json.loads(write_graph(conv_bias_relu()))]
ORIGINALS += [json.loads(path.read_bytes()) for path in COLLECTED]


def places(value, path=()):
    """Paths of everything inside of a JSON value."""
    items = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(value, path, new):
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def outcome(text):
    try:
        graph = read_graph(text, "f.json")
    except GraphError as error:
        return str(error)
    assert work(graph).moved_bytes is not None
    assert family(graph)
    assert read_graph(write_graph(graph), "f.json") == graph
    return "fine"


@pytest.mark.long
@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(ORIGINALS), st.data(), anything)
def test_a_changed_value_gives_a_graph_or_one_line(original, data, new):
    path = data.draw(st.sampled_from(list(places(original))))
    assert "\n" not in outcome(json.dumps(changed(original, path, new)).encode())


@given(st.binary())
def test_any_bytes_give_one_line(data):
    assert "\n" not in outcome(data)


@given(graphs(), st.data())
def test_a_file_that_is_cut_short_gives_one_line(drawn, data):
    text = write_graph(drawn)
    cut = text[: data.draw(st.integers(0, len(text) - 2))]
    assert outcome(cut).startswith("f.json: is ")


def test_deep_nesting_gives_one_line():
    assert outcome(b"[" * 100_000).startswith("f.json: is not JSON")
