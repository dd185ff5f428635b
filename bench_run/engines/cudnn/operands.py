"""What lowering a node needs: its operands by port, its parameters, the compute type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.rewrite import refuse
from bench_run.engines.cudnn.tables import DATA_TYPES
from bench_run.errors import UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.cudnn.views import TensorView
    from bench_run.graph.model import Graph, Node

HOST_PORTS = frozenset(("epsilon", "momentum"))
"""Ports whose scalar cuDNN reads on the host."""
EXPLICIT = frozenset(
    ("ConvolutionBwdAttributes", "ConvolutionWrwAttributes", "ReductionAttributes",
     "SdpaAttributes", "SdpaBackwardAttributes")
)  # fmt: skip
"""Nodes whose results cuDNN cannot deduce the dims of."""


def host_scalars(graph: Graph) -> frozenset[int]:
    """Uids of tensors that are handed over by value, from host memory."""
    by_port = {
        uid for node in graph.nodes for port, uid in node.inputs.items() if port in HOST_PORTS
    }
    scales = {
        node.inputs["scale"] for node in graph.nodes
        if node.type.startswith("Sdpa") and "scale" in node.inputs
    }  # fmt: skip
    marked = {t.uid for t in graph.tensors if t.runtime_scalar or t.value is not None}
    return frozenset(by_port | scales | marked)


class Operands:
    """The tensors of one `pygraph`. Uids in it are the graph's, numbered from 1: `numbers`."""

    def __init__(self, cudnn: Any, pygraph: Any, graph: Graph, views: Mapping[int, TensorView]):
        self.cudnn, self.pygraph, self.graph, self.views = cudnn, pygraph, graph, views
        self.numbers = {tensor.uid: i for i, tensor in enumerate(graph.tensors, start=1)}
        self._host = host_scalars(graph)
        self._made: dict[int, Any] = {}

    def data_type(self, name: str) -> Any:
        if name not in DATA_TYPES:
            raise UnsupportedGraphError(f"cudnn: there is no data type {name} in cuDNN")
        return getattr(self.cudnn.data_type, DATA_TYPES[name])

    def tensor(self, uid: int) -> Any:
        """The tensor as an operand, described to cuDNN when it is first met."""
        if uid not in self._made:
            tensor, view = self.graph.by_uid[uid], self.views[uid]
            self._made[uid] = self.pygraph.tensor(
                uid=self.numbers[uid],
                name=f"t{uid}",
                dim=list(view.dims),
                stride=list(view.strides),
                data_type=self.data_type(tensor.data_type),
                is_pass_by_value=uid in self._host,
            )
        return self._made[uid]

    def give(self, node: Node, uid: int, result: Any) -> None:
        tensor, view = self.graph.by_uid[uid], self.views[uid]
        result.set_uid(self.numbers[uid]).set_name(f"t{uid}")
        result.set_data_type(self.data_type(tensor.data_type))
        if not tensor.virtual or node.type in EXPLICIT:
            result.set_dim(list(view.dims)).set_stride(list(view.strides))
        result.set_output(not tensor.virtual)
        self._made[uid] = result


class Call:
    """One node, as a row's function sees it."""

    def __init__(self, operands: Operands, node: Node) -> None:
        self.node, self._operands = node, operands
        self.cudnn, self.graph = operands.cudnn, operands.graph
        compute = operands.data_type(node.compute_data_type)
        self._common = {"name": node.name or node.type, "compute_data_type": compute}

    def has(self, port: str) -> bool:
        return port in self.node.inputs or port in self.node.outputs

    def operand(self, port: str) -> Any:
        """The tensor at `port`; None for an unused one."""
        uid = self.node.inputs.get(port)
        return None if uid is None else self._operands.tensor(uid)

    def tensor_of(self, port: str) -> Any:
        """What the graph says of the tensor at `port`, input or output."""
        return self.graph.by_uid[{**self.node.inputs, **self.node.outputs}[port]]

    def attribute(self, name: str) -> Any:
        return self.node.attributes.get(name)

    def need(self, *ports: str) -> None:
        for port in ports:
            if not self.has(port):
                raise refuse(self.node, f"cuDNN needs {port}, which this node leaves out")

    def make(self, method: str, **arguments: Any) -> Any:
        return getattr(self._operands.pygraph, method)(**arguments, **self._common)
