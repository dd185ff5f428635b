"""Whatever changes a reference changes its key, and names do not."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench_run
from bench_run.graph.make import make_graphs
from bench_run.graph.model import CustomOperation, Node, Tensor
from bench_run.tensors.data import Data, inputs_of
from bench_run.worker import reference_cache
from bench_run.worker.reference_cache import code_digest, graph_digest, key_of, provenance

(GRAPH,) = make_graphs("conv_fwd+bias+relu: n=1 c=2 h=4 w=4 k=2 r=3 s=3 pad=1")
INPUTS = inputs_of(GRAPH, Data(3))

TENSOR = {
    "uid": 99,
    "data_type": "double",
    "dims": (7, 7),
    "strides": (1, 7),
    "virtual": True,
    "value": 0.5,
    "runtime_scalar": True,
    "alignment": 1,
    "ragged_offset_uid": 1,
}
NODE = {
    "type": "MatmulAttributes",
    "compute_data_type": "double",
    "inputs": {"x": 99},
    "outputs": {"y": 99},
    "attributes": {"stride": (2, 2)},
    "input_lists": {"peer_stats": (1,)},
    "custom": CustomOperation("other.py", ("x",)),
}
GRAPHS = {"io_data_type": "double", "intermediate_data_type": "half", "compute_data_type": "half"}
WITHOUT_MEANING = {"name": "other", "extras": {"a": 1}, "preferred_engine_id": 4}


def with_tensor(place, **changes):
    tensors = list(GRAPH.tensors)
    tensors[place] = replace(tensors[place], **changes)
    return replace(GRAPH, tensors=tuple(tensors))


def with_node(place, **changes):
    nodes = list(GRAPH.nodes)
    nodes[place] = replace(nodes[place], **changes)
    return replace(GRAPH, nodes=tuple(nodes))


@given(place=st.integers(0, len(GRAPH.tensors) - 1), name=st.sampled_from(sorted(TENSOR)))
def test_every_field_of_a_tensor_matters(place, name):
    value = not GRAPH.tensors[place].virtual if name == "virtual" else TENSOR[name]
    assert graph_digest(GRAPH) != graph_digest(with_tensor(place, **{name: value}))


@given(place=st.integers(0, len(GRAPH.nodes) - 1), name=st.sampled_from(sorted(NODE)))
def test_every_field_of_a_node_matters(place, name):
    assert graph_digest(GRAPH) != graph_digest(with_node(place, **{name: NODE[name]}))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_types_of_a_graph_matter(name):
    assert graph_digest(GRAPH) != graph_digest(replace(GRAPH, **{name: GRAPHS[name]}))


def test_names_and_what_a_file_said_beside_do_not():
    named = replace(GRAPH, **WITHOUT_MEANING)
    named = replace(
        named,
        tensors=tuple(replace(t, name="t", extras={"x": 1}) for t in named.tensors),
        nodes=tuple(replace(n, name="n", extras={"x": 1}) for n in named.nodes),
    )
    assert graph_digest(GRAPH) == graph_digest(named)


def test_every_field_is_one_that_matters_or_one_that_does_not():
    apart = set(WITHOUT_MEANING)
    assert {f.name for f in fields(Tensor)} - apart == set(TENSOR)
    assert {f.name for f in fields(Node)} - apart == set(NODE)
    assert {f.name for f in fields(GRAPH)} - apart - {"tensors", "nodes"} == set(GRAPHS)


def test_zero_one_and_true_are_different_constants():
    digests = {
        graph_digest(with_tensor(0, value=value)) for value in (0, 0.0, -0.0, False, 1, None)
    }
    assert 6 == len(digests)


@given(data=st.data())
def test_every_bit_of_the_inputs_matters(data):
    uid = data.draw(st.sampled_from(sorted(INPUTS)))
    changed = INPUTS[uid].copy()
    raw = changed.view(np.uint8)
    raw[data.draw(st.integers(0, raw.size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert key_of(GRAPH, INPUTS, "fp32") != key_of(GRAPH, {**INPUTS, uid: changed}, "fp32")


def test_seed_and_distribution_matter():
    keys = {
        key_of(GRAPH, inputs_of(GRAPH, data), "fp32")
        for data in (Data(3), Data(4), Data(3, ("normal",)), Data(3, ("uniform:0:1",)))
    }
    assert 4 == len(keys)


def test_inputs_may_not_change_places():
    first, second, *_ = sorted(INPUTS)
    swapped = {**INPUTS, first: INPUTS[second], second: INPUTS[first]}
    assert key_of(GRAPH, INPUTS, "fp32") != key_of(GRAPH, swapped, "fp32")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the code that computes."""
    copy = tmp_path_factory.mktemp("code") / "bench_run"
    shutil.copytree(Path(bench_run.__file__).parent, copy)
    return copy


@pytest.mark.parametrize(
    "name",
    ["reference/matmul.py", "tensors/seeded/draws.py", "graph/dtypes.py", "worker/evaluate.py"],
)
def test_the_code_matters(package, name):
    before, path = code_digest(package), package / name
    source = path.read_bytes()
    path.write_bytes(source + b"\n")
    assert before != code_digest(package)
    path.write_bytes(source)
    assert before == code_digest(package)


def test_a_module_more_or_under_another_name_matters(package):
    before = code_digest(package)
    (package / "reference" / "more.py").write_text("")
    more = code_digest(package)
    (package / "reference" / "more.py").rename(package / "reference" / "other.py")
    assert 3 == len({before, more, code_digest(package)})
    (package / "reference" / "other.py").unlink()


def test_without_the_code_there_is_no_key(tmp_path):
    assert provenance(tmp_path) is None


@pytest.mark.parametrize("name", reference_cache.LIBRARIES)
def test_the_version_of_a_library_matters(monkeypatch, name):
    before = provenance.__wrapped__()
    version = reference_cache._version
    monkeypatch.setattr(
        reference_cache, "_version", lambda asked: "0.0" if asked == name else version(asked)
    )
    assert before != provenance.__wrapped__()


def test_the_processor_matters(monkeypatch):
    before = provenance.__wrapped__()
    monkeypatch.setattr(reference_cache, "cpu_model", lambda: "another")
    assert before != provenance.__wrapped__()
