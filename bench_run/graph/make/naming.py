"""Names of made graphs: ``OPS_SHAPE_DTYPE[_LAYOUT][_CHOICE…]``, stated in graphs/README.md.

OPS joins the operations by ``+``. SHAPE joins the lengths, each behind its letter. What follows is
shown only where it differs from the default, so two graphs that differ never share a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.graph.make.parameters import Parameter, Params, show_value

if TYPE_CHECKING:
    from collections.abc import Iterable

_AFTER_SHAPE = ("dtype", "layout")


def graph_name(ops: Iterable[str], parameters: Iterable[Parameter], params: Params) -> str:
    """The name of a chain of operations with these completed parameters."""
    rows = list(parameters)
    shape = "".join(_segment(row, params) for row in rows if _in_shape(row))
    fixed = (_segment(row, params) for key in _AFTER_SHAPE for row in rows if row.key == key)
    choices = (_segment(row, params) for row in rows if _is_choice(row))
    return "_".join(part for part in ("+".join(ops), shape, *fixed, *choices) if part)


def _in_shape(row: Parameter) -> bool:
    if row.code is None or row.kind not in ("int", "ints", "dims"):
        return False
    return len(row.code) == 1 or (row.kind == "dims" and row.code == "")


def _is_choice(row: Parameter) -> bool:
    return row.key not in _AFTER_SHAPE and not _in_shape(row)


def _segment(row: Parameter, params: Params) -> str:
    value = params[row.key]
    if row.code is None or value is None or not _shown(row, value, params):
        return ""
    if row.kind == "flag":
        return row.code if value else f"{row.code}0"
    return row.code + show_value(value, row.kind)


def _shown(row: Parameter, value: Any, params: Params) -> bool:
    if row.always:
        return True
    usual = row.default if row.follows is None else params[row.follows]
    return usual is None or show_value(value, row.kind) != show_value(usual, row.kind)
