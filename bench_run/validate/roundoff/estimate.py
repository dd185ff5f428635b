"""The estimate of a tensor, and what a rule sees of its node."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.seeded.draws import NORMAL_REACH
from bench_run.tensors.seeded.init_plan import Init
from bench_run.tensors.seeded.roles import default_init, roles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph, Node, Tensor

SIGMAS = 6.0
"""Standard deviations that the largest of millions of elements may lie away."""

ROUNDING_DEVIATION = 0.8
"""Standard deviation of a rounding to nearest, as a part of its largest error: 1/√3, and more where
many values lie in the middle between two of the type's, as sums of narrow numbers do."""

COARSE = 0.1
"""Error that roundings to nearest may share if the values are on a coarse grid, as a share of the
largest: products of bfloat16 numbers were seen to share 0.01."""

OPERAND_UNITS = {"fp32": 0.0, "tf32": 2.0**-11, "fast": 2.0**-8}
"""Rounding of a product's float operands by the run's math mode: none, 11 significand bits (TF32),
8 (bfloat16)."""


@dataclass(frozen=True)
class Estimate:
    """Size of a tensor's values, and of their errors."""

    rms: float
    mean: float
    """Magnitude of the mean of the signed values."""
    peak: float
    """Largest magnitude."""
    low: float = 0.0
    """Smallest magnitude; 0 if it is not known."""
    positive: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    drift: float = 0.0
    """Part of the error that all elements may share, relative to them."""
    usual: float | None = None
    """Standard deviation of the absolute part over the whole tensor, if it differs from row to row;
    None: `atol` has `SIGMAS` of it everywhere."""
    usual_rtol: float | None = None
    """Standard deviation of the relative part; None: that of one rounding within ±rtol."""
    group: float = 0.0
    """Standard deviation of what the elements of one group err alike (those of a statistic, say),
    as a part of their root mean square. Groups err independently."""
    groups: int = 1

    @classmethod
    def of(cls, values: npt.NDArray[np.float64], absent: float) -> Estimate:
        """Estimate the size of these values, without NaN and infinities. `absent` is the size if no
        values are left."""
        values = values[np.isfinite(values)]
        if values.size == 0:
            return cls(absent, absent, absent)
        magnitude = np.abs(values)
        return cls(
            rms=float(np.sqrt(np.mean(values * values))),
            mean=abs(float(np.mean(values))),
            peak=float(magnitude.max()),
            low=float(magnitude.min()),
            positive=bool(values.min() > 0),
        )

    @property
    def noise(self) -> float:
        """Standard deviation of an element's error, as a random number.

        A rounding error within ±rtol has 0.6 of it as its standard deviation; atol is a bound of
        `SIGMAS` deviations.
        """
        return 0.6 * self.rtol * self.rms + self.atol / SIGMAS

    def with_error(
        self,
        rtol: float,
        atol: float,
        drift: float | None = None,
        usual_rtol: float | None = None,
    ) -> Estimate:
        """Return the estimate with these errors; without `drift` all of the error may be common to
        all elements, as its structure is unknown."""
        if drift is None:
            drift = rtol + (atol / self.rms if self.rms else 0.0)
        return replace(self, rtol=rtol, atol=atol, drift=drift, usual_rtol=usual_rtol)

    def in_groups(self, group: float, groups: int) -> Estimate:
        """Return the estimate with an error that groups of elements share."""
        return replace(self, group=group, groups=max(1, groups))

    @property
    def relative_deviation(self) -> float:
        """Standard deviation of the relative part."""
        return ROUNDING_DEVIATION * self.rtol if self.usual_rtol is None else self.usual_rtol

    @property
    def deviation(self) -> float:
        """Standard deviation of the absolute part over the whole tensor."""
        return self.atol / SIGMAS if self.usual is None else self.usual

    def scaled(self, factor: float) -> Estimate:
        """Scale values and absolute error by a positive number."""
        return Estimate(
            self.rms * factor,
            self.mean * factor,
            self.peak * factor,
            self.low * factor,
            self.positive,
            self.rtol,
            self.atol * factor,
            self.drift,
            None if self.usual is None else self.usual * factor,
            self.usual_rtol,
            self.group,
            self.groups,
        )


