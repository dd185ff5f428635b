"""Attention on a processor goes by blocks: with any block size its results stay within round-off of
the reference, and its memory does not grow with the heads."""

from __future__ import annotations

import subprocess
import sys
from math import prod

import numpy as np
import pytest

from tests.support import examples

pytest.importorskip("torch")
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.engines.torch_engine import attention
from tests.conformance.data import case, misses
from tests.conformance.graphs import FAMILIES
from tests.conformance.opening import opened, outputs

ATTENTION = [name for name in FAMILIES if name.startswith("sdpa")]
PROCESSOR = torch.device("cpu")


@pytest.mark.parametrize("scores", [1, 20, 110])
@pytest.mark.parametrize("family", ATTENTION)
def test_blocks_agree_with_the_reference(family, scores, monkeypatch):
    """20: some rows of a head; 110: some heads of a sequence."""
    monkeypatch.setattr(attention, "BLOCK_SCORES", scores)
    monkeypatch.setattr(attention, "MASK_SCORES", scores)
    with opened("torch:cpu") as engine:
        for dtype, layout in (("float", "packed"), ("half", "last"), ("float", "gaps")):
            graph, inputs, expected = case(family, dtype, layout)
            assert [] == misses(graph, outputs(engine, graph, inputs), expected)


@given(st.tuples(*[st.integers(1, 7)] * 4), st.integers(1, 400))
@settings(max_examples=examples(50), deadline=None)
def test_blocks_cover_each_score_once_and_stay_small(dims, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK_SCORES", most)
        blocks = attention.blocks_of(dims, PROCESSOR)
    count = np.zeros(dims, int)
    for block in blocks:
        count[block.batch, block.heads, block.rows] += 1
        part = count[block.batch, block.heads, block.rows]
        assert prod(part.shape) <= max(most, dims[3])
    assert (count == 1).all()


def test_a_device_computes_all_scores_at_once():
    dims = (1, 32, 8192, 8192)
    assert attention.WHOLE == attention.blocks_of(dims, torch.device("meta"))
    assert attention.WHOLE != attention.blocks_of(dims, PROCESSOR)


PROGRAM = """
import sys
from bench_run.graph.make.spec import make_graphs
from bench_run.measure.memory import ProcessPeak
from bench_run.tensors.layout import empty_storage
from tests.conformance.opening import opened
with opened("torch:cpu") as engine:
    for spec in sys.argv[1:]:
        (graph,) = make_graphs(spec, "common")
        plan = engine.plan(engine.build(graph, {}))
        plan.upload({tensor.uid: empty_storage(tensor) for tensor in graph.inputs})
        peak = ProcessPeak()
        plan.run()
        print(peak.taken_bytes())
        plan.close()
"""
LARGE = "b=1 h={} s=2048 d=32"
WAYS = (
    "sdpa_fwd: {} dv=16",
    "sdpa_fwd: {} stats=true",
    "sdpa_fwd: {} lengths=true",
    "sdpa_bwd: {}",
)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells peaks on Linux only")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_scores(root):
    """16 MiB of scores a head: 512 MiB in all, held two to five times as a whole."""
    specs = [way.format(LARGE.format(32)) for way in WAYS]
    command = [sys.executable, "-c", PROGRAM, *specs]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    peaks = [int(line) for line in done.stdout.split()]
    assert len(WAYS) == len(peaks)
    assert max(peaks) < 384 * 2**20
