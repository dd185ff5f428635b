"""Allowed errors, output by output: a policy, then the graph's sidecar, then the command line.

Policy ``default`` bounds the rounding error of correct arithmetic in the graph's own types, which
is measured on the reference (`measured.py`). Policy ``hipdnn`` is
the table of hipDNN's own tests (`TABLE`). Integers and booleans are exact in both.

A sidecar ``NAME.tolerance.json`` beside ``NAME.json`` changes either::

    {"rtol": 1e-3, "tensors": {"y": {"atol": 0.1}, "7": {"rms": 1e-4}}, "reason": "why"}

Numbers at the top hold for every output, those under a tensor's name or uid for that one;
``validator`` names another rule for NaN and infinities (`tensors/difference.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.errors import BenchRunError, GraphError, UsageError
from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.difference import Array, ArrayDifference, Bound
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.user.limits import LIMITS, problem_of
from bench_run.validate.measured import OPERAND_BITS, Noise, assumed, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.tensors.layout import Storages


# hipDNN's own test tolerances, one number per node type and data type, used as atol and as rtol.
#
# Source: TestTolerances.hpp of hipDNN's test SDK; the attention rows come from a document that
# cites it. A graph of several nodes takes the largest of its nodes' numbers.

FALLBACK = 1e-3
"""Tolerance of node types and data types without a number of their own."""

_Row = dict[str, float]


def _row(double: float | None, single: float, half: float, bfloat16: float) -> _Row:
    row = {"float": single, "half": half, "bfloat16": bfloat16}
    return row if double is None else {"double": double, **row}


TABLE: dict[str, _Row] = {
    "BatchnormInferenceAttributes": _row(1e-7, 2e-4, 5e-4, 5e-3),
    "BatchnormInferenceAttributesVarianceExt": _row(1e-7, 2e-4, 8e-4, 7e-3),
    "BatchnormAttributes": _row(1e-7, 4e-3, 4e-3, 8e-3),
    "BatchnormBackwardAttributes": _row(1e-7, 2e-3, 4e-4, 3e-3),
    "RMSNormAttributes": _row(4e-3, 4e-3, 4e-3, 8e-3),
    "LayernormAttributes": _row(1e-5, 1e-4, 1e-3, 1e-2),
    "ConvolutionFwdAttributes": _row(None, 1e-5, 1e-1, 1e-1),
    "ConvolutionBwdAttributes": _row(None, 8.5e-6, 2e-2, 2e-2),
    "ConvolutionWrwAttributes": _row(None, 2e-4, 2e-1, 2e-1),
    "MatmulAttributes": _row(None, 1e-5, 1e-2, 1e-2),
    "ReductionAttributes": _row(None, 1e-5, 1e-2, 5e-2),
    "PointwiseAttributes": _row(1e-7, 1e-5, 1e-3, 1e-2),
    "SdpaAttributes": _row(None, 1e-5, 1e-2, 1e-2),
    "SdpaBackwardAttributes": _row(None, 1e-5, 1e-2, 1e-2),
}

BY_RMS = frozenset(("RMSNormAttributes",))
"""Node types whose results hipDNN's tests hold to a root mean square."""
INFINITIES_MATCH = frozenset((("SdpaAttributes", "stats"),))
"""Results that may be infinite: the log-sum-exp of a row whose keys are all masked."""


def table_number(graph: Graph, data_type: str) -> float:
    """Return the largest number of the graph's nodes for outputs of a data type."""
    numbers = (TABLE.get(node.type, {}).get(data_type, FALLBACK) for node in graph.nodes)
    return max(numbers, default=FALLBACK)


def producer(graph: Graph, uid: int) -> tuple[Node, str]:
    """Return the node and port that a tensor comes from."""
    return next(
        (node, port)
        for node in graph.nodes
        for port, produced in node.outputs.items()
        if produced == uid
    )


# Errors that all elements of an output share, which no element-wise tolerance shows.
#
# Honest roundings are independent of each other. For N of them, each with a standard deviation of
# at most s, relative to the root mean square of the expected values:
#
# - *spread*: √(Σ(a − e)²/Σe²) is at most s·√(1 + 2√(t/N) + 2t/N), except with a probability of
#   exp(−t) (Laurent and Massart, Adaptive estimation of a quadratic functional by model selection,
#   2000, lemma 1). t = 20 makes that 2e-9.
# - *bias*: Σ(a − e)·e/Σe², the factor by which all elements are off, has a standard deviation of
#   √(Σs²e²)/Σe². Six of them are exceeded with a probability of 2e-9. The same holds for |e| in
#   place of e, which finds an error that has one sign everywhere.
# - *mean*: Σ(a − e)/√(N·Σe²), an error of one size everywhere, has one of √(Σs²)/√(N·Σe²).
#
# Added to each: the drift, the part that honest rounding errors share. Roundings of equal values
# are equal: N is the number of different expected values where the limit of all is exceeded; where
# these are few, the drift is that of sums of equal terms.

