"""Data types of graph tensors: one row each, by the name that hipDNN's JSON uses.

NumPy is imported only when an array type is asked for, so that `--help` stays fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["float", "integer", "boolean", "scale"]


@dataclass(frozen=True)
class DataType:
    name: str
    bits: int
    kind: Kind
    array_type: str | None
    """Name in NumPy or ml_dtypes; None if the packing in memory is not documented."""
    unit_roundoff: float
    """Largest relative error of one rounding: 2^-(significand bits); 0 for exact types."""
    largest: float
    """Largest finite value."""
    smallest: float
    """Smallest positive normal value; 1 for integers."""

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return self.bits // 8

    @property
    def lowest(self) -> float:
        """Least value: of scales, which have no sign, the smallest."""
        if self.kind == "scale":
            return self.smallest
        if self.kind == "float":
            return -self.largest
        return 0.0 if self.name in ("uint8", "boolean") else -self.largest - 1


def _row(
    name: str, bits: int, kind: Kind, array_type: str | None, *limits: float
) -> tuple[str, DataType]:
    return name, DataType(name, bits, kind, array_type, *limits)


DTYPES: dict[str, DataType] = dict(
    (
        _row("double", 64, "float", "float64", 2.0**-53, 1.7976931348623157e308, 2.0**-1022),
        _row("float", 32, "float", "float32", 2.0**-24, 3.4028234663852886e38, 2.0**-126),
        _row("half", 16, "float", "float16", 2.0**-11, 65504.0, 2.0**-14),
        _row("bfloat16", 16, "float", "bfloat16", 2.0**-8, 3.3895313892515355e38, 2.0**-126),
        _row("fp8_e4m3", 8, "float", "float8_e4m3fn", 2.0**-4, 448.0, 2.0**-6),
        _row("fp8_e5m2", 8, "float", "float8_e5m2", 2.0**-3, 57344.0, 2.0**-14),
        _row("fp8_e4m3_fnuz", 8, "float", "float8_e4m3fnuz", 2.0**-4, 240.0, 2.0**-7),
        _row("fp8_e5m2_fnuz", 8, "float", "float8_e5m2fnuz", 2.0**-3, 57344.0, 2.0**-15),
        _row("fp8_e8m0", 8, "scale", "float8_e8m0fnu", 2.0**-1, 2.0**127, 2.0**-127),
        _row("fp4_e2m1", 4, "float", None, 2.0**-2, 6.0, 1.0),
        _row("fp6_e2m3", 6, "float", None, 2.0**-4, 7.5, 1.0),
        _row("fp6_e3m2", 6, "float", None, 2.0**-3, 28.0, 2.0**-2),
        _row("int4", 4, "integer", None, 0.0, 7.0, 1.0),
        _row("int8", 8, "integer", "int8", 0.0, 127.0, 1.0),
        _row("uint8", 8, "integer", "uint8", 0.0, 255.0, 1.0),
        _row("int32", 32, "integer", "int32", 0.0, 2147483647.0, 1.0),
        _row("int64", 64, "integer", "int64", 0.0, 9223372036854775807.0, 1.0),
        _row("boolean", 8, "boolean", "bool", 0.0, 1.0, 1.0),
    )
)

ALIASES = {
    "float16": "half",
    "fp16": "half",
    "bf16": "bfloat16",
    "float32": "float",
    "fp32": "float",
    "float64": "double",
    "fp64": "double",
    "bool": "boolean",
    "fp8_e4m3fn": "fp8_e4m3",
}
"""Spellings met in the wild, read as the name on the right; never written."""


def array_type(name: str) -> np.dtype[Any]:
    """Return the NumPy type of a data type's elements; `name` has a row with an `array_type`."""
    import numpy as np

    row = DTYPES[name]
    if row.array_type is None:
        raise ValueError(f"{name} has no array type: its packing in memory is not documented")
    if hasattr(np, row.array_type) and not row.array_type.startswith(("bfloat", "float8")):
        return np.dtype(row.array_type)
    import ml_dtypes

    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, row.array_type))
    return extended
