"""Inputs of a model as people write them: ``32x3x224x224:half``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.graph.dtypes import ALIASES

if TYPE_CHECKING:
    from bench_run.models.model import Dims

FLOATS = ("float", "half", "bfloat16", "double")
TYPES = (*FLOATS, "int64", "int32", "bool")
_INPUT = re.compile(r"(\d{1,9}(?:x\d{1,9})*)(?::(\w+))?")


def parse_input(text: str) -> tuple[Dims, str]:
    """Dims and type; float where none is named."""
    found = _INPUT.fullmatch(text)
    if found is None:
        raise UsageError(f"--input {text!r}: expected dims and a type, as in 32x3x224x224:half")
    dims = tuple(int(length) for length in found[1].split("x"))
    kind = ALIASES.get(found[2] or "float", found[2] or "float")
    if kind not in TYPES:
        raise UsageError(f"--input {text!r}: no type {kind!r}; choose from {', '.join(TYPES)}")
    if 0 in dims:
        raise UsageError(f"--input {text!r}: a length is 0")
    return dims, kind
