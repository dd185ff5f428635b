"""Forms of tensors: type and layout in which a layer reads or writes, and conversions between."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LAYOUTS = {3: ("ncw", "nwc"), 4: ("nchw", "nhwc"), 5: ("ncdhw", "ndhwc")}
"""Layouts by rank: channels first, channels last."""
AXES = {3: "ncw", 4: "nchw", 5: "ncdhw"}
TYPES = ("double", "float", "half", "bfloat16")
"""Types that a variant can change."""
_NAME = re.compile(
    r"convert_(?P<dims>(?:[a-z]\d+)+|\d+(?:x\d+)*)_(?P<dtype>[a-z0-9]+)(?:_(?P<layout>n[cdhw]+))?"
    r"(?:_to(?P<to>[a-z]+\d*))??(?:_to(?P<to_layout>n[cdhw]+))?"
)


@dataclass(frozen=True)
class Form:
    dims: tuple[int, ...]
    dtype: str
    layout: str
    """Empty for a tensor with one order of its elements in memory."""


@dataclass(frozen=True)
class FormConversion:
    source: Form
    target: Form

    @property
    def spec(self) -> str:
        """Return the op spec that measures it."""
        one, other = self.source, self.target
        if not one.layout:
            dims = "x".join(map(str, one.dims))
            return f"convert: dims={dims} dtype={one.dtype} to={other.dtype}"
        sizes = " ".join(
            f"{axis}={size}" for axis, size in zip(AXES[len(one.dims)], one.dims, strict=True)
        )
        types = f"dtype={one.dtype} to={other.dtype}"
        return f"convert: {sizes} {types} layout={one.layout} to_layout={other.layout}"

    @property
    def alike(self) -> FormConversion:
        """Return one key for all that do the same: of types alone the shape does not matter."""
        if self.source.layout != self.target.layout:
            return self
        flat = (math.prod(self.source.dims),)
        return FormConversion(*(Form(flat, end.dtype, "") for end in (self.source, self.target)))

    @property
    def name(self) -> str:
        """Return what changes: ``float_to_half``, ``nchw_to_nhwc``."""
        changed = [
            (getattr(self.source, part), getattr(self.target, part))
            for part in ("dtype", "layout")
            if getattr(self.source, part) != getattr(self.target, part)
        ]
        return "_to_".join("_".join(side) for side in zip(*changed, strict=True))


def conversion_of(name: str) -> FormConversion | None:
    """Return the conversion that a graph of this name does; None for any other graph."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    dims = tuple(int(size) for size in re.findall(r"\d+", found["dims"]))
    source = Form(dims, found["dtype"], found["layout"] or "")
    dtype, layout = found["to"] or source.dtype, found["to_layout"] or source.layout
    return FormConversion(source, replace(source, dtype=dtype, layout=layout))


def form_of(dims: Sequence[int], strides: Sequence[int], dtype: str) -> Form:
    """Return the form of a tensor of a graph file."""
    rank = len(dims)
    if rank not in LAYOUTS or dims[1] == 1 or all(size == 1 for size in dims[2:]):
        return Form(tuple(dims), dtype, "")
    return Form(tuple(dims), dtype, LAYOUTS[rank][strides[1] == 1])


def varied(form: Form, variant: Mapping[str, str]) -> Form:
    """Return the form in which a variant of the layer has the tensor. ``dtype=int8`` and an
    approximation leave inputs and outputs as they are."""
    dtype, layout = variant.get("dtype"), variant.get("layout")
    if dtype in TYPES and form.dtype in TYPES:
        form = replace(form, dtype=dtype)
    if layout is not None and form.layout:
        last = layout in {pair[1] for pair in LAYOUTS.values()}
        form = replace(form, layout=LAYOUTS[len(form.dims)][last])
    return form


def changes_forms(variant: Mapping[str, str]) -> bool:
    return "layout" in variant or variant.get("dtype") in TYPES
