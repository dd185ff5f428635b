"""Requirements on the data of each graph input: the strictest hint of all its readers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES
from bench_run.tensors.seeded.init_plan import Init, parse_init

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_run.graph.model import Graph, Node, Tensor

OPEN_HINTS = frozenset(("general", "clipped", "compared", "attention_bias"))
"""Hints that leave the distribution to ``--init``."""

_WEAKEST_FIRST = ("general", "attention_bias", "clipped", "compared", "unit", "positive")
"""Between hints of several readers; any other hint is stricter than these."""

_POSITIVE_FROM = frozenset(
    (
        *("add", "add_square", "div", "identity", "max_op", "min_op", "mul"),
        *("reciprocal", "relu_fwd", "rsqrt", "sqrt"),
    )
)
"""Pointwise modes whose result is positive where their operands are."""
FACTOR = "factor"
"""Role of a factor of a product over many elements, which would leave the range of any type."""
_PRODUCTS = frozenset(("mul", "mul_no_zeros"))
_POSITIVE_SUMS = frozenset(("MatmulAttributes", "ConvolutionFwdAttributes", "ReductionAttributes"))

FIXED: dict[str, Init] = {
    "general": Init("uniform", -1, 1),
    "clipped": Init("uniform", -1, 1),
    "compared": Init("quarters", -1, 1),
    "attention_bias": Init("uniform", -1, 1),
    "unit": Init("uniform", -0.9, 0.9),
    "positive": Init("uniform", 0.5, 1.5),
    "descale": Init("uniform", 0.5, 1.5),
    "epsilon": Init("constant", 1e-5),
    "momentum": Init("constant", 0.1),
    "condition": Init("integers", 0, 1),
    "keep_mask": Init("integers", 0, 1),
    "probability": Init("uniform", 0.1, 0.9),
    "seed": Init("integers", 1, 1000),
}
"""Distributions of the hints that need no look at the graph. Floats around zero are uniform in
[−1, 1], as in hipDNN's own generators of golden data."""

WHOLE: dict[str, Init] = {
    "general": Init("integers", -8, 8),
    "clipped": Init("integers", -8, 8),
    "compared": Init("quarters", -4, 4),
    "unit": Init("integers", -8, 8),
    "positive": Init("integers", 1, 8),
    "descale": Init("integers", 1, 2),
}
"""Distributions that replace the above for tensors of integers."""
UNSIGNED = Init("integers", 1, 8)


@dataclass(frozen=True)
class Role:
    """A hint, and the reader it comes from."""

    hint: str
    node: Node
    port: str


def roles(graph: Graph) -> dict[int, Role]:
    """Return the role of every graph input, by uid."""
    positive = _must_be_positive(graph)
    found: dict[int, Role] = {}
    inputs = {tensor.uid for tensor in graph.inputs}
    for node in graph.nodes:
        for port, uid in _reads(node):
            if uid not in inputs:
                continue
            hint = _hint(node, port)
            if hint in ("general", "clipped") and uid in positive:
                hint = "positive"
            if uid not in found or _strictness(hint) > _strictness(found[uid].hint):
                found[uid] = Role(hint, node, port)
    return found


def own_init(role: Role) -> Init | None:
    """Return the filling that the definition of a custom operation names for its input."""
    custom = role.node.custom
    if custom is None:
        return None
    text = custom.init.get(custom.inputs[int(role.port.removeprefix("input_"))])
    return None if text is None else parse_init((text,)).default


def spelled_out(graph: Graph, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a rule by uid for each input of the graph, as `texts` or its role give it; none for
    inputs that are computed from others."""
    plan, by_uid = parse_init(texts), roles(graph)
    rules = []
    for tensor in graph.inputs:
        role = by_uid[tensor.uid]
        open_to = plan.default if leaves_choice(tensor, role) else None
        init = plan.named(tensor) or own_init(role) or open_to
        if init is None and (role.hint in FIXED or role.hint == FACTOR):
            init = default_init(graph, tensor, role)
        if init is not None:
            rules.append(f"{tensor.uid}={init.text}")
    return tuple(rules)


def leaves_choice(tensor: Tensor, role: Role) -> bool:
    """Return True if an ``--init`` without a tensor applies to this input."""
    row = DTYPES[tensor.data_type]
    signed = row.kind == "float" or (row.kind == "integer" and row.name != "uint8")
    return role.hint in OPEN_HINTS and signed


def default_init(graph: Graph, tensor: Tensor, role: Role) -> Init:
    """Return the distribution of a role whose hint is in `FIXED`, or is `FACTOR`."""
    row, hint = DTYPES[tensor.data_type], role.hint
    if row.kind == "boolean":
        return FIXED["condition"]
    if hint == FACTOR:
        if row.kind == "integer":
            return Init("integers", -1, 1)
        # 1 ± 1/√n for products of n factors, which then stay near 1.
        terms = tensor.elements / max(1, graph.by_uid[role.node.outputs["out"]].elements)
        width = min(0.5, terms**-0.5)
        kind = "uniform" if role.node.attributes["mode"] == "mul" else "zeros"
        return Init(kind, 1 - width, 1 + width)
    if hint == "clipped" and row.kind == "float":
        clips = (role.node.attributes.get(f"relu_{end}_clip") or 0 for end in ("lower", "upper"))
        far = min(max(1.0, *(1.5 * abs(clip) for clip in clips)), row.largest)
        return Init("uniform", -far, far)
    if row.kind == "integer" and hint in WHOLE:
        return UNSIGNED if row.name == "uint8" else WHOLE[hint]
    return FIXED[hint]


def _hint(node: Node, port: str) -> str:
    if node.type == "ReductionAttributes" and node.attributes["mode"] in _PRODUCTS:
        return FACTOR
    if node.type == "PointwiseAttributes":
        mode = POINTWISE_MODES[node.attributes["operation"]]
        return mode.hint(int(port.removeprefix("in_")))
    for row in OPERATIONS[node.type].inputs:
        if row.name == port or (row.numbered and port.startswith(f"{row.name}_")):
            return row.hint
    return "general"


def _strictness(hint: str) -> float:
    return _WEAKEST_FIRST.index(hint) if hint in _WEAKEST_FIRST else math.inf


def _reads(node: Node) -> Iterable[tuple[str, int]]:
    yield from node.inputs.items()
    for port, uids in node.input_lists.items():
        for uid in uids:
            yield port, uid


def _must_be_positive(graph: Graph) -> set[int]:
    """Return the uids of tensors that some later operation requires to be positive, followed back
    through sums and products."""
    wanted: set[int] = set()
    for node in reversed(graph.nodes):
        keeps_sign = node.type in _POSITIVE_SUMS
        if node.type == "PointwiseAttributes":
            keeps_sign = node.attributes["operation"] in _POSITIVE_FROM
        passes = keeps_sign and not wanted.isdisjoint(node.outputs.values())
        for port, uid in _reads(node):
            if passes or _hint(node, port) == "positive":
                wanted.add(uid)
    return wanted
