"""Memory for computing a graph node by node, besides its inputs and outputs.

An engine or a reference gives the figure for each type of node; virtual tensors are counted here.
Figures were measured as peaks of processes (`tests/benchmarks/memory_estimate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bench_run.graph.model import Graph, Node, Tensor


@dataclass(frozen=True)
class Scratch:
    """Temporary memory of a node, as multiples of its tensors' elements in the type of the
    computation."""

    inputs: float = 0.0
    """Multiple of all inputs."""
    outputs: float = 0.0
    fixed_bytes: int = 0
    """Blocks and tiles, however large the tensors are."""


NodeBytes: TypeAlias = "Callable[[Graph, Node], float]"


def tensor_bytes(tensor: Tensor) -> int:
    """Return the bytes of its memory, gaps of the strides included."""
    return tensor.span * DTYPES[tensor.data_type].bits // 8


def elements_of(graph: Graph, uids: Iterable[int]) -> int:
    return sum(graph.by_uid[uid].elements for uid in uids)


def read_by(node: Node) -> tuple[int, ...]:
    lists = (uid for uids in node.input_lists.values() for uid in uids)
    return (*node.inputs.values(), *lists)


def scratch_bytes(graph: Graph, node: Node, row: Scratch, width: int) -> float:
    """`width`: bytes of an element as it is computed."""
    read = row.inputs * elements_of(graph, read_by(node))
    return width * (read + row.outputs * elements_of(graph, node.outputs.values())) + (
        row.fixed_bytes
    )


def converted_bytes(graph: Graph, node: Node, width: int) -> int:
    """Return the bytes of converted copies, at `width` bytes an element, of the inputs whose type
    differs from that of the computation."""
    tensors = (graph.by_uid[uid] for uid in read_by(node))
    return sum(width * t.elements for t in tensors if DTYPES[t.data_type].bits != 8 * width)


def columns_of(graph: Graph, node: Node) -> int:
    """Return the number of elements of a convolution's columns: all that its filters see, for every
    image."""
    ports = {**node.inputs, **node.outputs}
    images, filters, results = (
        graph.by_uid[next(ports[port] for port in names if port in ports)].dims
        for names in (("x", "dx"), ("w", "dw"), ("y", "dy"))
    )
    columns = images[0] * images[1]
    for length in (*filters[2:], *results[2:]):
        columns *= length
    return columns


def workspace_bytes(graph: Graph, of_node: NodeBytes) -> int:
    """Return the workspace if every virtual tensor stays until the last node has run; for a chain,
    whose places run one after another, that of the largest place."""
    found = 0.0
    for part in _parts(graph):
        virtual = sum(tensor_bytes(t) for t in part.tensors if t.virtual)
        found = max(found, virtual + max((of_node(part, node) for node in part.nodes), default=0.0))
    return round(found)


def freeing_bytes(graph: Graph, of_node: NodeBytes, width: int) -> int:
    """Return the workspace with inputs and outputs if every tensor takes `width` bytes an element
    and is freed after its last reader; outputs stay."""
    found = kept = 0.0
    for part in _parts(graph):
        last = {uid: i for i, node in enumerate(part.nodes) for uid in read_by(node)}
        live: dict[int, int] = {}
        for index, node in enumerate(part.nodes):
            for uid in (*read_by(node), *node.outputs.values()):
                live[uid] = width * part.by_uid[uid].elements
            found = max(found, kept + sum(live.values()) + of_node(part, node))
            for uid in [u for u in live if last.get(u, index) <= index]:
                if uid not in part.produced or part.by_uid[uid].virtual:
                    del live[uid]
        if part is not graph:
            kept += width * sum(t.elements for t in part.outputs)
    return round(found)


def _parts(graph: Graph) -> Iterator[Graph]:
    if isinstance(graph, ChainGraph):
        yield from (place.placed for place in graph.places)
    else:
        yield graph


def row_of(node: Node, rows: Mapping[str, Scratch], default: Scratch) -> Scratch:
    """Return the row by the mode of the node, otherwise by its type."""
    for name in ("operation", "mode"):
        mode = node.attributes.get(name)
        if isinstance(mode, str) and mode in rows:
            return rows[mode]
    return rows.get(node.type, default)


IN_FLOAT64 = ("double", "int8", "uint8", "int32", "int64")
"""Compute types for which ``numpy`` computes in float64; others are computed in float32."""
_TILES = 48 << 20
_BLOCKS = 24 << 20
FORMULAS = Scratch(fixed_bytes=4 << 20)
FORMULA_ROWS = {
    "amax": Scratch(inputs=1.0),
    "norm1": Scratch(inputs=1.0),
    "norm2": Scratch(inputs=1.0),
    "mul_no_zeros": Scratch(inputs=1.1),
    "BatchnormAttributes": Scratch(outputs=1.0),
    "BatchnormBackwardAttributes": Scratch(outputs=1.0),
    "LayernormBackwardAttributes": Scratch(outputs=3.0),
    "RMSNormBackwardAttributes": Scratch(outputs=3.0),
    "ResampleFwdAttributes": Scratch(inputs=1.3, outputs=1.0),
    "ResampleBwdAttributes": Scratch(inputs=1.0, outputs=0.5),
    "BlockScaleQuantizeAttributes": Scratch(inputs=2.0),
    "BlockScaleDequantizeAttributes": Scratch(outputs=1.5),
    "ConvolutionFwdAttributes": Scratch(fixed_bytes=_TILES),
    "ConvolutionBwdAttributes": Scratch(fixed_bytes=_TILES),
    "ConvolutionWrwAttributes": Scratch(fixed_bytes=_TILES),
    "SdpaAttributes": Scratch(inputs=0.35, fixed_bytes=_BLOCKS),
    "SdpaBackwardAttributes": Scratch(inputs=0.2, outputs=0.5, fixed_bytes=_BLOCKS),
}
"""Blocks and tiles are those of 8-byte elements."""


def formula_bytes(graph: Graph, node: Node, width: int) -> float:
    """Return the bytes besides inputs and outputs of a computation in `width` bytes an element."""
    row = row_of(node, FORMULA_ROWS, FORMULAS)
    if not node.type.startswith("Convolution"):
        # The gradients of pooling are added up in 8 bytes in any case.
        return scratch_bytes(graph, node, row, 8 if node.type == "ResampleBwdAttributes" else width)
    # Its products are of packed operands.
    tiles = min(row.fixed_bytes, 2 * width * columns_of(graph, node))
    operands = (graph.by_uid[uid] for uid in (*node.inputs.values(), *node.outputs.values()))
    return tiles + width * max((t.elements for t in operands if not is_in_order(t)), default=0)


def is_in_order(tensor: Tensor) -> bool:
    """Return True if memory has its elements in the order of its dims."""
    return list(tensor.strides) == sorted(tensor.strides, reverse=True)
