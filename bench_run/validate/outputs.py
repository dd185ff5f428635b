"""Outputs against a reference: per output, per run, and in a sentence.

A result is wrong where an element is outside of its tolerance (`tolerance.py`); how NaN and
infinities are compared is defined in `tensors/difference.py`. Before the first run the
outputs are poisoned (`tensors/layout.py`), so that an element that is not written is a mismatch.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import Mismatch, OutputValidation, Real, Validation, spell, unspell

from bench_run.graph.dtypes import DTYPES
from bench_run.graph.layouts import packed
from bench_run.tensors.difference import Array, ArrayDifference, Bound, difference
from bench_run.tensors.files import write_tensors
from bench_run.tensors.layout import check_fit, describe, logical_view, memory_order, to_storage
from bench_run.validate.tolerance import exceeded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.layout import Storage, Storages
    from bench_run.validate.tolerance import Tolerance

REMEMBERED = 64
"""Results kept by checksum; a deterministic engine needs one."""


@dataclass(frozen=True)
class CheckResult:
    """All outputs of one run."""

    mismatched: int
    max_abs: Real
    checksum: str
    outputs: tuple[OutputValidation, ...]
    accepted_with: dict[int, str] = field(default_factory=dict)
    """The first flag with which a wrong output would be right, by uid, if there is one."""


def in_memory_order(storage: Storage, tensor: Tensor) -> Array:
    """Return the elements as they follow each other in memory, without the gaps; copied only if
    gappy."""
    return _flattened(logical_view(storage, tensor), tensor)


def _flattened(logical: Array, tensor: Tensor) -> Array:
    return np.ascontiguousarray(logical.transpose(memory_order(tensor.strides))).reshape(-1)


END = 0.125
"""Share of a type's range that is its end at most, however wide the tolerance."""


def _representable(expected: Array, tensor: Tensor, flat: Array, tolerance: Tolerance) -> Array:
    """Convert values beyond the type's range as the type does.

    8-bit floats saturate, wider ones have infinities (as `reference/rounding.py` has it). At the
    end of the range, within the tolerance, an output in `flat` may be finite or infinite.
    """
    row = DTYPES[tensor.data_type]
    if row.kind != "float" or expected.dtype.kind != "f":
        return expected
    end = row.largest * (1 + row.unit_roundoff / 2)
    last = (end - tolerance.atol) * (1 - tolerance.rtol)
    if np.fmax.reduce(expected, initial=0) <= last and np.fmin.reduce(expected, initial=0) >= -last:
        return expected
    limit = row.largest if row.bits == 8 else math.inf
    with np.errstate(all="ignore"):
        size, found = np.abs(expected), flat.astype(np.float64)
        settled = np.where(size > end, np.copysign(limit, expected), expected)
        allowed = np.minimum(tolerance.atol + tolerance.rtol * size, END * end)
        same = np.isinf(limit) & np.isinf(found) & (found * expected > 0)
        infinite = same & (size >= end - allowed)
        finite = np.isinf(settled) & (np.abs(found - expected) <= allowed)
    return np.where(infinite | finite, found, settled)


def _jumped(expected: Array, tensor: Tensor, flat: Array, tolerance: Tolerance) -> Array:
    """Expect what was found of elements that may take either value (`measured.py`)."""
    if not tolerance.jumps:
        return expected
    index, sizes = np.array(tolerance.jumps).T
    order = memory_order(tensor.strides)
    logical = np.unravel_index(index.astype(np.int64), tensor.dims)
    dims = [tensor.dims[axis] for axis in order]
    places = np.ravel_multi_index([logical[axis] for axis in order], dims)
    wanted, found = expected[places], flat[places]
    with np.errstate(all="ignore"):
        off = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        near = off <= sizes * (1 + JUMP_ROOM) + tolerance.atol + tolerance.rtol * np.abs(wanted)
    expected = expected.copy()
    expected[places] = np.where(near, found, wanted)
    return expected


JUMP_ROOM = 0.25
NOT_A_CHECK, COSINE = "not a check", "cosine below "
"""Parts of the source of a tolerance, where these are what is wrong; after them why."""


def checksum(graph: Graph, outputs: Storages) -> str:
    """Return the CRC-32 of the bytes of all outputs, gaps left out, in the graph's order: 8 hex
    digits."""
    crc = 0
    for tensor in graph.outputs:
        crc = zlib.crc32(in_memory_order(outputs[tensor.uid], tensor).view(np.uint8).data, crc)
    return f"{crc:08x}"


