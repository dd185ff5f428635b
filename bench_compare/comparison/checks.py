"""What outputs that passed were checked against: news where base was checked more strictly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_schema.document import Case, OutputValidation, Validation

ERROR_GROWTH = 1000.0
"""An error that grew by this factor is news even within its tolerance."""
ERROR_FLOOR = 1e-3
"""Of the tolerance: smaller errors are taken for so much."""
LOOSER = 2.0
"""A tolerance that follows the data moves by less than this between seeds."""


def weaker_checks(base: Sequence[Case], other: Sequence[Case]) -> Iterator[str]:
    """A sentence for each way in which outputs that passed are checked less, or are less exact;
    both are cases of one graph, one for each document."""
    before, after = (
        [one for case in cases if (one := case.validation) is not None and one.status == "passed"]
        for cases in (base, other)
    )
    if len(before) == len(after) == 1 and _as_strict(before[0], after[0]):
        return
    if before and after:
        yield from _unchecked(before, after)
        yield from _looser(before, after)
        yield from _grown(before, after)


def _as_strict(base: Validation, other: Validation) -> bool:
    """Whether each output is surely checked as it was: at once, what nearly all cases are."""
    return len(base.outputs) == len(other.outputs) and all(
        one.name == two.name
        and two.rtol <= LOOSER * one.rtol
        and two.atol <= LOOSER * one.atol
        and _least_error(two) < ERROR_GROWTH * _least_error(one)
        for one, two in zip(base.outputs, other.outputs, strict=True)
    )


def _unchecked(base: Sequence[Validation], other: Sequence[Validation]) -> Iterator[str]:
    """Outputs that a larger share of the documents leaves out."""
    names = [[{output.name for output in one.outputs} for one in side] for side in (base, other)]
    for name in sorted(set().union(*names[0])):
        before, after = (sum(name not in held for held in side) for side in names)
        if after * len(base) > before * len(other):
            yield f"output {name} is no longer checked"


def _looser(base: Sequence[Validation], other: Sequence[Validation]) -> Iterator[str]:
    before, after = _tolerances(base), _tolerances(other)
    for name in before.keys() & after.keys():
        for kind, least, most in zip(("rtol", "atol"), before[name], after[name], strict=True):
            if most > LOOSER * least:
                yield f"the {kind} of {name} grew from {least:.2g} to {most:.2g}"
                return


def _tolerances(validations: Sequence[Validation]) -> dict[str, tuple[float, float]]:
    """The largest of each output."""
    found: dict[str, tuple[float, float]] = {}
    for one in validations:
        for output in one.outputs:
            rtol, atol = found.get(output.name, (0.0, 0.0))
            found[output.name] = max(rtol, output.rtol), max(atol, output.atol)
    return found


def _grown(base: Sequence[Validation], other: Sequence[Validation]) -> Iterator[str]:
    """An error that is within its tolerance and grew by `ERROR_GROWTH`."""
    before, after = _errors(base), _errors(other)
    for name in before.keys() & after.keys():
        least, most = before[name], after[name]
        if most > 0 and most >= ERROR_GROWTH * least:
            yield f"the error of {name} grew from {least:.2g} to {most:.2g} within its tolerance"
            return


def _errors(validations: Sequence[Validation]) -> dict[str, float]:
    """The largest error of each output."""
    found: dict[str, float] = {}
    for one in validations:
        for output in one.outputs:
            found[output.name] = max(found.get(output.name, 0.0), _least_error(output))
    return found


def _least_error(output: OutputValidation) -> float:
    value = float(output.max_abs)
    return max(math.inf if math.isnan(value) else value, ERROR_FLOOR * output.atol)
