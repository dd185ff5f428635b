"""Kernels that keep to honest arithmetic have room left; wrong ones are found."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate
from bench_run.tensors.difference import Bound, difference
from bench_run.tensors.layout import logical_view, to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.outputs import compare
from bench_run.validate.tolerance import Circumstances, criteria, tolerances
from tests.bench_run.validate.attention_kernels import HONEST, WRONG, attention

ROOM = 0.7
MASKS = ("none", "causal")


@cache
def problem(data_type, mask):
    spec = f"sdpa: b=2 h=2 s=256 d=64 dtype={data_type} mask={mask}"
    (graph,) = make_graphs(spec)
    inputs = make_inputs(graph, 7)
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    (output,) = graph.outputs
    allowed = tolerances(graph, circumstances=Circumstances(inputs))[output.uid]
    ports = graph.nodes[0].inputs
    operands = [np.asarray(arrays[ports[port]], np.float32) for port in ("q", "k", "v")]
    return output, evaluate(graph, arrays)[output.uid], allowed, operands


def result(data_type, mask, way):
    output, expected, allowed, operands = problem(data_type, mask)
    return output, expected, allowed, attention(*operands, data_type, way, mask == "causal")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("data_type", ["float", "half", "bfloat16"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_use_at_most_seven_tenths_of_every_limit(name, data_type, mask):
    _, expected, allowed, found = result(data_type, mask, HONEST[name])
    actual, wanted = (np.asarray(x, np.float64).ravel() for x in (found, expected))
    single = np.abs(actual - wanted) / (allowed.atol + allowed.rtol * np.abs(wanted))
    whole = difference(actual, wanted, Bound(0.0, np.inf), 0)
    parts = {word: e / limit for word, e, limit in criteria(whole, allowed.shared, wanted)}
    parts["element"] = float(single.max())
    assert {} == {word: part for word, part in parts.items() if part > ROOM}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("data_type", ["half", "bfloat16"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_are_found(name, data_type, mask):
    output, expected, allowed, found = result(data_type, mask, WRONG[name])
    wrong = to_storage(found, output)
    assert compare(wrong, expected, output, allowed).mismatched > 0