def compare(
    actual: Storage, expected: Array, tensor: Tensor, tolerance: Tolerance, worst: int = 5
) -> OutputValidation:
    """Compare one output. ``expected`` is a logical array of any real type, not rounded to the
    tensor's."""
    return _compared(actual, _flattened(expected, tensor), tensor, tolerance, worst)


def _compared(
    actual: Storage, expected: Array, tensor: Tensor, tolerance: Tolerance, worst: int
) -> OutputValidation:
    flat = in_memory_order(actual, tensor)
    expected = _representable(expected, tensor, flat, tolerance)
    expected = _jumped(expected, tensor, flat, tolerance)
    found = _difference(flat, expected, tolerance, worst)
    matched = cosine = None
    if tolerance.drawn is not None and not found.outside and not _shows(flat, *tolerance.drawn):
        tolerance = replace(tolerance, source=f"{tolerance.source}, {SPREAD}")
        found.outside = found.elements
    if tolerance.matched is not None and math.isfinite(found.max_abs):
        matched = 1 - found.outside / max(1, found.elements)
        found.outside = found.outside if matched < tolerance.matched else 0
    if tolerance.cosine is not None:
        cosine = found.cosine
        if not cosine >= tolerance.cosine:
            found.outside = found.elements
            tolerance = replace(
                tolerance, source=f"{tolerance.source}, {COSINE}{tolerance.cosine:g}"
            )
    beyond = None
    if tolerance.shared is not None:
        beyond = exceeded(found, tolerance.shared, expected)
    if beyond is not None:
        word, bound = beyond
        source = f"{tolerance.source}, {word} of all elements"
        tolerance = replace(tolerance, rtol=bound.rtol, atol=bound.atol, source=source)
        found = difference(flat, expected, replace(bound, validator=tolerance.validator), worst)
    return OutputValidation(
        uid=tensor.uid,
        name=tensor.name,
        data_type=tensor.data_type,
        elements=found.elements,
        mismatched=found.outside,
        max_abs=spell(found.max_abs),
        max_rel=spell(found.max_rel),
        relative_l2=spell(found.relative_l2),
        rtol=tolerance.rtol,
        atol=tolerance.atol,
        tolerance_source=tolerance.source,
        worst=tuple(
            Mismatch(_index(place, tensor), *(spell(float(x[place])) for x in (expected, flat)))
            for _, place in found.worst
        ),
        matched_ratio=matched,
        cosine=None if cosine is None or math.isnan(cosine) else cosine,
    )


def passing_constant(expected: Array, tensor: Tensor, tolerance: Tolerance) -> str | None:
    """Return the constant output that a given tolerance calls right, and its policy's does not:
    such a tolerance is not a check. `expected`: in memory order."""
    usual = tolerance.usual
    if usual is None or tolerance.drawn is not None or DTYPES[tensor.data_type].kind != "float":
        return None
    if expected.size < FEWEST_CHECKED:
        return None
    finite = expected[np.isfinite(expected)]
    mean = float(np.mean(finite, dtype=np.float64)) if finite.size else 0.0
    plain = replace(tensor, strides=packed(tensor.dims))
    order = memory_order(tensor.strides)
    wanted = expected.reshape([tensor.dims[axis] for axis in order])
    wanted = wanted.transpose(np.argsort(order)).reshape(-1)
    for name, value in (("zeros", 0.0), ("the mean of what is expected", mean)):
        constant = to_storage(np.full(tensor.dims, value), plain)
        right = (
            not _compared(constant, wanted, plain, t, 0).mismatched for t in (tolerance, usual)
        )
        if list(right) == [True, False]:
            return name
    return None


FEWEST_CHECKED = 16
"""Outputs of fewer elements may be alike by chance."""


FEWEST_DRAWN = 256
"""Random values below this number are only checked for their range: in 20,000 draws of 256 none of
these distributions was mistaken, of 4 an exponential one was twice."""
SPREAD = "mean and spread of all elements"
"""End of the source of a tolerance where random values, each in its range, are wrong together."""


def _shows(flat: Array, mean: float, deviation: float, kurtosis: float = 3.0) -> bool:
    """Return True if values may be drawn from a distribution: mean and deviation within 6 standard
    errors (of the deviation: sqrt((kurtosis - 1)/(4·n)) of it). A few values show nothing."""
    if flat.size < FEWEST_DRAWN:
        return True
    values = flat.astype(np.float64)
    error = 6 * deviation / math.sqrt(flat.size)
    spread = error * math.sqrt((kurtosis - 1) / 4)
    right = abs(float(values.std()) - deviation) <= spread
    return right and abs(float(values.mean()) - mean) <= error


