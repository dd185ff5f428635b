"""Allowed errors, output by output: a policy, then the graph's sidecar, then the command line.

Policy ``default`` bounds the rounding error of correct arithmetic in the graph's own types: by
output type, operation, reduction length and size of the data (`roundoff/`). Policy ``hipdnn`` is
the table of hipDNN's own tests (`TABLE`). Integers and booleans are exact in both.

A sidecar ``NAME.tolerance.json`` beside ``NAME.json`` changes either::

    {"rtol": 1e-3, "tensors": {"y": {"atol": 0.1}, "7": {"rms": 1e-4}}, "reason": "why"}

Numbers at the top hold for every output, those under a tensor's name or uid for that one;
``validator`` names another rule for NaN and infinities (`tensors/difference.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.errors import GraphError, UsageError
from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.difference import Array, ArrayDifference, Bound

if TYPE_CHECKING:
    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.tensors.layout import Storages
    from bench_run.validate.roundoff.estimate import Estimate


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


# What element-wise tolerances cannot see: an error that all elements of an output share.
#
# Honest roundings are independent of each other. Of N of them, each with a standard deviation of at
# most s, relative to the root mean square of what is expected:
#
# - *spread*: √(Σ(a − e)²/Σe²) is at most s·√(1 + 2√(t/N) + 2t/N), but for a probability of exp(−t)
#   (Laurent and Massart, Adaptive estimation of a quadratic functional by model selection, 2000,
#   lemma 1). t = 20 makes that 2e-9.
# - *bias*: Σ(a − e)·e/Σe², the factor by which all elements are off, has a standard deviation of
#   √(Σs²e²)/Σe². Six of them are exceeded with a probability of 2e-9. The same holds for |e| in
#   place of e, which finds an error that has one sign everywhere.
# - *mean*: Σ(a − e)/√(N·Σe²), an error of one size everywhere, has one of √(Σs²)/√(N·Σe²).
#
# To all comes the drift, the part that rounding errors may share (`roundoff/`), and what groups of
# elements err alike: rows of a norm have one statistic each, whose error is one random number. For
# G groups that is the same with G in place of N. Roundings of equal values are equal: where either
# limit is exceeded, N is the number of different values expected.

RARE = 20.0
"""t: false alarms have a probability of exp(−t)."""
SIGMAS = 6.0
UNEVEN = 1.5
"""Groups of unlike size, as channels with scales of their own have, average out by less."""
LOOKED_AT = 1 << 18
"""Elements among which different values are counted."""


@dataclass(frozen=True)
class SharedError:
    """Standard deviations of an element's error, and what all may share."""

    rtol: float
    """Relative to the element."""
    atol: float
    drift: float
    group: float = 0.0
    """Standard deviation of what the elements of a group err alike, relative to their rms."""
    groups: int = 1


def exceeded(
    found: ArrayDifference, allowed: SharedError, expected: Array
) -> tuple[str, Bound] | None:
    """Return the criterion that fails, in a word, and a bound that at least one element is then
    beyond."""
    if found.outside or not 0 < found.square_expected < math.inf:
        return None
    for word, error, limit in criteria(found, allowed):
        if error > limit(found.elements) and error > limit(_different(expected)):
            size = math.sqrt(found.square_expected / found.elements)
            tight = limit(_different(expected))
            relative = word == "bias"
            return word, Bound(tight if relative else 0.0, 0.0 if relative else tight * size)
    return None


