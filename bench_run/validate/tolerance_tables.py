"""hipDNN's own test tolerances, one number per node type and data type, used as atol and as rtol.

Source: TestTolerances.hpp of hipDNN's test SDK; the attention rows come from a document that cites
it. A graph of several nodes takes the largest of its nodes' numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node

FALLBACK = 1e-3
"""For every node type and data type without a number of its own."""

_Row = dict[str, float]


def _row(double: float | None, single: float, half: float, bfloat16: float) -> _Row:
    row = {"float": single, "half": half, "bfloat16": bfloat16}
    return row if double is None else {"double": double, **row}


TABLE: dict[str, _Row] = {
    "BatchnormInferenceAttributes": _row(1e-7, 2e-4, 5e-4, 5e-3),
    "BatchnormInferenceAttributesVarianceExt": _row(1e-7, 2e-4, 8e-4, 7e-3),
    "BatchnormAttributes": _row(1e-7, 4e-3, 4e-3, 8e-3),
    "BatchnormBackwardAttributes": _row(1e-7, 2e-3, 4e-4, 3e-3),
    "RMSNormAttributes": _row(4e-3, 4e-3, 4e-3, 8e-3),
    "LayernormAttributes": _row(1e-5, 1e-4, 1e-3, 1e-2),
    "ConvolutionFwdAttributes": _row(None, 1e-5, 1e-1, 1e-1),
    "ConvolutionBwdAttributes": _row(None, 8.5e-6, 2e-2, 2e-2),
    "ConvolutionWrwAttributes": _row(None, 2e-4, 2e-1, 2e-1),
    "MatmulAttributes": _row(None, 1e-5, 1e-2, 1e-2),
    "ReductionAttributes": _row(None, 1e-5, 1e-2, 5e-2),
    "PointwiseAttributes": _row(1e-7, 1e-5, 1e-3, 1e-2),
    "SdpaAttributes": _row(None, 1e-5, 1e-2, 1e-2),
    "SdpaBackwardAttributes": _row(None, 1e-5, 1e-2, 1e-2),
}

BY_RMS = frozenset(("RMSNormAttributes",))
"""Node types whose results hipDNN's tests hold to a root mean square."""
INFINITIES_MATCH = frozenset((("SdpaAttributes", "stats"),))
"""Results that may be infinite: the log-sum-exp of a row whose keys are all masked."""


def table_number(graph: Graph, data_type: str) -> float:
    """The largest number of the graph's nodes for outputs of a data type."""
    numbers = (TABLE.get(node.type, {}).get(data_type, FALLBACK) for node in graph.nodes)
    return max(numbers, default=FALLBACK)


def producer(graph: Graph, uid: int) -> tuple[Node, str]:
    """The node and port that a tensor comes from."""
    return next(
        (node, port)
        for node in graph.nodes
        for port, produced in node.outputs.items()
        if produced == uid
    )
