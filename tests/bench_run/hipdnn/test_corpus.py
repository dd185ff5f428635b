"""Real graphs, of hipDNN's own tests and samples and of its users, are lowered on every state of
its bindings: read, written as they want it, deserialised, made an operation graph and planned.
Where that folder is not beside the repository nothing of it is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.format.hipdnn_json import read_graph
from bench_run.graph.scale import scaled

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "hipdnn" / "graphs"
NO_GRAPHS = (".template.", ".sweep.", ".meta.")
REFUSED = {
    "ckdsl_sliding_window_fp16_gqa8": r"causal_mask with left_bound: .*write the mask as bounds",
}
"""What is refused whatever the state."""
GRAPHS = [p for p in sorted(FOLDER.glob("*.json")) if not any(part in p.name for part in NO_GRAPHS)]
UNSCALED = ("sample_mha_sdpa", "sample_sdpa", "sample_sdpa_backward")


@pytest.fixture
def lower(open_engine):
    """Makes a graph's plans on a state whose engines take every operation unseen."""

    def build(path, profile="newest", meaning="rsqrt"):
        engine = open_engine(profile=profile, variables={"support": "declared"})
        graph = read_graph(path.read_bytes(), path.name)
        return engine.build(graph if meaning is None else scaled(graph, meaning)[0], {})

    return build


@pytest.mark.skipif(not GRAPHS, reason="the real graphs are not here")
def test_there_are_real_graphs():
    assert len(GRAPHS) > 30


@pytest.mark.parametrize(
    "profile",
    ["newest", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sweep", "dlpack"))],
)
@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_a_real_graph_is_lowered_or_refused_with_what_it_has(lower, path, profile):
    refusal = REFUSED.get(path.stem)
    if refusal is not None:
        with pytest.raises(UnsupportedGraphError, match=refusal):
            lower(path, profile)
        return
    assert lower(path, profile).graph.nodes


@pytest.mark.parametrize(
    "path", [path for path in GRAPHS if path.stem in UNSCALED], ids=lambda path: path.stem
)
def test_a_real_attention_graph_without_a_scale_is_refused(lower, path):
    with pytest.raises(UnsupportedGraphError, match="attn_scale_value is not set"):
        lower(path, meaning=None)