def criteria(
    found: ArrayDifference, allowed: SharedError
) -> tuple[tuple[str, float, Callable[[int], float]], ...]:
    """Return for each criterion its name, the found value, and a function that maps the number of
    independent errors to the allowed value."""
    square, count = found.square_expected, found.elements
    deviation = math.hypot(allowed.rtol, allowed.atol * math.sqrt(count / square))
    common = allowed.drift + SIGMAS * UNEVEN * allowed.group / math.sqrt(allowed.groups)
    weighted = math.hypot(
        allowed.rtol * math.sqrt(found.fourth_expected), allowed.atol * math.sqrt(square)
    )

    def spread(independent: int) -> float:
        apart = _farthest(deviation, independent)
        return allowed.drift + apart + _farthest(allowed.group, allowed.groups)

    def bias(independent: int) -> float:
        repeated = max(1.0, count / max(1, independent))
        return common + SIGMAS * weighted * math.sqrt(repeated) / square

    def mean(independent: int) -> float:
        return common + SIGMAS * deviation / math.sqrt(max(1, independent))

    both = max(abs(found.projected), abs(found.projected_up)) / square
    offset = abs(found.total) / math.sqrt(count * square)
    return ("spread", found.relative_l2, spread), ("bias", both, bias), ("mean", offset, mean)


def _farthest(deviation: float, independent: int) -> float:
    """Return the largest likely root mean square of `independent` random numbers."""
    part = RARE / max(1, independent)
    return deviation * math.sqrt(1 + 2 * math.sqrt(part) + 2 * part)


