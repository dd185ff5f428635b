"""Tensor descriptors: ``NxCxHxW``, with a layout (``,NHWC``) or explicit strides behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from bench_run.graph.layouts import layout_name

if TYPE_CHECKING:
    from bench_run.graph.driver.ask import Ask

_LIST = re.compile(r"\d{1,18}(x\d{1,18})*")
_LOGICAL = {3: "ncw", 4: "nchw", 5: "ncdhw"}


class Descriptor(NamedTuple):
    dims: tuple[int, ...]
    layout: str | None
    """Lower case; None: strides of no known layout."""


def read_descriptor(ask: Ask, flag: str) -> Descriptor:
    text: str = ask.values[flag]
    lengths, _, tail = text.partition(",")
    dims = _numbers(lengths)
    if dims is None or min(dims) < 1:
        raise ask.error(flag, "expected lengths joined by x, as 100x3x32x32 or 1x3x8x8,NHWC")
    axes = _LOGICAL.get(len(dims), "")
    if not tail:
        return Descriptor(dims, axes or None)
    if not tail[0].isdigit():
        return Descriptor(dims, _named(ask, flag, tail.lower(), axes))
    strides = _numbers(tail)
    if strides is None or len(strides) != len(dims):
        raise ask.error(flag, f"expected {len(dims)} strides joined by x")
    return Descriptor(dims, layout_name(dims, strides, axes) if axes else None)


def _numbers(text: str) -> tuple[int, ...] | None:
    return tuple(map(int, text.split("x"))) if _LIST.fullmatch(text) else None


def _named(ask: Ask, flag: str, layout: str, axes: str) -> str:
    if not axes or sorted(layout) != sorted(axes):
        raise ask.error(flag, f"layout {layout.upper()} does not fit its lengths")
    return layout
