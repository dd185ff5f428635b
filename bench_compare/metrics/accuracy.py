"""How far the outputs are from the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_compare.metrics.base import Exact, Metric

if TYPE_CHECKING:
    from bench_schema.document import Case


def max_error(case: Case) -> float | None:
    """Largest absolute error of any output; NaN and infinities are infinitely wrong."""
    if case.validation is None or not case.validation.outputs:
        return None
    errors = [float(output.max_abs) for output in case.validation.outputs]
    return max(float("inf") if error != error else error for error in errors)


def mismatched(case: Case) -> float | None:
    """Elements outside of the tolerance, all outputs together."""
    if case.validation is None or not case.validation.outputs:
        return None
    return sum(output.mismatched for output in case.validation.outputs)


ROWS = (
    Metric(
        "max_error",
        "max error",
        "",
        "lower",
        Exact(max_error),
        speed=False,
        threshold_ratio=0.5,  # the order of a summation changes the last bits
    ),
    Metric("mismatched", "mismatches", "", "lower", Exact(mismatched), speed=False),
)
