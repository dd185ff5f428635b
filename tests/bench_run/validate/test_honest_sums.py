"""Honest float arithmetic in any order uses at most seven tenths of what elements may share."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate
from bench_run.tensors.difference import Bound, difference
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.tolerance import Circumstances, criteria, tolerances
from tests.bench_run.validate.honest_sums import STATISTICS, SUMS, F, matrix_unit

ROOM = 0.7
FAR = "uniform:1:1.06"
"""Values 60 standard deviations from 0: one pass over them loses 3,500 units of its variance, which
is not allowed for."""
INITS = ("", "uniform:0:1", FAR, "normal")


@cache
def problem(spec, init):
    from bench_run.tensors.seeded.init_plan import parse_init

    (graph,) = make_graphs(spec)
    plan = parse_init([init] if init else [])
    inputs = make_inputs(graph, 11, plan)
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    allowed = tolerances(graph, circumstances=Circumstances(inputs))
    (output,) = (t for t in graph.outputs if t.name in ("c", "y", "dx"))
    ports = {
        port: np.asarray(arrays[uid])
        for port, uid in graph.nodes[0].inputs.items()
        if uid in arrays
    }
    return ports, evaluate(graph, arrays)[output.uid], allowed[output.uid]


def used(found, expected, allowed):
    """Parts of the limits by name; of a single element all of it is its own."""
    actual, wanted = (np.asarray(x, np.float64).ravel() for x in (found, expected))
    single = np.abs(actual - wanted) / (allowed.atol + allowed.rtol * np.abs(wanted))
    whole = difference(actual, wanted, Bound(0.0, np.inf), 0)
    parts = {word: e / limit for word, e, limit in criteria(whole, allowed.shared, wanted)}
    return {**parts, "element": ROOM * float(single.max())}


def over(parts):
    return {word: round(part, 2) for word, part in parts.items() if part > ROOM}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("k", [64, 1024])
@pytest.mark.parametrize("way", SUMS)
def test_matrix_products(way, k, init):
    ports, expected, allowed = problem(f"matmul: m=48 n=48 k={k}", init)
    a, b = ports["a"].T.astype(np.float64), ports["b"].astype(np.float64)
    terms = a[:, :, None] * b[:, None, :]
    assert over(used(SUMS[way](terms), expected, allowed)) == {}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("k", [64, 1024])
def test_matrix_units(k, init):
    ports, expected, allowed = problem(f"matmul: m=48 n=48 k={k} dtype=half", init)
    a, b = ports["a"].T.astype(np.float64), ports["b"].astype(np.float64)
    found = matrix_unit(a[:, :, None] * b[:, None, :]).astype(np.float16)
    assert over(used(found, expected, allowed)) == {}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("way", SUMS)
def test_reductions(way, init):
    ports, expected, allowed = problem("reduce_add: dims=256x2048 axes=1", init)
    assert over(used(SUMS[way](ports["in"].T), expected, allowed)) == {}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("way", ["one by one", "blocks of 32", "pairwise"])
@pytest.mark.parametrize("rows", [16, 512])
def test_layer_norms(rows, way, statistic, init):
    named = f"x={init}" if init else ""
    ports, expected, allowed = problem(f"layernorm: dims={rows}x512", named)
    x, scale, bias = (ports[name].reshape(-1, 512).T.astype(F) for name in ("x", "scale", "bias"))
    if (statistic, init) == ("one pass", FAR):
        return
    mean, variance = STATISTICS[statistic](x, SUMS[way])
    inverse = F(1) / np.sqrt(variance + F(1e-5))
    found = ((x - mean) * inverse * scale + bias).T
    assert over(used(found, expected, allowed)) == {}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("way", ["one by one", "eight lanes", "pairwise"])
def test_batch_norms(way, statistic, init):
    named = f"x={init}" if init else ""
    ports, expected, allowed = problem("batchnorm_training: n=8 c=32 h=16 w=16", named)
    x = np.moveaxis(ports["x"], 1, -1).reshape(-1, 32)
    scale, bias = (ports[name].reshape(32) for name in ("scale", "bias"))
    if (statistic, init) == ("one pass", FAR):
        return
    mean, variance = STATISTICS[statistic](x, SUMS[way])
    gain = scale / np.sqrt(variance + F(1e-5))
    found = x * gain + (bias - mean * gain)
    found = np.moveaxis(found.reshape(8, 16, 16, 32), -1, 1)
    assert over(used(found, expected, allowed)) == {}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("way", ["one by one", "eight lanes", "pairwise"])
def test_rms_norms(way, init):
    named = f"x={init}" if init else ""
    ports, expected, allowed = problem("rmsnorm: dims=128x1024", named)
    x, scale = (ports[name].reshape(-1, 1024).T.astype(F) for name in ("x", "scale"))
    inverse = F(1) / np.sqrt(SUMS[way](x * x) / F(1024) + F(1e-5))
    assert over(used((x * inverse * scale).T, expected, allowed)) == {}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("way", ["one by one", "eight lanes", "pairwise"])
def test_gradients_of_layer_norms(way, init):
    named = f"dy={init}" if init else ""
    ports, expected, allowed = problem("layernorm_bwd: dims=128x512", named)
    dy, x = (ports[name].reshape(-1, 512).T.astype(F) for name in ("dy", "x"))
    scale = ports["scale"].reshape(512, 1).astype(F)
    mean, inverse = (ports[name].reshape(-1).astype(F) for name in ("mean", "inv_variance"))
    normal, weighted = (x - mean) * inverse, dy * scale
    sums = (SUMS[way](term) / F(512) for term in (weighted, weighted * normal))
    first, second = sums
    found = inverse * (weighted - (first + normal * second))
    assert over(used(found.T, expected, allowed)) == {}
