"""How much work a call is that no graph expresses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.models.model import Call, Dims

PRODUCTS = ("matmul", "gemm", "linear", "addmm", "bmm")
RECURRENT = ("lstm", "gru", "rnn")


def work_of(call: Call, dims: Mapping[str, Dims]) -> int:
    """Operations: of a convolution or a matrix product by what it reads, in any type and of any
    vendor, else one for each element of the result."""
    elements = sum(math.prod(dims[name]) for name in call.outputs if name in dims)
    known = [dims[name] for name in call.inputs if isinstance(name, str) and name in dims]
    operation = call.operation.lower()
    if not known:
        return elements
    first, *others = known
    if "attention" in operation and len(known) > 2:
        return 2 * (elements * known[1][-2] + math.prod(first[:-1]) * known[1][-2] * first[-1])
    if "conv" in operation:
        filters = [each for each in others if len(each) == len(first) > 2]
        return 2 * elements * math.prod(filters[0][1:]) if filters else elements
    if any(name in operation for name in PRODUCTS) and first:
        return 2 * elements * first[-1]
    if any(name in operation for name in RECURRENT):
        return 2 * math.prod(first[:-1]) * sum(map(math.prod, others))
    return elements
