"""Types for rows of the operations table, and the view of a node for rules.

A row drives everything that depends on the operation: the reader and the writer (the place of each
datum in the JSON), the checks (shapes), the inputs (the data that a port needs) and the figures
(flops).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bench_run.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.graph.model import Graph, Node, Tensor

HINTS: Mapping[str, str] = {
    "general": "any finite numbers around zero",
    "positive": "positive numbers, away from zero",
    "unit": "numbers inside of (-1, 1), away from the ends",
    "compared": "numbers around zero, some of them equal",
    "clipped": "numbers below, between and above the clips",
    "condition": "truth values: 0 and 1",
    "epsilon": "one small positive number, such as 1e-5",
    "momentum": "one number between 0 and 1, such as 0.1",
    "batch_mean": "means of the generated x over the statistic's axes",
    "batch_inv_variance": "1/sqrt(variance + epsilon) of the generated x over the statistic's axes",
    "inv_rms": "1/sqrt(mean(x²) + epsilon) of the generated x over the normalised axes",
    "attention_output": "o of a forward pass over the generated q, k, v",
    "attention_stats": "row-wise log-sum-exp of a forward pass over the generated q, k, v",
    "attention_bias": "additive bias, around zero",
    "attention_scale": "one positive number, such as 1/sqrt(head size)",
    "descale": "positive factors near 1",
    "block_scale": "positive factors, powers of two near 1; never NaN",
    "seq_len_q": "integers from 1 to the query length",
    "seq_len_kv": "integers from 1 to the key length (paged: to the pages' capacity)",
    "page_table": "page numbers from 0 to the number of pages minus 1",
    "seed": "one non-negative integer",
    "keep_mask": "0 and 1 at random",
    "token_offset": "first row of each group: ascending integers from 0, at most the rows",
    "token_index": "row numbers from 0 to the number of rows minus 1",
    "token_rank": "integers from 0 to top_k minus 1",
    "window_index": "flattened spatial positions of the winners, from a forward pass",
}
"""Roles of data: what the values of a generated input must be like, by the port's hint."""

INTEGER_HINTS = frozenset(
    ("seq_len_q", "seq_len_kv", "page_table", "seed", "token_offset", "token_index", "token_rank")
)
"""Hints whose tensor must have an integer type."""

Absent = Literal["null", "omit"]
Kind = Literal["int", "ints", "float", "bool", "text", "enum", "type", "bytes"]
Place = Literal["parameters", "attributes", "inputs", "flat"]
Spelling = Literal["lower", "upper", "number"]


@dataclass(frozen=True)
class Port:
    """A place for a tensor of a node; its key in the file is ``<name>_tensor_uid``."""

    name: str
    hint: str = "general"
    required: bool = True
    absent: Absent = "null"
    """Form of an unused port for hipDNN's reader: the key with null, or without the key."""
    many: bool = False
    """Takes a list of tensors (`Node.input_lists`)."""
    numbered: bool = False
    """A list in the file, under ``<name>_tensor_uids``, that is ports ``<name>_0`` … here."""

    @property
    def key(self) -> str:
        return f"{self.name}_tensor_uids" if self.numbered else f"{self.name}_tensor_uid"


@dataclass(frozen=True)
class Parameter:
    """A value other than a tensor; in `Node.attributes` under the same name as in the file."""

    name: str
    kind: Kind
    required: bool = False
    default: Any = None
    """Meaning of an absent key; readers fill it in. None: the parameter stays absent."""
    absent: Absent = "null"
    """Form of the default in files: None as null, others in full; or without the key."""
    choices: tuple[str, ...] = ()
    """Values of an enum, in the order of its numbers."""
    spelling: Spelling = "lower"
    """Spelling of an enum's value for hipDNN's reader; all three are read."""


@dataclass(frozen=True)
class NodeView:
    """One node with its tensors by port: what rules and figures are computed from."""

    node: Node
    tensors: Mapping[str, Tensor]
    where: str
    """Place of the node: ``file: nodes[2]``."""
    operation: Operation

    def __getitem__(self, port: str) -> Tensor:
        return self.tensors[port]

    def get(self, port: str) -> Tensor | None:
        return self.tensors.get(port)

    def attribute(self, name: str) -> Any:
        return self.node.attributes.get(name)

    def port_error(self, port: str, what: str) -> GraphError:
        tensor = self.tensors.get(port)
        subject = "" if tensor is None else f"tensor {tensor.uid} {tensor.name!r} "
        return GraphError(f"{self.where}.{self.operation.port_place(port)}", subject + what)

    def parameter_error(self, name: str, what: str) -> GraphError:
        return GraphError(f"{self.where}.{self.operation.parameter_place(name)}", what)


_FORMS: Mapping[str, Callable[[Any], Any]] = {"float": float, "ints": tuple, "bytes": tuple}


def no_rule(view: NodeView) -> None:
    """Accept an operation whose shapes only its plugin knows."""


def same_attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return attributes