RARE = 20.0
"""t: false alarms have a probability of exp(−t)."""
SIGMAS = 6.0
LOOKED_AT = 1 << 18
"""Elements among which different values are counted."""
ALIKE = 8
"""Values are alike where at most one of as many differs from the others."""


@dataclass(frozen=True)
class SharedError:
    """Standard deviations of an element's error, and the part that all may share."""

    rtol: float
    """Relative to the element."""
    atol: float
    drift: float
    """Relative to the root mean square."""
    alike: float = 0.0
    """The drift where expected values are alike, if that is larger."""


def exceeded(
    found: ArrayDifference, allowed: SharedError, expected: Array
) -> tuple[str, Bound] | None:
    """Return the criterion that fails, in a word, and a bound that at least one element is then
    beyond."""
    if found.outside or not 0 < found.square_expected < math.inf:
        return None
    for word, error, limit in criteria(found, allowed, expected):
        if error > limit:
            size = math.sqrt(found.square_expected / found.elements)
            relative = word == "bias"
            return word, Bound(limit if relative else 0.0, 0.0 if relative else limit * size)
    return None


def criteria(
    found: ArrayDifference, allowed: SharedError, expected: Array
) -> tuple[tuple[str, float, float], ...]:
    """Return for each criterion its name, the found value and the allowed one."""
    strict = _criteria(found, allowed, found.elements)
    if all(error <= limit for _, error, limit in strict):
        return strict
    different = _different(expected)
    if different * ALIKE <= found.elements:
        allowed = replace(allowed, drift=max(allowed.drift, allowed.alike))
    return _criteria(found, allowed, min(different, found.elements))


def _criteria(
    found: ArrayDifference, allowed: SharedError, independent: int
) -> tuple[tuple[str, float, float], ...]:
    square, count = found.square_expected, found.elements
    deviation = math.hypot(allowed.rtol, allowed.atol * math.sqrt(count / square))
    weighted = math.hypot(
        allowed.rtol * math.sqrt(found.fourth_expected), allowed.atol * math.sqrt(square)
    )
    part = RARE / max(1, independent)
    repeated = max(1.0, count / max(1, independent))
    spread = deviation * math.sqrt(1 + 2 * math.sqrt(part) + 2 * part)
    bias = SIGMAS * weighted * math.sqrt(repeated) / square
    mean = SIGMAS * deviation / math.sqrt(max(1, independent))
    both = max(abs(found.projected), abs(found.projected_up)) / square
    offset = abs(found.total) / math.sqrt(count * square)
    return (
        ("spread", found.relative_l2, allowed.drift + spread),
        ("bias", both, allowed.drift + bias),
        ("mean", offset, allowed.drift + mean),
    )


