"""Settings of the comparison of outputs, as values that travel between processes."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the fields' types
from dataclasses import dataclass, field
from typing import Literal

from bench_schema.document import GOLDEN as GOLDEN

FORMULAS = "numpy"
"""The reference by formulas in float64, computed with NumPy; no engine."""


@dataclass(frozen=True)
class ValidationSettings:
    """Reference and strictness of the comparison of outputs."""

    reference: str
    expected: str | None
    """Folder with ``UID.npy`` for each output; None: outputs are not checked."""
    sums: Mapping[str, str] = field(default_factory=dict)
    """Hash of each file in it when it was written, by name."""
    reason: str | None = None
    """Why nothing is expected."""
    source: Literal["computed", "read"] | None = None
    """Origin of the float64 reference: computed in this run or read from an earlier one's store."""
    pending: bool = False
    """True if outputs are going to be compared, and not by the process that has this."""
    policy: str = "default"
    rtol: float | None = None
    atol: float | None = None
    matched: float | None = None
    cosine: float | None = None
    mismatches: int = 5
    budget_s: float = 0.2
    save_outputs: str | None = None
    math: str = "fp32"
    sidecar: str | None = None
    """File with the graph's own tolerances."""

    @property
    def wanted(self) -> bool:
        """True if outputs are going to be checked."""
        return self.pending or self.expected is not None

    @property
    def by_engine(self) -> bool:
        """True if another program computed the expected outputs, with rounding of its own."""
        return self.reference != FORMULAS
