"""Reduction over the axes where the result has length 1. See graphs/FORMAT.md.

Flops per element of the input: one step to combine, one more to square or test it.
"""

from __future__ import annotations

from bench_run.graph.operations.base import NodeView, Operation, Parameter, Port, expect_rank

REDUCTION_MODES = {
    "add": 1,
    "mul": 1,
    "min": 1,
    "max": 1,
    "amax": 2,
    "avg": 1,
    "norm1": 2,
    "norm2": 2,
    "mul_no_zeros": 2,
}
"""Flops per element of the input, by the spelling of the file."""

SUMMARIES = {
    "add": "sum",
    "mul": "product",
    "min": "smallest",
    "max": "largest",
    "amax": "largest |x|",
    "avg": "mean",
    "norm1": "sum of |x|",
    "norm2": "root of the sum of squares",
    "mul_no_zeros": "product of the non-zero elements",
}
"""Result of each mode, for the list of op specs."""

_CHOICES = ("not_set", *REDUCTION_MODES)


def reduced_axes(in_dims: tuple[int, ...], out_dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i, (a, b) in enumerate(zip(in_dims, out_dims, strict=True)) if a != b)


def check(view: NodeView) -> None:
    if view.attribute("mode") not in REDUCTION_MODES:
        choices = ", ".join(REDUCTION_MODES)
        raise view.parameter_error("mode", f"is {view.attribute('mode')}, expected {choices}")
    source, result = view["in"].dims, view["out"].dims
    expect_rank(view, "out", len(source), len(source))
    if any(b not in (1, a) for a, b in zip(source, result, strict=True)):
        what = f"has dims {list(result)}, expected those of in {list(source)} or 1 in each"
        raise view.port_error("out", what)
    if source == result:
        what = f"has the dims of in {list(source)}, expected at least one axis to be reduced to 1"
        raise view.port_error("out", what)


ROWS = (
    Operation(
        type="ReductionAttributes",
        name="reduction",
        family="reduction",
        inputs=(Port("in"),),
        outputs=(Port("out"),),
        parameters=(
            Parameter("mode", "enum", required=True, choices=_CHOICES),
            Parameter("is_deterministic", "bool", default=False),
        ),
        flat_ports=True,
        check=check,
        flops=lambda view: REDUCTION_MODES[view.attribute("mode")] * view["in"].elements,
    ),
)