def _different(expected: Array) -> int:
    """Return the number of different values; if there are very many elements, among some."""
    step = max(1, expected.size // LOOKED_AT)
    some = expected[::step]
    return int(np.unique(np.asarray(some, np.float64)).size * min(step, expected.size))


VALIDATORS = ("matching", "allclose", "allclose_matching_infinities")


@dataclass(frozen=True)
class Tolerance:
    """An element is right where |actual − expected| <= atol + rtol·|expected|."""

    rtol: float
    atol: float
    source: str
    """Source of the numbers, in a few words."""
    validator: str = "matching"
    """Rule for NaN and infinities: see `tensors/difference.py`."""
    rms: float | None = None
    """Threshold for √Σ(a − e)² / (√n · largest magnitude), which replaces the element-wise rule."""
    shared: SharedError | None = None
    """Beside the element-wise rule: what all elements may err together."""
    drawn: tuple[float, ...] | None = None
    """Mean and standard deviation of random values, which all elements together have to show; the
    kurtosis where it is above 3."""
    jumps: tuple[tuple[int, float], ...] = ()
    """Elements that may be off by more, by flat index, and by how much."""
    matched: float | None = None
    """Share of the elements that have to be right; None: all."""
    cosine: float | None = None
    """Least cosine of the output and what is expected."""
    usual: Tolerance | None = None
    """The policy's tolerance, where this one was given."""
    looser: Callable[[], Iterable[tuple[str, Tolerance]]] = tuple
    """Flags that allow more, the strictest first: to say which of them takes a wrong result."""


@dataclass(frozen=True)
class Circumstances:
    """Properties besides the graph that a bound depends on."""

    inputs: Storages | None = None
    """The data; without it as the default distributions make it."""
    math: str = "fp32"
    """The run's math mode: ``tf32`` and ``fast`` let operands be rounded and functions be
    approximated."""
    rounded_reference: bool = False
    """The reference has the outputs' own types and errs itself: golden tensors, another engine.
    The float64 reference does neither."""
    expected: Storages | None = None
    """The reference's outputs by uid; computed if the noise has to be measured."""
    noise: Mapping[int, Noise] | None = None
    """Noise of the reference by uid (`measured.py`); without it measured here."""


Overrides = Mapping[str, Mapping[str, Any]]
"""Fields of `Tolerance` with their values, by tensor name or uid, ``""`` for every output."""


def tolerances(
    graph: Graph,
    policy: str = "default",
    rtol: float | None = None,
    atol: float | None = None,
    circumstances: Circumstances | None = None,
    overrides: Overrides | None = None,
    shares: Mapping[str, float | None] | None = None,
) -> dict[int, Tolerance]:
    """Return the tolerance of every output, by uid. ``rtol`` and ``atol``, and ``matched`` and
    ``cosine`` in `shares`, win over everything else."""
    if policy not in POLICIES:
        raise UsageError(f"--tolerance: no policy {policy!r}; choose from {', '.join(POLICIES)}")
    found = POLICIES[policy](graph, circumstances or Circumstances())
    given = {"rtol": rtol, "atol": atol, **(shares or {})}
    flags = {name: value for name, value in given.items() if value is not None}
    for tensor in graph.outputs:
        sidecar: dict[str, Any] = {}
        for key in ("", tensor.name or "", str(tensor.uid)):
            sidecar |= (overrides or {}).get(key, {})
        row = _changed(found[tensor.uid], sidecar, "sidecar")
        found[tensor.uid] = _changed(row, flags, "command line")
    return found


def read_overrides(path: Path, graph: Graph | None = None) -> Overrides:
    """Return a sidecar's contents. Raises `GraphError` that names the file and the key; with the
    graph also where a tensor is none of its outputs."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise GraphError(str(path), error.strerror or str(error)) from None
    except ValueError as error:
        raise GraphError(str(path), f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise GraphError(str(path), "expected an object")
    tensors = content.pop("tensors", {})
    content.pop("reason", None)
    if not isinstance(tensors, dict) or not all(isinstance(row, dict) for row in tensors.values()):
        raise GraphError(str(path), "tensors: expected an object with an object for each tensor")
    if graph is not None:
        known = {name: None for t in graph.outputs for name in (t.name, str(t.uid)) if name}
        for name in tensors:
            if name not in known:
                what = f"no output {name!r}; choose from {', '.join(known)}"
                raise GraphError(f"{path}: tensors", what)
    rows = {"": content, **tensors}
    for name, row in rows.items():
        for key, value in row.items():
            where = f"tensors.{name}.{key}" if name else key
            _check_override(f"{path}: {where}", key, value)
    return rows


def sidecar_of(graph_path: str) -> Path:
    """Return the path for the overrides of a graph file, which may not exist."""
    return Path(graph_path).with_suffix(".tolerance.json")


def _check_override(where: str, key: str, value: object) -> None:
    if key == "validator":
        if value not in VALIDATORS:
            raise GraphError(where, f"no validator {value!r}; choose from {', '.join(VALIDATORS)}")
    elif key not in LIMITS:
        known = ", ".join((*LIMITS, "validator", "tensors", "reason"))
        raise GraphError(where, f"unknown; known are {known}")
    elif problem := problem_of(key, value):
        raise GraphError(where, problem)


def _changed(row: Tolerance, values: Mapping[str, Any], source: str) -> Tolerance:
    """Return the tolerance with these values. Element-wise ones (`rtol`, `atol`) remove an rms
    threshold, and the limits of errors that all elements share."""
    if not values:
        return row
    by_element = bool({"rtol", "atol", "matched", "cosine"} & set(values))
    if "cosine" in values and len(values) == 1 and row.usual is None:
        values = {**values, "matched": 0.0}
    rms = values.get("rms", None if by_element else row.rms)
    shared = None if by_element or rms is not None else row.shared
    return replace(
        row,
        **{**values, "rms": rms},
        shared=shared,
        jumps=() if by_element else row.jumps,
        usual=row.usual or row,
        looser=tuple,
        source=source,
    )


def _exact(source: str) -> Tolerance:
    return Tolerance(0.0, 0.0, f"{source}: exact")


def _is_exact(tensor: Tensor) -> bool:
    return DTYPES[tensor.data_type].kind in ("integer", "boolean")


NOISE_FACTOR, SHARED_FACTOR, SPREAD_FACTOR = 4.0, 2.0, 1.5
"""An element may err by as many times the largest noise, all may share as many times its shared
part, and err apart by as many times its root mean square (`measured.py`)."""

ROUNDING = 0.72
"""Root mean square of the rounding to a type, in unit roundoffs: 0.58 at most."""
ROUNDING_BIAS = 1 / 16
"""Part of a unit roundoff that roundings share: 0.012 are seen where operands have few digits."""

LARGEST_FLOOR, TINY = 0.125, 1e-30


def by_measure(graph: Graph, circumstances: Circumstances) -> dict[int, Tolerance]:
    """Return tolerances from the noise of the reference."""
    asked = circumstances.math
    noise = circumstances.noise
    if noise is None:
        noise = noise_of(graph, circumstances)
    sides = 2 if circumstances.rounded_reference else 1
    known: dict[str, Mapping[int, Noise] | None] = {}

    def looser(tensor: Tensor, row: Tolerance) -> Iterator[tuple[str, Tolerance]]:
        """Yield what further math modes allow; measured only where an output is wrong."""
        modes = tuple(OPERAND_BITS)
        for mode in modes[modes.index(asked) + 1 :]:
            if mode not in known:
                known[mode] = noise_of(graph, replace(circumstances, math=mode))
            found = known[mode]
            other = row if found is None else _of_output(tensor, found[tensor.uid], sides)
            if other.atol > row.atol or other.rtol > row.rtol:
                yield f"--math {mode}", other

    found = {}
    for tensor in graph.outputs:
        row = _of_output(tensor, None if noise is None else noise[tensor.uid], sides)
        if row.shared is not None:
            row = replace(row, looser=partial(looser, tensor, row))
        found[tensor.uid] = row
    return found


def noise_of(graph: Graph, circumstances: Circumstances) -> dict[int, Noise] | None:
    """Return the noise of a graph's reference; None if there is nothing to measure."""
    inputs, expected = circumstances.inputs, circumstances.expected
    if inputs is None:
        try:
            inputs, expected = make_inputs(graph, 0), None
        except BenchRunError:
            return None
    own = None if circumstances.rounded_reference else expected
    found = measure(graph, inputs, own, circumstances.math)
    if found is None and expected is not None:
        return assumed(graph, expected)
    return found


def _of_output(tensor: Tensor, noise: Noise | None, sides: int) -> Tolerance:
    """Return the tolerance of an output. `sides`: 2 if the reference errs itself."""
    row = DTYPES[tensor.data_type]
    if row.kind == "scale":
        return Tolerance(0.25, 0.0, "default: powers of two are exact")
    if _is_exact(tensor):
        jumps = () if noise is None else noise.jumps
        return replace(_exact("default"), jumps=jumps)
    own = row.unit_roundoff
    if noise is None:
        source = "fallback: no formulas for one of the operations"
        return Tolerance(FALLBACK + 2 * own, FALLBACK, source)
    unit, terms = noise.unit, noise.terms
    floor = min(unit * max(4 + math.sqrt(terms), terms / 16), LARGEST_FLOOR)
    # subnormal numbers of wide exponents may be 0, those of half and narrower have their spacing
    least = row.smallest * (1.0 if row.smallest < TINY else 2 * own)
    root = math.sqrt(sides)
    common = SHARED_FACTOR * noise.shared + ROUNDING_BIAS * own
    shared = SharedError(
        rtol=root * ROUNDING * own,
        atol=root * SPREAD_FACTOR * noise.rms + least,
        drift=sides * (common + unit * (4 + math.sqrt(terms) / 4)),
        alike=sides * (common + floor),
    )
    # more than the type holds would allow everything
    atol = min(sides * (NOISE_FACTOR * noise.atol + least), row.largest)
    rtol = sides * (2 * own + floor + NOISE_FACTOR * noise.rtol)
    return Tolerance(rtol, atol, "default", shared=shared, jumps=noise.jumps)


def by_table(graph: Graph, circumstances: Circumstances) -> dict[int, Tolerance]:
    rows: dict[int, Tolerance] = {}
    if isinstance(graph, ChainGraph):
        for place in graph.places:
            rows |= by_table(place.placed, circumstances)
        return rows
    for tensor in graph.outputs:
        number = table_number(graph, tensor.data_type)
        node, port = producer(graph, tensor.uid)
        if _is_exact(tensor):
            rows[tensor.uid] = _exact("hipdnn")
        elif node.type in BY_RMS:
            rows[tensor.uid] = Tolerance(number, number, "hipdnn", "allclose", rms=number)
        else:
            infinite = (node.type, port) in INFINITIES_MATCH
            validator = "allclose_matching_infinities" if infinite else "allclose"
            rows[tensor.uid] = Tolerance(number, number, "hipdnn", validator)
    return rows


POLICIES: dict[str, Callable[[Graph, Circumstances], dict[int, Tolerance]]] = {
    "default": by_measure,
    "hipdnn": by_table,
}