@dataclass(frozen=True)
class Operation:
    """One row: a node type of the format."""

    type: str
    """Spelling of hipDNN's JSON."""
    name: str
    """Ours, short: ``conv_fwd``."""
    family: str
    inputs: tuple[Port, ...]
    """The first one is the main operand."""
    outputs: tuple[Port, ...]
    check: Callable[[NodeView], None]
    """Raises `GraphError` if shapes or parameters do not fit."""
    flops: Callable[[NodeView], int | None]
    """Floating-point operations; None if they are not known from the graph."""
    parameters: tuple[Parameter, ...] = ()
    place: Place = "flat"
    """Object of the node that holds the parameters when hipDNN writes the file."""
    flat_ports: bool = False
    """hipDNN writes the uids on the node itself, without ``inputs`` and ``outputs``."""
    meaning: Callable[[Mapping[str, Any]], Mapping[str, Any]] = same_attributes
    """Brings attributes that say the same thing into one form, for the fingerprint."""

    def port_place(self, port: str) -> str:
        """Return the place of a port's uid in the node: ``inputs.x_tensor_uid``."""
        for place, ports in (("inputs", self.inputs), ("outputs", self.outputs)):
            for row in ports:
                if row.name == port or (row.numbered and port.startswith(f"{row.name}_")):
                    return row.key if self.flat_ports else f"{place}.{row.key}"
        return port

    def parameter_place(self, name: str) -> str:
        return name if self.place == "flat" else f"{self.place}.{name}"

    def complete(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes in canonical form: defaults filled in, None left out, floats and
        tuples as such."""
        filled = {p.name: p.default for p in self.parameters if p.default is not None}
        filled |= {name: value for name, value in attributes.items() if value is not None}
        for parameter in self.parameters:
            if parameter.name in filled and parameter.kind in _FORMS:
                filled[parameter.name] = _FORMS[parameter.kind](filled[parameter.name])
        return filled


def view(graph: Graph, node: Node, operation: Operation, where: str) -> NodeView:
    tensors = {port: graph.by_uid[uid] for port, uid in {**node.inputs, **node.outputs}.items()}
    return NodeView(node, tensors, where, operation)


def output_lengths(
    lengths: Sequence[int],
    window: Sequence[int],
    pre: Sequence[int],
    post: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return the number of places of a window along each axis: its steps over the padded length."""
    dilation = tuple(1 for _ in window) if dilation is None else dilation
    rows = zip(lengths, window, pre, post, stride, dilation, strict=True)
    return tuple((n + a + b - d * (w - 1) - 1) // s + 1 for n, w, a, b, s, d in rows)


def spreads(dims: Sequence[int], over: Sequence[int]) -> bool:
    """Return True if lengths of 1 broadcast a tensor over these dims, aligned right."""
    pairs = zip(reversed(dims), reversed(over), strict=False)
    return len(dims) <= len(over) and all(have in (1, want) for have, want in pairs)


def expect_dims(view: NodeView, port: str, dims: tuple[int, ...], why: str) -> None:
    """Require these dims of the tensor at `port`, if it exists."""
    tensor = view.get(port)
    if tensor is not None and tensor.dims != dims:
        raise view.port_error(port, f"has dims {list(tensor.dims)}, expected {list(dims)} ({why})")


def expect_like(view: NodeView, port: str, model: str) -> None:
    expect_dims(view, port, view[model].dims, f"those of {model}")


def expect_scalar(view: NodeView, *ports: str) -> None:
    for port in ports:
        tensor = view.get(port)
        if tensor is not None and tensor.elements != 1:
            raise view.port_error(port, f"has dims {list(tensor.dims)}, expected one element")


def expect_rank(view: NodeView, port: str, lowest: int, highest: int) -> None:
    rank = len(view[port].dims)
    if not lowest <= rank <= highest:
        wanted = str(lowest) if lowest == highest else f"{lowest} to {highest}"
        raise view.port_error(port, f"has {rank} dims, expected {wanted}")


def expect_length(view: NodeView, name: str, length: int, lowest: int) -> None:
    """Require `length` entries of the list parameter `name`, none below `lowest`."""
    values = view.attribute(name)
    if len(values) != length:
        what = f"has {len(values)} entries, expected {length}, one for each spatial dim"
        raise view.parameter_error(name, what)
    if min(values) < lowest:
        raise view.parameter_error(name, f"is {list(values)}, expected {lowest} or more in each")


def expect_together(view: NodeView, *ports: str) -> None:
    """Require all of these optional ports, or none."""
    missing = [port for port in ports if view.get(port) is None]
    if missing and len(missing) < len(ports):
        raise view.port_error(missing[0], f"is missing: {', '.join(ports)} go together")


def expect_broadcast(view: NodeView, port: str, dims: tuple[int, ...]) -> None:
    """Require that the tensor at `port`, if it exists, broadcasts over `dims`."""
    tensor = view.get(port)
    if tensor is not None and not spreads(tensor.dims, dims):
        what = f"has dims {list(tensor.dims)}, expected to broadcast to {list(dims)}"
        raise view.port_error(port, what)