@dataclass(frozen=True)
class RoundingStep:
    """One node, with what is known of its operands."""

    node: Node
    tensors: Mapping[str, Tensor]
    """Operands and results by port."""
    operands: Mapping[str, Estimate]
    unit: float
    """Unit roundoff of the compute type."""
    math: str = "fp32"
    """The run's math mode."""

    @classmethod
    def of(
        cls, graph: Graph, node: Node, operands: Mapping[str, Estimate], math: str
    ) -> RoundingStep:
        ports = {**node.inputs, **node.outputs}
        unit = DTYPES[node.compute_data_type].unit_roundoff
        tensors = {port: graph.by_uid[uid] for port, uid in ports.items()}
        return cls(node, tensors, operands, unit, math)

    @property
    def operand_unit(self) -> float:
        """Rounding of float operands of products that the math mode allows."""
        return OPERAND_UNITS[self.math]

    @property
    def approximates(self) -> bool:
        """True if float functions may be a GPU's own instructions."""
        return self.math != "fp32" and self.unit == DTYPES["float"].unit_roundoff

    def __getitem__(self, port: str) -> Estimate:
        return self.operands[port]

    def get(self, port: str, default: float) -> Estimate:
        return self.operands.get(port, constant(default))

    def type_unit(self, port: str) -> float:
        return DTYPES[self.tensors[port].data_type].unit_roundoff


def constant(value: float) -> Estimate:
    size = abs(value)
    return Estimate(size, size, size, size, value > 0)


def stored(estimate: Estimate, tensor: Tensor) -> Estimate:
    """Return the estimate with the rounding to the tensor's type.

    The reference rounds an intermediate too, and an engine that fuses does not, or rounds to the
    neighbour: two roundings apart. Below the smallest normal number the rounding is absolute.
    """
    row = DTYPES[tensor.data_type]
    roundings = 2.0 if tensor.virtual else 1.0
    rtol = estimate.rtol + roundings * row.unit_roundoff
    atol = estimate.atol + roundings * row.unit_roundoff * row.smallest
    drift = estimate.drift + roundings * COARSE * row.unit_roundoff
    rounding = roundings * ROUNDING_DEVIATION * row.unit_roundoff
    usual_rtol = math.hypot(estimate.relative_deviation, rounding)
    return replace(estimate, rtol=rtol, atol=atol, drift=drift, usual_rtol=usual_rtol)


def typical(graph: Graph, tensor: Tensor) -> Estimate:
    """Return the estimate of an input with its role's default distribution."""
    role = roles(graph).get(tensor.uid)
    if role is None:
        return from_init(Init("uniform", -1, 1))
    if role.hint in _SPECIAL:
        return _SPECIAL[role.hint]
    return from_init(default_init(graph, tensor, role))


def from_init(init: Init) -> Estimate:
    if init.kind == "constant":
        return constant(init.low)
    if init.kind == "normal":
        reach = abs(init.low) + NORMAL_REACH * init.high
        return Estimate(math.hypot(init.low, init.high), abs(init.low), reach)
    low, high = init.low, init.high
    rms = math.sqrt((low * low + low * high + high * high) / 3)
    sign = low > 0
    return Estimate(rms, abs(low + high) / 2, max(abs(low), abs(high)), max(low, 0.0), sign)


_POWERS = Estimate(rms=3.5, mean=2.3, peak=8.0, low=0.125, positive=True)
_SPECIAL: dict[str, Estimate] = {
    "block_scale": _POWERS,
    "attention_scale": Estimate(0.125, 0.125, 1.0, 0.0, positive=True),
    "batch_mean": Estimate(0.1, 0.0, 0.5),
    "batch_inv_variance": Estimate(1.75, 1.75, 4.0, 1.0, positive=True),
    "inv_rms": Estimate(1.75, 1.75, 4.0, 1.0, positive=True),
    "attention_output": Estimate(0.3, 0.0, 1.0),
    "attention_stats": Estimate(6.0, 6.0, 12.0),
} | dict.fromkeys(
    ("seq_len_q", "seq_len_kv", "page_table", "token_offset", "token_index", "token_rank"),
    Estimate(1.0, 1.0, 1.0),
)
"""Estimates of computed data, and of data that are not numbers to calculate with."""
_SPECIAL["window_index"] = _SPECIAL["page_table"]
