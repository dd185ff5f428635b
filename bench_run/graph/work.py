"""Work of a graph: operations, bytes, and its name in tables.

Bytes: every tensor in memory that a node reads or writes counts once with its elements, gaps left
out, as an ideal implementation would move it. Virtual tensors and constants count nothing. Flops:
the sum over the nodes, by the conventions that each operation's module states; a node whose flops
are not known makes the sum unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.document import Work

from bench_run.graph.operations import OPERATIONS, node_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench_run.graph.model import Graph, Node


def work(graph: Graph) -> Work:
    moved, operations = moved_bytes(graph), flops(graph)
    intensity = None if operations is None or moved == 0 else operations / moved
    return Work(operations, moved, intensity)


def total_work(graphs: Iterable[Graph]) -> Work:
    """Return the work of graphs that run one after another, each reading and writing memory."""
    works = [work(graph) for graph in graphs]
    moved = sum(each.moved_bytes or 0 for each in works)
    known = [each.flops for each in works if each.flops is not None]
    operations = sum(known) if len(known) == len(works) else None
    return Work(operations, moved, None if operations is None or not moved else operations / moved)


def flops(graph: Graph) -> int | None:
    total = 0
    for index in range(len(graph.nodes)):
        seen = node_view(graph, index)
        count = seen.operation.flops(seen)
        if count is None:
            return None
        total += count
    return total


def moved_bytes(graph: Graph) -> int:
    own = [node.custom.moved_bytes for node in graph.nodes if node.custom is not None]
    if len(own) == len(graph.nodes) == 1 and own[0] is not None:
        return own[0]
    touched = graph.produced | graph.consumed
    return sum(
        tensor.bytes
        for tensor in graph.tensors
        if tensor.uid in touched and not tensor.virtual and tensor.value is None
    )


def family(graph: Graph) -> str:
    """Return the names of the operations in order, joined by a plus sign:
    ``conv_fwd+bias+relu``."""
    return "+".join(_word(graph, node) for node in graph.nodes)


def _word(graph: Graph, node: Node) -> str:
    row = OPERATIONS[node.type]
    if node.custom is not None:
        return str(node.attributes["custom_op_id"]).removeprefix("bench_run.")
    if row.name != "pointwise":
        return row.name
    return "bias" if _is_bias(graph, node) else _mode(node).removesuffix("_fwd")


def _mode(node: Node) -> str:
    mode: str = node.attributes["operation"]
    return mode


def _is_bias(graph: Graph, node: Node) -> bool:
    """Return True if the node adds a vector, spread over the rest, to the result of an earlier
    node."""
    if _mode(node) != "add":
        return False
    operands = set(node.inputs.values())
    given = [graph.by_uid[uid] for uid in operands - graph.produced]
    if len(given) != 1 or len(operands) != 2:
        return False
    elements = graph.by_uid[node.outputs["out_0"]].elements
    is_vector = sum(length > 1 for length in given[0].dims) <= 1
    return is_vector and given[0].elements < elements


def main_data_type(graph: Graph) -> str:
    """Return the type of the first node's main operand."""
    node = graph.nodes[0]
    first = OPERATIONS[node.type].inputs[0]
    uid = node.inputs.get(f"{first.name}_0" if first.numbered else first.name)
    return graph.io_data_type if uid is None else graph.by_uid[uid].data_type
