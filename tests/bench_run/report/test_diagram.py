"""A graph as a drawing: whole XML, every part once, nothing on top of another."""

from __future__ import annotations

import dataclasses
import itertools
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.graph.make import OPS, make_graphs
from bench_run.report.diagram import arrange, diagram, isotonic, page

SVG = "{http://www.w3.org/2000/svg}"
SPECS = ("conv_fwd+bias+relu", "batchnorm_bwd_relu", "mx_matmul", "sdpa_bwd", "relu+relu+relu")


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    rects = ElementTree.fromstring(text).iter(f"{SVG}rect")
    keys = ("x", "y", "width", "height")
    return [tuple(float(rect.get(key, "nan")) for key in keys) for rect in rects]  # type: ignore[misc]


@pytest.mark.parametrize("name", [name for name in OPS if not OPS[name].only_after])
def test_every_operation_draws_a_box_for_each_node_and_tensor(name: str) -> None:
    (graph, *_) = make_graphs(name, "small")
    assert len(boxes(diagram(graph))) == len(graph.nodes) + len(graph.tensors)


@pytest.mark.parametrize("spec", SPECS)
def test_no_two_boxes_overlap(spec: str) -> None:
    found = boxes(diagram(make_graphs(spec, "small")[0]))
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.combinations(found, 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay


@pytest.mark.parametrize("spec", SPECS)
def test_everything_lies_inside_of_the_frame(spec: str) -> None:
    text = diagram(make_graphs(spec, "small")[0])
    root = ElementTree.fromstring(text)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert all(
        x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes(text)
    )


def test_names_are_escaped() -> None:
    (graph,) = make_graphs("relu: n=1 c=1 h=2 w=2")
    evil = "</text><script>alert(1)</script>&"
    tensor = dataclasses.replace(graph.tensors[0], name=evil)
    named = dataclasses.replace(graph, name=evil, tensors=(tensor, graph.tensors[1]))
    assert ("<script" in diagram(named), "<script" in page(named)) == (False, False)


def test_a_name_with_control_characters_is_still_xml() -> None:
    (graph,) = make_graphs("relu: n=1 c=1 h=2 w=2")
    named = dataclasses.replace(graph, name="a\x00\x08\nb")
    assert ElementTree.fromstring(diagram(named)).tag == f"{SVG}svg"


def test_a_page_holds_the_drawing_and_the_words() -> None:
    text = page(make_graphs("relu: n=1 c=1 h=2 w=2")[0])
    assert ("<svg" in text, "1. relu_fwd: x -&gt; y" in text) == (True, True)


def test_the_same_graph_draws_the_same_bytes() -> None:
    (graph,) = make_graphs("mx_matmul", "small")
    assert diagram(graph) == diagram(graph)


def test_edges_run_downwards() -> None:
    picture = arrange([(20, 10)] * 4, [(0, 1), (1, 2), (0, 3), (3, 2), (0, 2)])
    assert all(a[1] <= b[1] for route in picture.routes for a, b in itertools.pairwise(route))


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20))
def test_pooled_values_rise_and_keep_their_mean(values: list[float]) -> None:
    pooled = isotonic(values)
    assert all(a <= b for a, b in itertools.pairwise(pooled))
    assert sum(pooled) == pytest.approx(sum(values), abs=1e-6)


@given(st.integers(2, 12), st.data())
def test_boxes_of_any_acyclic_graph_do_not_overlap(count: int, data: st.DataObject) -> None:
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    picture = arrange([(30, 10)] * count, edges)
    for (ax, ay), (bx, by) in itertools.combinations(picture.centres, 2):
        assert abs(ax - bx) >= 30 - 1e-6 or abs(ay - by) >= 10 - 1e-6