def _difference(flat: Array, expected: Array, tolerance: Tolerance, worst: int) -> ArrayDifference:
    """Compare. With an rms threshold all elements are inside if the rms is; otherwise those are
    outside whose own error is above the threshold, of which there is then at least one."""
    if tolerance.rms is None:
        bound = Bound(tolerance.rtol, tolerance.atol, tolerance.validator)
        return difference(flat, expected, bound, worst)
    free = difference(flat, expected, Bound(0.0, math.inf, "allclose"), worst)
    if free.outside or free.rms <= tolerance.rms:
        return free
    limit = Bound(0.0, tolerance.rms * free.peak, "allclose")
    return difference(flat, expected, limit, worst)


def _index(place: int, tensor: Tensor) -> tuple[int, ...]:
    """Return the logical index of an element from its place in memory order."""
    order = memory_order(tensor.strides)
    walked = np.unravel_index(place, [tensor.dims[axis] for axis in order])
    by_axis = dict(zip(order, (int(i) for i in walked), strict=True))
    return tuple(by_axis[axis] for axis in range(len(tensor.dims)))


class OutputChecker:
    """Holds the outputs of many runs against one reference; equal outputs are compared once."""

    def __init__(
        self,
        graph: Graph,
        expected: Mapping[int, Array],
        tolerances: Mapping[int, Tolerance],
        worst: int = 5,
        approximation: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        """`approximation`: relative L2 errors of the reference itself, which approximates another
        graph."""
        self._graph = graph
        self._expected = expected
        self._tolerances = tolerances
        self._worst = worst
        self._known: dict[str, CheckResult] = {}
        self._approximation = approximation
        self._wanted: dict[int, Array] = {}
        self._constants: dict[int, str | None] = {}

    def check(self, outputs: Storages) -> CheckResult:
        """Check outputs. Raises `EngineError` if an output is missing or does not fit its
        tensor."""
        check_fit(self._graph, outputs)
        key = checksum(self._graph, outputs)
        if key not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = self._compared(key, outputs)
        return self._known[key]

    def against(
        self, expected: Mapping[int, Array], tolerances: Mapping[int, Tolerance] | None = None
    ) -> OutputChecker:
        """Return a checker for other inputs, with the same tolerances if there are none of
        theirs."""
        limits = self._tolerances if tolerances is None else tolerances
        return OutputChecker(self._graph, expected, limits, self._worst, self._approximation)

    @property
    def bytes(self) -> int:
        """Bytes of the expected outputs."""
        return sum(array.nbytes for array in self._expected.values())

    def _in_order(self, tensor: Tensor) -> Array:
        """Return the expected output in the form for `compare`; made when first needed."""
        if tensor.uid not in self._wanted:
            self._wanted[tensor.uid] = _flattened(self._expected[tensor.uid], tensor)
        return self._wanted[tensor.uid]

    def _with_approximation(self, row: OutputValidation) -> OutputValidation:
        """Return the row with the error against the graph that is approximated, if that is
        larger."""
        known = self._approximation.get(row.uid, 0.0)
        larger = known > unspell(row.relative_l2)
        return replace(row, relative_l2=spell(known)) if larger else row

    def _row(self, output: Storage, tensor: Tensor) -> OutputValidation:
        tolerance, wanted = self._tolerances[tensor.uid], self._in_order(tensor)
        row = _compared(output, wanted, tensor, tolerance, self._worst)
        if tensor.uid not in self._constants:
            self._constants[tensor.uid] = passing_constant(wanted, tensor, tolerance)
        constant = self._constants[tensor.uid]
        if constant is not None and not row.mismatched:
            source = f"{row.tolerance_source}, {NOT_A_CHECK}: {constant} would pass"
            row = replace(row, mismatched=row.elements, tolerance_source=source)
        return self._with_approximation(row)

    def _compared(self, key: str, outputs: Storages) -> CheckResult:
        rows = tuple(self._row(outputs[tensor.uid], tensor) for tensor in self._graph.outputs)
        largest = np.max([unspell(row.max_abs) for row in rows], initial=0.0)
        accepted: dict[int, str] = {}
        for tensor in (self._graph.by_uid[row.uid] for row in rows if row.mismatched):
            for flag, looser in self._tolerances[tensor.uid].looser():  # the strictest first
                again = (outputs[tensor.uid], self._in_order(tensor), tensor, looser, 0)
                if not _compared(*again).mismatched:
                    accepted[tensor.uid] = flag
                    break
        return CheckResult(sum(row.mismatched for row in rows), spell(largest), key, rows, accepted)


def validation(reference: str, graph: Graph, results: Sequence[CheckResult]) -> Validation:
    """Return the verdict over the results of one round: the first run, then the timed iterations.

    The outputs shown are those of the first wrong result, otherwise of the first.
    """
    first, timed = results[0], results[1:]
    shown = next((result for result in results if result.mismatched), first)
    wrong = sum(result.mismatched > 0 for result in timed)
    reason = _reason(graph, shown)
    if shown.mismatched and not first.mismatched:
        reason = (
            f"right in the first run, wrong in {wrong} of {len(timed)} checked iterations: {reason}"
        )
    return Validation(
        status="failed" if shown.mismatched else "passed",
        reference=reference,
        reason=reason,
        outputs=shown.outputs,
        iterations_checked=len(timed),
        iterations_mismatched=wrong,
        deterministic=len({r.checksum for r in results}) == 1 if len(results) > 1 else None,
    )


def _reason(graph: Graph, result: CheckResult) -> str | None:
    """Return what is wrong with the worst output; a note if there was nothing to check."""
    if not result.outputs:
        return "the graph has no outputs: nothing to check"
    if not result.mismatched:
        empty = [describe(graph.by_uid[o.uid]) for o in result.outputs if o.elements == 0]
        return f"nothing to check: no elements in {', '.join(empty)}" if empty else None
    row = max(result.outputs, key=lambda output: output.mismatched / max(1, output.elements))
    name = describe(graph.by_uid[row.uid])
    text = f"{row.mismatched} of {row.elements} elements of {name} differ"
    if row.tolerance_source.endswith(SPREAD):
        return f"the mean or the spread of {name} is not that of its distribution"
    if NOT_A_CHECK in row.tolerance_source:
        constant = row.tolerance_source.partition(f"{NOT_A_CHECK}: ")[2]
        given, advice = f"rtol {row.rtol:g}, atol {row.atol:g}", "them out, or give less"
        if row.matched_ratio is not None or row.cosine is not None:
            given = "this share" if row.cosine is None else "this cosine"
            advice = "it out, or give more"
        return f"{NOT_A_CHECK} of {name}: with {given} {constant}; leave {advice}"
    if COSINE in row.tolerance_source:
        least = row.tolerance_source.partition(COSINE)[2]
        cosine = "not a number" if row.cosine is None else f"{row.cosine:.6g}, below {least}"
        return f"the cosine of {name} and what is expected is {cosine}"
    if row.matched_ratio is not None:
        text += f" ({row.matched_ratio:.2%} are right)"
    if not row.worst:
        return text
    flag = result.accepted_with.get(row.uid)
    advice = "" if flag is None else f"; accepted with {flag}"
    return f"{text}: worst at {_worst(row)}{advice}"


def _worst(row: OutputValidation) -> str:
    """Describe the worst element of an output: place, values, its error and the allowed error."""
    worst = row.worst[0]
    actual, expected = unspell(worst.actual), unspell(worst.expected)
    values = f"{worst.index}: {_figure(worst.actual)}, expected {_figure(worst.expected)}"
    error, allowed = abs(actual - expected), row.atol + row.rtol * abs(expected)
    off = f"off by {error:.3g}, " if math.isfinite(error) else ""
    return f"{values}: {off}allowed {allowed:.3g}" if math.isfinite(allowed) else values


def _figure(value: Real) -> str:
    return value if isinstance(value, str) else f"{value:.7g}"


def save_outputs(
    directory: Path, case_id: str, outputs: Storages, graph: Graph | None = None
) -> Path:
    """Save all outputs of a run in one safetensors file, named after the case.

    With the graph as logical arrays under the tensors' names (uids if those are not unique),
    without it as storages by uid. Raises `OutputError`.
    """
    arrays: dict[str, Array] = {str(uid): storage for uid, storage in outputs.items()}
    if graph is not None:
        names = [tensor.name for tensor in graph.outputs]
        arrays = {
            t.name if t.name and names.count(t.name) == 1 else str(t.uid): np.ascontiguousarray(
                logical_view(outputs[t.uid], t)
            )
            for t in graph.outputs
        }
    safe = "".join(c if c.isalnum() or c in "._-+" else "_" for c in case_id)
    return write_tensors(directory / f"{safe}.safetensors", arrays, {"case": case_id})