def _different(expected: Array) -> int:
    """Return the number of different values; if there are very many elements, among some."""
    step = max(1, expected.size // LOOKED_AT)
    some = expected[::step]
    return int(np.unique(np.asarray(some, np.float64)).size * min(step, expected.size))


Noise = tuple[float, float, float]
"""Error of a reference: the largest, the root mean square, and that relative to its values."""
NO_NOISE: Noise = (0.0, 0.0, 0.0)
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
    looser: tuple[tuple[str, Tolerance], ...] = ()
    """Flags that allow more, the strictest first: to say which of them takes a wrong result."""


@dataclass(frozen=True)
class Circumstances:
    """Properties besides the graph that a bound depends on."""

    inputs: Storages | None = None
    """The data, to measure how large it is; without it as the default distributions make it."""
    math: str = "fp32"
    """The run's math mode: ``tf32`` and ``fast`` let operands be rounded and functions be
    approximated."""
    rounded_reference: bool = False
    """The reference has the outputs' own types and errs itself: golden tensors, another engine.
    The float64 reference does neither."""
    expected: Storages | None = None
    """The reference's outputs by uid, for the sizes of what passes between the graphs of a
    chain."""
    noise: Mapping[int, Noise] | None = None
    """Rounding errors of the reference of a user's operator, by uid (`reference/noise.py`)."""


Overrides = Mapping[str, Mapping[str, Any]]
"""Fields of `Tolerance` with their values, by tensor name or uid, ``""`` for every output."""


def tolerances(
    graph: Graph,
    policy: str = "default",
    rtol: float | None = None,
    atol: float | None = None,
    circumstances: Circumstances | None = None,
    overrides: Overrides | None = None,
) -> dict[int, Tolerance]:
    """Return the tolerance of every output, by uid. ``rtol`` and ``atol`` win over everything
    else."""
    if policy not in POLICIES:
        raise UsageError(f"--tolerance: no policy {policy!r}; choose from {', '.join(POLICIES)}")
    found = POLICIES[policy](graph, circumstances or Circumstances())
    flags = {name: value for name, value in (("rtol", rtol), ("atol", atol)) if value is not None}
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
    elif key not in ("rtol", "atol", "rms"):
        raise GraphError(where, "unknown; known are rtol, atol, rms, validator, tensors, reason")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphError(where, f"expected a number, got {value!r}")
    elif not (math.isfinite(value) and value >= 0):
        raise GraphError(where, f"expected a finite number of at least 0, got {value!r}")


def _changed(row: Tolerance, values: Mapping[str, Any], source: str) -> Tolerance:
    """Return the tolerance with these values. Element-wise ones (`rtol`, `atol`) remove an rms
    threshold, and the limits of errors that all elements share."""
    if not values:
        return row
    by_element = bool({"rtol", "atol"} & set(values))
    rms = values.get("rms", None if by_element else row.rms)
    shared = None if by_element or rms is not None else row.shared
    return replace(row, **{**values, "rms": rms}, shared=shared, looser=(), source=source)


def _exact(source: str) -> Tolerance:
    return Tolerance(0.0, 0.0, f"{source}: exact")


def _is_exact(tensor: Tensor) -> bool:
    return DTYPES[tensor.data_type].kind in ("integer", "boolean")


def by_roundoff(graph: Graph, circumstances: Circumstances) -> dict[int, Tolerance]:
    from bench_run.validate.roundoff import OPERAND_UNITS, output_errors
    from bench_run.validate.roundoff.chain import Between, chain_errors, measured

    sizes = {uid: measured(storage) for uid, storage in (circumstances.inputs or {}).items()}
    modes = tuple(OPERAND_UNITS)
    asked, *looser = modes[modes.index(circumstances.math) :]
    if circumstances.noise is not None:
        return {
            t.uid: _by_noise(t, circumstances.noise.get(t.uid, NO_NOISE)) for t in graph.outputs
        }
    if isinstance(graph, ChainGraph):
        expected = circumstances.expected or {}
        links = graph.sources & set(expected)
        between = {uid: Between.of(np.asarray(expected[uid])) for uid in links}
        errors = {mode: chain_errors(graph, sizes, between, mode) for mode in (asked, *looser)}
    else:
        errors = {mode: output_errors(graph, sizes, mode) for mode in (asked, *looser)}

    found: dict[int, Tolerance] = {}
    for tensor in graph.outputs:
        row, *others = (
            _of_output(tensor, errors[mode][tensor.uid], circumstances.rounded_reference)
            for mode in (asked, *looser)
        )
        flags = zip((f"--math {mode}" for mode in looser), others, strict=True)
        different = tuple((flag, other) for flag, other in flags if other != row)
        found[tensor.uid] = replace(row, looser=different)
    return found


NOISE_FACTOR = 8.0
"""An implementation may err by as many times the noise of its reference. NumPy and PyTorch stay
within 1 (four operators in float, half and bfloat16); kernels that compute in half need more."""
SHARED_FACTOR = 3.0
"""The same for errors of all elements together, of which NumPy and PyTorch stay within 0.5."""


def _by_noise(tensor: Tensor, noise: Noise) -> Tolerance:
    """Return a tolerance in which an element may err by a multiple of the largest error, and all
    together by a few times the mean error, so that a common error of all elements is found."""
    if _is_exact(tensor):
        return _exact("default")
    row = DTYPES[tensor.data_type]
    unit, (largest, rms, relative) = row.unit_roundoff, noise
    source = f"default: {NOISE_FACTOR:.0f} times the rounding errors of the file's reference"
    shared = SharedError(
        rtol=unit,
        atol=SHARED_FACTOR * rms + row.smallest,
        drift=SHARED_FACTOR * relative,
    )
    atol = min(NOISE_FACTOR * largest + row.smallest, row.largest)
    return Tolerance(2 * unit, atol, source, shared=shared)


def _of_output(tensor: Tensor, error: Estimate | None, rounded_reference: bool) -> Tolerance:
    """Return the tolerance of an output. Errors of both sides add up if the reference errs itself:
    independent ones like a root."""
    from bench_run.validate.roundoff.estimate import ROUNDING_DEVIATION

    row = DTYPES[tensor.data_type]
    if _is_exact(tensor):
        return _exact("default")
    if row.kind == "scale":
        return Tolerance(0.25, 0.0, "default: powers of two are exact")
    if error is None:
        source = "fallback: no rule for one of the operations"
        return Tolerance(FALLBACK + 2 * row.unit_roundoff, FALLBACK, source)
    sides = 2 if rounded_reference else 1
    smallest = ROUNDING_DEVIATION * row.unit_roundoff * row.smallest
    root = math.sqrt(sides)
    shared = SharedError(
        rtol=root * error.relative_deviation,
        atol=root * math.hypot(error.deviation, smallest),
        drift=sides * error.drift,
        group=root * error.group,
        groups=error.groups,
    )
    atol = min(sides * error.atol, row.largest)  # more than the type holds allows everything
    return Tolerance(sides * error.rtol, atol, "default", shared=shared)


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
    "default": by_roundoff,
    "hipdnn": by_table,
}
