"""Inputs of backward nodes that are results of a forward pass: statistics, attention outputs.

Drawn at random they would make a backward pass meaningless (attention overflows), so the forward
node of the same operation is evaluated by the float64 reference on the inputs already made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench_run.graph.model import Graph, Node, Tensor
from bench_run.tensors.layout import logical_view, to_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.tensors.layout import Storage, Storages

DERIVED_HINTS = frozenset(
    ("batch_mean", "batch_inv_variance", "inv_rms", "attention_output", "attention_stats")
)


@dataclass(frozen=True)
class Forward:
    """Recomputation of a backward node's forward results."""

    type: str
    shared: tuple[str, ...]
    """Ports that both have; those that are absent are left out."""
    results: tuple[str, ...]
    """Outputs of the forward node that are inputs of the backward one, under the same names."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """Ports of the forward node that the backward one may lack, shaped like `like`."""
    like: str = "scale"
    attributes: Mapping[str, Any] = field(default_factory=dict)


_EPSILON = 1e-5
FORWARDS: dict[str, Forward] = {
    "BatchnormBackwardAttributes": Forward(
        "BatchnormAttributes",
        ("x", "scale"),
        ("mean", "inv_variance"),
        {"bias": 0.0, "epsilon": _EPSILON},
    ),
    "LayernormBackwardAttributes": Forward(
        "LayernormAttributes",
        ("x", "scale", "epsilon"),
        ("mean", "inv_variance"),
        {"bias": 0.0, "epsilon": _EPSILON},
        attributes={"forward_phase": "training"},
    ),
    "RMSNormBackwardAttributes": Forward(
        "RMSNormAttributes",
        ("x", "scale"),
        ("inv_rms",),
        {"epsilon": _EPSILON},
        attributes={"forward_phase": "training"},
    ),
    "SdpaBackwardAttributes": Forward(
        "SdpaAttributes",
        ("q", "k", "v", "attn_mask", "scale", "seq_len_q", "seq_len_kv"),
        ("o", "stats"),
        attributes={"generate_stats": True},
    ),
}


def derive(graph: Graph, node: Node, made: Storages) -> dict[int, Storage]:
    """Return the storages of all results of `node`'s forward pass that are its inputs, by uid."""
    row = FORWARDS[node.type]
    shared = {port: node.inputs[port] for port in row.shared if port in node.inputs}
    constants: dict[str, Tensor] = {}
    next_uid = 1 + max(tensor.uid for tensor in graph.tensors)
    for uid, (port, value) in enumerate(row.constants.items(), next_uid):
        if port not in shared:
            like = graph.by_uid[node.inputs[row.like]]
            dims = (1,) * len(like.dims) if port == "epsilon" else like.dims
            constants[port] = Tensor(uid, port, "double", dims, (1,) * len(dims), value=value)
    results = {port: node.inputs[port] for port in row.results if port in node.inputs}
    forward = replace(
        node,
        type=row.type,
        inputs=shared | {port: tensor.uid for port, tensor in constants.items()},
        outputs=results,
        attributes={**node.attributes, **row.attributes},
    )
    # The nodes that the shared operands come from, and the forward node behind them.
    nodes, wanted = [forward], set(shared.values())
    for earlier in reversed(graph.nodes):
        if not wanted.isdisjoint(earlier.outputs.values()):
            nodes.insert(0, earlier)
            wanted |= set(earlier.inputs.values())
    stored = set(results.values())
    tensors = [t if t.uid in stored else replace(t, virtual=True) for t in graph.tensors]
    whole = replace(graph, tensors=(*tensors, *constants.values()), nodes=tuple(nodes))
    given = {tensor.uid: logical_view(made[tensor.uid], tensor) for tensor in whole.inputs}
    from bench_run.reference import evaluate  # few graphs have such inputs

    answers = evaluate(whole, given)
    return {tensor.uid: to_storage(answers[tensor.uid], tensor) for tensor in whole.outputs}
