"""Which inputs of a graph are weights: read in every pass, written in none.

By the ports of the nodes: filters, scales, biases and statistics, the second operand of a matrix
product that all batches share, and what is broadcast in a pointwise operation. A tensor that some
node reads as data is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.graph.chain.model import ChainGraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Graph, Node

_NORM = ("scale", "bias", "mean", "inv_variance", "variance")
PORTS: dict[str, tuple[str, ...]] = {
    "ConvolutionFwdAttributes": ("w",),
    "ConvolutionBwdAttributes": ("w",),
    "BatchnormInferenceAttributes": _NORM,
    "BatchnormInferenceAttributesVarianceExt": _NORM,
    "BatchnormAttributes": ("scale", "bias", "prev_running_mean", "prev_running_variance"),
    "BatchnormBackwardAttributes": ("scale",),
    "LayernormAttributes": ("scale", "bias"),
    "LayernormBackwardAttributes": ("scale",),
    "RMSNormAttributes": ("scale", "bias"),
    "RMSNormBackwardAttributes": ("scale",),
    "MoeGroupedMatmulAttributes": ("weight",),
}
"""Node type to the ports that take weights, where the type alone says it."""

_PASSES_ON = ("BlockScaleDequantizeAttributes",)
"""What makes weights of weights."""


def weights_of(graph: Graph) -> frozenset[int]:
    """Uids of the inputs that are weights."""
    if isinstance(graph, ChainGraph):
        return graph.weights
    weights: set[int] = set()
    data: set[int] = set()
    for node in reversed(graph.nodes):
        mine = set(_weights(graph, node))
        if node.type in _PASSES_ON and weights.issuperset(node.outputs.values()):
            mine = set(node.inputs.values())
        weights |= mine
        data |= {uid for uid in node.inputs.values() if uid not in mine}
    return frozenset(t.uid for t in graph.inputs if t.uid in weights - data)


def _weights(graph: Graph, node: Node) -> Iterator[int]:
    if node.type == "MatmulAttributes":
        b = graph.by_uid[node.inputs["b"]]
        if all(length == 1 for length in b.dims[:-2]):
            yield b.uid
    elif node.type == "PointwiseAttributes":
        whole = graph.by_uid[node.outputs["out_0"]].elements
        yield from (u for u in node.inputs.values() if graph.by_uid[u].elements < whole)
    else:
        yield from (node.inputs[p] for p in PORTS.get(node.type, ()) if p in node.inputs)
