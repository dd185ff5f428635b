"""What the bindings read and refuse of a graph, beyond what is undefined in it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bench_run.engines.hipdnn.dialect import graph_text
from bench_run.engines.hipdnn.loading import Library
from bench_run.engines.hipdnn.plan import Buffers
from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from tests.bench_run.hipdnn.conftest import STATES
from tests.conformance.graphs import FAMILIES, sdpa

ADD = FAMILIES["pointwise_add"]("float", "packed")
TYPES = ("io_data_type", "intermediate_data_type", "compute_data_type")


def test_the_plan_of_a_plugins_engine_has_its_name(open_engine, plugin):
    engine = open_engine(f"hipdnn@{plugin('build', engines=('HOUSE_ENGINE',))}")
    made = engine.plan(engine.build(ADD, {}))
    made.close()
    assert "HOUSE_ENGINE" == made.facts.chosen["plan"]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_type_is_left_unset(family):
    graph = FAMILIES[family]("float", "packed")
    bare = replace(graph, **dict.fromkeys(TYPES, "unset"))
    nodes = tuple(replace(node, compute_data_type="unset") for node in bare.nodes)
    data = json.loads(graph_text(replace(bare, nodes=nodes)))
    assert {"float"} == {data[key] for key in TYPES}
    assert "unset" not in {node["compute_data_type"] for node in data["nodes"]}


@pytest.mark.parametrize("profile", STATES)
def test_a_graph_that_says_no_types_is_taken_as_float(open_engine, profile):
    data = json.loads(write_graph(ADD))
    for key in TYPES:
        data.pop(key)
    engine = open_engine(profile=profile)
    native = engine.build(read_graph(json.dumps(data).encode(), "graph"), {}).native
    assert ["FLOAT"] * 3 == [getattr(native, f"get_{key}")().name for key in TYPES]


@pytest.mark.parametrize("profile", STATES)
def test_the_types_of_a_graph_are_set_before_it_is_read(open_engine, profile):
    graph = FAMILIES["matmul_2d"]("half", "packed")
    native = open_engine(profile=profile).build(graph, {}).native
    assert ("HALF", "FLOAT") == (
        native.get_io_data_type().name,
        native.get_compute_data_type().name,
    )


def test_newer_fields_of_attention_load_and_have_no_effect(open_engine):
    graph = sdpa("float", "packed", attn_scale_value=1.0)
    data = json.loads(write_graph(graph))
    place = data["nodes"][0].get("attributes", data["nodes"][0])
    place |= {"umd_flops": 12, "umd_bytes": 34}
    data["tensors"][0]["ragged_offset_multiplier"] = 1
    again = read_graph(json.dumps(data).encode(), "graph")
    assert open_engine().build(again, {}).selection.wanted is None


@pytest.mark.parametrize("profile", STATES)
def test_an_empty_tensor_is_never_copied(double, profile):
    tensors = tuple(replace(t, dims=(0, *t.dims[1:])) for t in ADD.tensors)
    empty = replace(ADD, tensors=tensors)
    buffers = Buffers(Library(double(profile), "test"), empty)
    buffers.upload({t.uid: np.zeros(0, np.float32) for t in empty.inputs})
    buffers.poison()
    assert {0} == {storage.size for storage in buffers.download().values()}
