"""A graph in the operations that cuDNN has: a graph again, of the same meaning.

Batch-norm inference, whose own node builds nowhere, becomes element-wise operations; a mean
becomes a multiplication and a sum; a sum of magnitudes an absolute value and a sum. What nothing
can be made of is refused with the node's name and the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench_run.errors import UnsupportedGraphError
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
    "MoeGroupedMatmulAttributes": "grouped products need a cuDNN of 9.22 or later",
    "MoeGroupedMatmulBwdAttributes": "grouped products need a cuDNN of 9.22 or later",
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
        """A tensor between two nodes, of the dims of `like`."""
        made = replace(
            like, uid=self._uid(), name="", data_type=data_type, virtual=True, value=None,
            runtime_scalar=False,
        )  # fmt: skip
        self.tensors.append(made)
        return made.uid

    def constant(self, value: float) -> int:
        made = Tensor(self._uid(), "", "float", (1,), (1,), value=value)
        self.tensors.append(made)
        return made.uid

    def pointwise(self, node: Node, mode: str, operands: tuple[int, ...], out: int) -> None:
        """An element-wise operation on behalf of `node`, whose name it bears."""
        ports = {f"in_{i}": uid for i, uid in enumerate(operands)}
        attributes = {"operation": mode}
        name = f"{node.name}.{mode}" if node.name else mode
        made = Node(POINTWISE, name, node.compute_data_type, ports, {"out_0": out}, attributes)
        self.nodes.append(made)


def rewrite(graph: Graph) -> Graph:
    """The same graph without nodes that cuDNN does not build."""
    draft = Draft(graph)
    for node in graph.nodes:
        if node.type in NO_NODE:
            raise refuse(node, NO_NODE[node.type])
        RULES.get(node.type, _keep)(draft, node)
    return replace(graph, tensors=(*graph.tensors, *draft.tensors), nodes=tuple(draft.nodes))


def _keep(draft: Draft, node: Node) -> None:
    draft.nodes.append(node)


def _chain(draft: Draft, node: Node, x: int, steps: tuple[tuple[str, int], ...], y: int) -> None:
    """x through operations with one further operand each, into y."""
    shape = draft.graph.by_uid[y]
    for index, (mode, operand) in enumerate(steps):
        last = index == len(steps) - 1
        out = y if last else draft.virtual(shape, node.compute_data_type)
        draft.pointwise(node, mode, (x, operand), out)
        x = out


def _batchnorm_inference(draft: Draft, node: Node) -> None:
    """y = (x - mean)·inv_variance·scale + bias"""
    names = (("sub", "mean"), ("mul", "inv_variance"), ("mul", "scale"), ("add", "bias"))
    steps = tuple((mode, node.inputs[port]) for mode, port in names)
    _chain(draft, node, node.inputs["x"], steps, node.outputs["y"])


def _batchnorm_inference_variance(draft: Draft, node: Node) -> None:
    """y = (x - mean)·1/sqrt(variance + epsilon)·scale + bias; the root is taken per channel."""
    variance = draft.graph.by_uid[node.inputs["variance"]]
    kind = node.compute_data_type
    shifted, inverse = draft.virtual(variance, kind), draft.virtual(variance, kind)
    draft.pointwise(node, "add", (variance.uid, node.inputs["epsilon"]), shifted)
    draft.pointwise(node, "rsqrt", (shifted,), inverse)
    steps = (
        ("sub", node.inputs["mean"]),
        ("mul", inverse),
        ("mul", node.inputs["scale"]),
        ("add", node.inputs["bias"]),
    )
    _chain(draft, node, node.inputs["x"], steps, node.outputs["y"])


def _reduction(draft: Draft, node: Node) -> None:
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


RULES: Mapping[str, Callable[[Draft, Node], None]] = {
    "BatchnormInferenceAttributes": _batchnorm_inference,
    "BatchnormInferenceAttributesVarianceExt": _batchnorm_inference_variance,
    REDUCTION: _reduction,
}
