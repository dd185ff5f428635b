"""A graph as DOT and as Mermaid: every part once, every name as text."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bench_run.graph.make import OPS, make_graphs
from bench_run.report.diagram import dot, mermaid

FORMS = {
    dot: (r"^  n(\d+) \[label=", r"^  n(\d+) -> n(\d+)$"),
    mermaid: (r'^  n(\d+)\["', r"^  n(\d+) --> n(\d+)$"),
}
"""Function → how a box and an edge look."""
EVIL = '"] --> n9\\" <script>'


def evil_graph():
    (graph,) = make_graphs("relu: n=1 c=1 h=2 w=2")
    tensor = dataclasses.replace(graph.tensors[0], name=EVIL)
    return dataclasses.replace(graph, name=EVIL, tensors=(tensor, *graph.tensors[1:]))


@pytest.mark.parametrize("draw", FORMS)
@pytest.mark.parametrize("name", [name for name in OPS if not OPS[name].only_after])
def test_every_node_and_tensor_is_a_box_and_every_use_an_edge(draw, name):
    (graph, *_) = make_graphs(name, "small")
    box, edge = (re.compile(pattern, re.MULTILINE) for pattern in FORMS[draw])
    uses = {
        (node.name, uid, port)
        for node in graph.nodes
        for port, ports in (("in", node.inputs), ("out", node.outputs))
        for uid in ports.values()
    }
    numbers = [int(number) for number in box.findall(draw(graph))]
    assert list(range(len(graph.nodes) + len(graph.tensors))) == numbers
    assert len(uses) == len(edge.findall(draw(graph)))


def test_an_edge_leads_from_an_input_to_its_operation_and_on_to_the_output():
    (graph,) = make_graphs("relu: n=1 c=1 h=2 w=2")
    assert ["  n1 --> n0", "  n0 --> n2"] == mermaid(graph).splitlines()[-2:]


def test_a_hostile_name_ends_no_label_of_mermaid():
    text = mermaid(evil_graph())
    assert 2 == len([line for line in text.splitlines() if "-->" in line])
    assert "<script" not in text


def test_a_hostile_name_ends_no_label_of_dot():
    labels = re.findall(r'label="((?:[^"\\]|\\.)*)", fillcolor', dot(evil_graph()))
    assert 3 == len(labels)
    assert sum("script" in label for label in labels) == 1


@pytest.mark.slow
def test_the_command_writes_each_form(bench_run_command, small_graph, tmp_path):
    for ending, begin in ((".dot", "digraph"), (".mmd", "flowchart")):
        done = bench_run_command("--describe", small_graph, "--diagram", f"drawing{ending}")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"drawing{ending}").read_text().startswith(begin)


@pytest.mark.long
def test_another_ending_is_refused_with_those_there_are(bench_run_command, small_graph):
    done = bench_run_command("--describe", small_graph, "--diagram", "drawing.png")
    assert (1, True) == (done.returncode, ".dot, .mmd" in done.stderr)
