"""A graph in the operations that cuDNN has: a graph again, of the same meaning.

Batch-norm inference, whose own node builds nowhere, becomes element-wise operations; a mean
becomes a multiplication and a sum; a sum of magnitudes an absolute value and a sum. What nothing
can be made of is refused with the node's name and the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.library import DATA_TYPES
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.model import Graph, Node, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

POINTWISE = "PointwiseAttributes"
REDUCTION = "ReductionAttributes"

NO_NODE: Mapping[str, str] = {
    "ResampleFwdAttributes": "cuDNN's frontend has no pooling node",
    "ResampleBwdAttributes": "cuDNN's frontend has no pooling node",
    "BlockScaleQuantizeAttributes": "block scaling needs compute capability 10.0",
    "BlockScaleDequantizeAttributes": "block scaling needs compute capability 10.0",
    "MoeGroupedMatmulAttributes": "grouped products (of cuDNN 9.22 and later) are not lowered",
    "MoeGroupedMatmulBwdAttributes": "grouped products (of cuDNN 9.22 and later) are not lowered",
    "CustomOpAttributes": "only the plugin that defines a custom node can run it",
}


def refuse(node: Node, why: str) -> UnsupportedGraphError:
    return UnsupportedGraphError(f"cudnn: {node.label}: {why}")


@dataclass
class Draft:
    """The graph under construction."""

    graph: Graph
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def _uid(self) -> int:
        return 1 + max(t.uid for t in (*self.graph.tensors, *self.tensors))

    def virtual(self, like: Tensor, data_type: str) -> int:
        """Add a tensor between two nodes, of the dims of `like`; return its uid."""
        made = replace(
            like,
            uid=self._uid(),
            name="",
            data_type=data_type,
            virtual=True,
            value=None,
            runtime_scalar=False,
        )
        self.tensors.append(made)
        return made.uid

    def constant(self, value: float) -> int:
        made = Tensor(self._uid(), "", "float", (1,), (1,), value=value)
        self.tensors.append(made)
        return made.uid

    def pointwise(self, node: Node, mode: str, operands: tuple[int, ...], out: int) -> None:
        """Add an element-wise operation for `node`, whose name it gets."""
        ports = {f"in_{i}": uid for i, uid in enumerate(operands)}
        attributes = {"operation": mode}
        name = f"{node.name}.{mode}" if node.name else mode
        made = Node(POINTWISE, name, node.compute_data_type, ports, {"out_0": out}, attributes)
        self.nodes.append(made)


def rewrite(graph: Graph) -> Graph:
    """Return the same graph without nodes that cuDNN does not build."""
    draft = Draft(graph)
    for node in graph.nodes:
        if node.type in NO_NODE:
            raise refuse(node, NO_NODE[node.type])
        silent_errors(graph, node)
        RULES.get(node.type, _keep)(draft, node)
    return replace(graph, tensors=(*graph.tensors, *draft.tensors), nodes=tuple(draft.nodes))


def silent_errors(graph: Graph, node: Node) -> None:
    """Refuse nodes that cuDNN (9.19, frontend 1.23) accepts and computes wrongly."""
    uids = (*node.inputs.values(), *node.outputs.values())
    for tensor in (graph.by_uid[uid] for uid in uids):
        if tensor.data_type not in DATA_TYPES:
            raise refuse(node, f"tensor {tensor.uid} is {tensor.data_type}, a type cuDNN lacks")
        if tensor.data_type == "boolean" and not tensor.virtual:
            raise refuse(node, "truth values in memory come out wrong with cuDNN")
    if node.type.startswith("Convolution") and node.compute_data_type in ("double", "int32"):
        kind = node.compute_data_type
        raise refuse(node, f"convolutions that compute in {kind} come out wrong with cuDNN")
    if node.type == POINTWISE and _rounds_to_integer(graph, node):
        raise refuse(node, "cuDNN rounds to integers to the nearest, graphs cut off")


def _rounds_to_integer(graph: Graph, node: Node) -> bool:
    made = (graph.by_uid[uid].data_type for uid in node.outputs.values())
    read = (graph.by_uid[uid].data_type for uid in node.inputs.values())
    return any(DTYPES[kind].kind == "integer" for kind in made) and any(
        DTYPES[kind].kind == "float" for kind in read
    )


def _keep(draft: Draft, node: Node) -> None:
    draft.nodes.append(node)


def _chain(draft: Draft, node: Node, x: int, steps: tuple[tuple[str, int], ...], y: int) -> None:
    """Add operations with one further operand each from x into y."""
    shape = draft.graph.by_uid[y]
    for index, (mode, operand) in enumerate(steps):
        last = index == len(steps) - 1
        out = y if last else draft.virtual(shape, node.compute_data_type)
        draft.pointwise(node, mode, (x, operand), out)
        x = out


def batchnorm_inference(draft: Draft, node: Node) -> None:
    """y = (x - mean)·inv_variance·scale + bias"""
    names = (("sub", "mean"), ("mul", "inv_variance"), ("mul", "scale"), ("add", "bias"))
    steps = tuple((mode, node.inputs[port]) for mode, port in names)
    _chain(draft, node, node.inputs["x"], steps, node.outputs["y"])


def batchnorm_inference_variance(draft: Draft, node: Node) -> None:
    """y = (x - mean)·1/sqrt(variance + epsilon)·scale + bias

    The root is taken of x - x + variance + epsilon, for every element: of one value per row cuDNN
    makes wrong results when it spreads them afterwards.
    """
    x = draft.graph.by_uid[node.inputs["x"]]
    nothing, whole, shifted, inverse = (draft.virtual(x, node.compute_data_type) for _ in range(4))
    draft.pointwise(node, "sub", (x.uid, x.uid), nothing)
    draft.pointwise(node, "add", (nothing, node.inputs["variance"]), whole)
    draft.pointwise(node, "add", (whole, node.inputs["epsilon"]), shifted)
    draft.pointwise(node, "rsqrt", (shifted,), inverse)
    steps = (
        ("sub", node.inputs["mean"]),
        ("mul", inverse),
        ("mul", node.inputs["scale"]),
        ("add", node.inputs["bias"]),
    )
    _chain(draft, node, node.inputs["x"], steps, node.outputs["y"])


def reduction(draft: Draft, node: Node) -> None:
    mode = node.attributes["mode"]
    source = draft.graph.by_uid[node.inputs["in"]]
    result = draft.graph.by_uid[node.outputs["out"]]
    if mode not in ("avg", "norm1"):
        _keep(draft, node)
        return
    before = draft.virtual(source, node.compute_data_type)
    if mode == "avg":
        share = draft.constant(result.elements / source.elements)
        draft.pointwise(node, "mul", (source.uid, share), before)
    else:
        draft.pointwise(node, "abs", (source.uid,), before)
    attributes: dict[str, Any] = {**node.attributes, "mode": "add"}
    draft.nodes.append(replace(node, inputs={"in": before}, attributes=attributes))


FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
"""Ports of the factors of 8-bit attention."""
WEIGHTS = 256.0
"""Weights of attention, which are at most 1, times this use the range of an 8-bit type."""


def attention(draft: Draft, node: Node) -> None:
    """cuDNN wants every factor of 8-bit attention: those that the graph leaves out change nothing.

    cuDNN holds the weights in 8 bits between its products, where the graph says nothing of it.
    """
    if not any(port in node.inputs for port in FACTORS):
        _keep(draft, node)
        return
    weights = {"descale_s", "scale_s"}
    own = {"scale_s": WEIGHTS, "descale_s": 1 / WEIGHTS}
    values = dict.fromkeys(FACTORS, 1.0) | (own if not weights & node.inputs.keys() else {})
    added = {port: draft.constant(values[port]) for port in FACTORS if port not in node.inputs}
    draft.nodes.append(replace(node, inputs={**node.inputs, **added}))


RULES: Mapping[str, Callable[[Draft, Node], None]] = {
    "BatchnormInferenceAttributes": batchnorm_inference,
    "BatchnormInferenceAttributesVarianceExt": batchnorm_inference_variance,
    REDUCTION: reduction,
    "SdpaAttributes": attention,
}
