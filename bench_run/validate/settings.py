"""Settings of the comparison of outputs, as values that travel between processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench_schema.document import GOLDEN as GOLDEN

FORMULAS = "numpy"
"""The reference by formulas in float64, computed with NumPy; no engine."""
KEPT_BYTES = 256 << 20
"""Once so much is kept of timed iterations, only the last one is kept besides."""


@dataclass(frozen=True)
class ValidationSettings:
    """Reference and strictness of the comparison of outputs."""

    reference: str
    expected: str | None
    """Folder with ``UID.npy`` for each output, and with ``N/UID.npy`` for set number N of the
    inputs; None: outputs are not checked."""
    reason: str | None = None
    """Why nothing is expected."""
    source: Literal["computed", "read"] | None = None
    """Origin of the float64 reference: computed in this run or read from an earlier one's store."""
    pending: bool = False
    """True if the expected outputs are still being computed: they are requested once needed."""
    policy: str = "default"
    rtol: float | None = None
    atol: float | None = None
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
    def lost(self) -> bool:
        """True if the expected outputs were removed to make room for those of other graphs."""
        return self.expected is not None and not Path(self.expected).is_dir()

    @property
    def by_engine(self) -> bool:
        """True if another program computed the expected outputs, with rounding of its own."""
        return self.reference != FORMULAS
