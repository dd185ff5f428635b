"""Tensors of graphs as the conversions between them see them: lengths, type and memory order.

A variant keeps the lengths; ``dtype`` and ``layout`` say what its data are. A view that differs in
its lengths from what was written fits only where both sides are as the pipeline has them.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXCHANGED = ("double", "float", "half", "bfloat16")
"""Types that ``--space dtype=`` exchanges."""
PLAIN: Mapping[int, tuple[str, str]] = {
    3: ("ncw", "nwc"),
    4: ("nchw", "nhwc"),
    5: ("ncdhw", "ndhwc"),
}
"""Number of dims → names of the layouts: packed, channels last."""
LAST = "nhwc"
"""Word of variants for channels last, at any rank."""
CONVERT = re.compile(
    r"convert_(?P<shape>n\d+c\d+(?:d\d+)?(?:h\d+)?w\d+|\d+(?:x\d+)*)_(?P<dtype>[a-z][a-z0-9]*)"
    r"(?:_(?P<layout>n[a-z]+))?(?:_to(?P<to>double|float|half|bfloat16))?"
    r"(?:_to(?P<to_layout>n[a-z]+))?"
)


@dataclass(frozen=True)
class Form:
    """Form of a tensor in memory. `layout` is empty if conversions do not know it."""

    dims: tuple[int, ...]
    dtype: str
    layout: str


@dataclass(frozen=True)
class FormConversion:
    source: Form
    target: Form

    @property
    def spec(self) -> str:
        """Return the form as ``bench-run --op`` takes it."""
        dims, rank = self.source.dims, len(self.source.dims)
        words = [f"dtype={self.source.dtype}", f"to={self.target.dtype}"]
        if not self.source.layout:
            return f"convert: dims={'x'.join(map(str, dims))} {' '.join(words)}"
        names = PLAIN[rank][0]
        shape = " ".join(f"{name}={length}" for name, length in zip(names, dims, strict=True))
        layouts = f"layout={self.source.layout} to_layout={self.target.layout}"
        return f"convert: {shape} {' '.join(words)} {layouts}"


def conversion_of(name: str) -> FormConversion | None:
    """Return the conversion that a graph named ``convert…`` performs; None for other graphs."""
    found = CONVERT.fullmatch(name)
    if found is None:
        return None
    dtype, to = found["dtype"], found["to"] or found["dtype"]
    if found["shape"][0] != "n":
        dims = tuple(int(length) for length in found["shape"].split("x"))
        return FormConversion(Form(dims, dtype, ""), Form(dims, to, ""))
    dims = tuple(int(length) for length in re.findall(r"\d+", found["shape"]))
    layout = found["layout"] or ""
    return FormConversion(Form(dims, dtype, layout), Form(dims, to, found["to_layout"] or layout))


@dataclass(frozen=True)
class GraphTensors:
    """The tensors of a graph's file."""

    by_name: Mapping[str, Form]
    """Forms by tensor name, and by uid as text."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


NO_GRAPH = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def read_tensors(path: Path) -> GraphTensors | None:
    """Return the tensors of a graph; None if the file cannot be read or is not a graph."""
    try:
        tree = json.loads(path.read_bytes())
        forms, names = {}, {}
        for row in tree["tensors"]:
            dims = tuple(int(length) for length in row["dims"])
            strides = tuple(int(step) for step in row["strides"])
            form = Form(dims, str(row["data_type"]), _layout(dims, strides))
            names[row["uid"]] = str(row.get("name") or row["uid"])
            forms[names[row["uid"]]] = forms[str(row["uid"])] = form
        read = _ports(tree, "inputs", names)
        written = _ports(tree, "outputs", names)
        virtual = {names[row["uid"]] for row in tree["tensors"] if row.get("virtual")}
        return GraphTensors(
            forms,
            tuple(name for name in read if name not in written and name not in virtual),
            tuple(name for name in written if name not in virtual),
        )
    except NO_GRAPH:
        return None


def _ports(tree: Any, side: str, names: Mapping[Any, str]) -> dict[str, None]:
    found: dict[str, None] = {}
    for node in tree["nodes"]:
        for port, uid in node[side].items():
            for one in uid if isinstance(uid, list) else [uid]:
                if "tensor_uid" in port and one in names:
                    found[names[one]] = None
    return found


def _layout(dims: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """Return the layout; dims of length 1 may have any stride."""
    rank = len(dims)
    if rank not in PLAIN:
        return ""
    for name, order in zip(PLAIN[rank], (range(rank), (0, *range(2, rank), 1)), strict=True):
        lengths = [dims[axis] for axis in order]
        steps = [math.prod(lengths[place + 1 :]) for place in range(rank)]
        if all(dims[a] == 1 or strides[a] == step for a, step in zip(order, steps, strict=True)):
            return name
    return ""


def as_variant(form: Form, variant: Mapping[str, str]) -> Form:
    """Return a data tensor's form in a graph with this variant. With int8 only the inside of the
    graph changes."""
    wanted = variant.get("dtype", form.dtype)
    dtype = wanted if form.dtype in EXCHANGED and wanted in EXCHANGED else form.dtype
    layout = form.layout
    alike = len(form.dims) < 3 or form.dims[1] == 1 or math.prod(form.dims[2:]) == 1
    if "layout" in variant and len(form.dims) in PLAIN and not alike:
        layout = PLAIN[len(form.dims)][variant["layout"] == LAST]
    return Form(form.dims, dtype, layout)
