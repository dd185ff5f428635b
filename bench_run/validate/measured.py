"""Allowed errors, measured: the reference is computed again from inputs that were moved a little.

How far may an honest result be from the float64 reference? The order in which an engine adds is not
known, and a model of it has as many constants as there are operations. So the graph's own formulas
tell: they are computed again in float32, and each node reads values that were moved at random by

    ±u·√K

where u is the unit roundoff of the node's compute type and K the length of its sums. A sum of K
terms, added in any order, errs by about 0.1 to 0.4·u·√K of their root sum of squares; the moves
change it by 1.4·u·√K. The difference from the reference is the *noise* of an output. With it come:

- tensors between nodes are not rounded to half or bfloat16 in the second computation, since fused
  kernels do not round them. The reference does; the difference is one rounding;
- sums inside of a node (of a norm, of the weights of attention) move by u·√K/16, all of them in one
  direction, since honest sums of terms of one sign drift alike;
- operands of a product inside a node (the probabilities of attention) are cut off to the type of
  the node's tensors, as fused kernels do. ``--math tf32`` and ``fast`` are the same rule with 11
  and 8 bits, for all operands of products;
- a custom operation may round its steps to the type of its tensors: what it reads moves by that
  too, times √K/4 where it sums, and all elements may share one such rounding. With sums of up to 64
  terms it is also computed in that type, step by step.

The bounds of an output of type T, with u_T its own unit roundoff:

- a single element may err by 4 times the noise, plus 2·u_T + u·max(4·(1 + √K/4), K/16), relative.
  The noise of elements is the lowest line a + r·|expected| above all differences, a at least 2·u of
  the root mean square;
- all elements together may err by 1.5 times the root mean square of the noise and u_T each (which
  averages out), and share 2 times the noise's own shared part plus u·(4 + √K/4) + u_T/16. Where
  expected values are alike, as in softmax of one-hot rows, sums of equal terms err alike: K/16
  then;
- what only compares, rounds or chooses is computed without moves: in its own types step by step,
  and fused in float32. What differs there jumps;
- elements that jump (those, and differences of more than 16 times those of 99 %; at most one of 50)
  may be off by their jump, and allow no other element anything.

One computation is enough for many elements; custom operations, and outputs in which elements jump,
get another one in the opposite direction, outputs of few elements three such pairs. Without
formulas (golden tensors of an unknown operation) K and u have to do: see `assumed`.

Source of √K: Higham and Mary, A new approach to probabilistic rounding error analysis, 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench_run.errors import BenchRunError
from bench_run.graph.chain import ChainGraph
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.work import flops
from bench_run.reference import OPERATIONS, refuse
from bench_run.reference.common import cut_off, inexact
from bench_run.reference.evaluate import run
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.layout import logical_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph, Node
    from bench_run.reference.common import Array, Arrays, Outputs
    from bench_run.tensors.layout import Storages

SEED = 20_261
OPERAND_BITS = {"fp32": 0, "tf32": 11, "fast": 8}
"""Significand bits of float operands of products by the run's math mode; 0: all of them."""
APPROXIMATE = 8.0
"""Moves are so many times larger in modes that let functions be a GPU's own instructions."""
FEW, FEW_PAIRS = 1000, 3
"""Outputs of fewer elements are measured that many times in both directions."""
FEW_TERMS = 64
"""Sums of custom operations up to which they are computed in the type of the data, too."""
UNIT, DOUBLE = 2.0**-24, 2.0**-40
SHIFT = 1 / 16
"""Sums inside of nodes move by as many u·√K, all in one direction: terms of one sign drift so."""
AFFORDABLE = 200_000_000_000
"""Operations up to which formulas are computed for the noise alone."""
JUMP = 16.0
LOOKED_AT = 1 << 17
"""Elements from which the line and the means are taken."""
RARE = 50
"""At most one of so many elements jumps."""


@dataclass(frozen=True)
class Noise:
    """Differences of an output between computations of the reference."""

    rtol: float
    """Slope of the line above all differences; `atol` is its height."""
    atol: float
    rms: float
    """Root mean square of what elements do not share."""
    shared: float
    """Part that all elements share, relative to their root mean square."""
    terms: int = 1
    """Length of the longest sum (K)."""
    unit: float = UNIT
    """Unit roundoff of the arithmetic (u)."""
    jumps: tuple[tuple[int, float], ...] = ()
    """Elements that jump, by flat index, and how far; none if they are not rare."""


def measure(
    graph: Graph, inputs: Storages, expected: Mapping[int, Array] | None, mode: str = "fp32"
) -> dict[int, Noise] | None:
    """Return the noise of each output by uid; None if the graph has no formulas.

    `expected`: the formulas' outputs in float64, computed here if they are not given; `mode`: the
    run's math mode.
    """
    if expected is None and (flops(graph) or 0) > AFFORDABLE:
        return None
    try:
        for part in graph.places if isinstance(graph, ChainGraph) else ():
            refuse(part.placed)
        if not isinstance(graph, ChainGraph):
            refuse(graph)
        with np.errstate(all="ignore"):
            return _measured(graph, inputs, expected, mode)
    except BenchRunError:
        return None


def _measured(
    graph: Graph, inputs: Storages, expected: Mapping[int, Array] | None, mode: str
) -> dict[int, Noise]:
    wanted = compute_expected(graph, inputs) if expected is None else expected
    graph = _with_terms(graph, inputs, wanted)
    found = _Gaps(graph, wanted)
    if found.unit == UNIT and found.terms <= FEW_TERMS:
        steps = found.terms == 1 and _fit_float(wanted)
        for keep in (False, True) if steps else (False,) if found.custom else ():
            own = _in_own_type(graph, inputs, keep=keep)
            if own is not None:
                found.add(own)
        if steps and found.count == 2:
            return found.noise()
    few = sum(t.elements for t in graph.outputs) < FEW or any(t.elements < 8 for t in graph.outputs)
    for pair in range(FEW_PAIRS if few else 1):
        found.add(compute_expected(graph, inputs, _Moves(graph, mode, 1.0, SEED + pair).evaluate))
        if few or found.custom or any(noise.jumps for noise in found.noise().values()):
            moves = _Moves(graph, mode, -1.0, SEED + pair)
            found.add(compute_expected(graph, inputs, moves.evaluate))
    return found.noise()


class _Gaps:
    """Differences of computations from what is expected."""

    def __init__(self, graph: Graph, expected: Mapping[int, Array]) -> None:
        self.terms, self.unit = longest_sum(graph), compute_unit(graph)
        self.custom = len(graph.nodes) == 1 and graph.nodes[0].custom is not None
        self._whole = any(t.data_type == "int8" and t.virtual for t in graph.tensors)
        """True if an operand may become the next whole number, which moves many outputs a little;
        seldom in a computation, and then in another one."""
        mode = graph.nodes[0].attributes.get("operation") if len(graph.nodes) == 1 else None
        self._rounds_once = mode in ("add", "sub", "mul")
        """True if arithmetic gives the nearest number of float, and shares no error."""
        self._expected, self._outputs = expected, graph.outputs
        self._gaps: dict[int, list[Array]] = {tensor.uid: [] for tensor in graph.outputs}
        self.count = 0

    def add(self, results: Mapping[int, Array]) -> None:
        kind = np.float32 if self.unit > DOUBLE else np.float64
        self.count += 1
        for uid, gaps in self._gaps.items():
            gaps.append(_gap(results[uid], self._expected[uid], kind))

    def noise(self) -> dict[int, Noise]:
        found = {}
        for tensor in self._outputs:
            gaps, expected = self._gaps[tensor.uid], self._expected[tensor.uid]
            row = DTYPES[tensor.data_type]
            within = _within(expected, gaps, row.largest)
            if row.kind in ("integer", "boolean"):
                found[tensor.uid] = Noise(0.0, 0.0, 0.0, 0.0, jumps=_whole_jumps(gaps))
                continue
            noise = _noise(gaps, within, self.terms, self.unit)
            own = row.unit_roundoff
            if self._whole:
                size = _size(expected)
                noise = replace(
                    noise,
                    atol=max(noise.atol, size * 2.0**-10),
                    rms=max(noise.rms, size * 2.0**-18),
                    shared=max(noise.shared, 2.0**-18),
                )
            if self._rounds_once:
                noise = replace(noise, unit=0.0)
            if self.custom and own > self.unit:  # all elements may share the rounding of a step
                noise = replace(noise, shared=noise.shared + own / 2)
            found[tensor.uid] = noise
        return found


def _with_terms(graph: Graph, inputs: Storages, expected: Mapping[int, Array]) -> Graph:
    """Return the graph with the length of the sums of an operation that a user's file defines: one
    input becomes NaN, and the outputs that become NaN are counted."""
    custom = graph.nodes[0].custom if len(graph.nodes) == 1 else None
    floats = [t for t in graph.inputs if DTYPES[t.data_type].kind == "float"]
    if custom is None or not custom.file or custom.terms > 1 or not floats:
        return graph
    largest = max(floats, key=lambda tensor: tensor.elements)
    probed = dict(inputs)
    probed[largest.uid] = inputs[largest.uid].copy()
    view = logical_view(probed[largest.uid], largest)
    view[tuple(length // 2 for length in largest.dims)] = math.nan
    terms = 1
    for uid, found in compute_expected(graph, probed).items():
        if found.dtype.kind == "f":
            reached = int(np.isnan(found).sum()) - int(np.isnan(expected[uid]).sum())
            terms = max(terms, reached * largest.elements // max(1, found.size))
    node = replace(graph.nodes[0], custom=replace(custom, terms=terms))
    return replace(graph, nodes=(node,))


def _in_own_type(graph: Graph, inputs: Storages, *, keep: bool) -> dict[int, Array] | None:
    """Return the outputs computed in the types of the data, step by step, as eager PyTorch does;
    with `keep` in float32, as a fused kernel does. None where NumPy cannot."""

    def stepwise(node: Node, given: Arrays, outputs: Outputs) -> dict[str, Array]:
        own = {}
        for port, value in given.items():
            row = DTYPES[graph.by_uid[node.inputs[port]].data_type]
            kind = np.float32 if keep and row.bits <= 32 else row.array_type
            own[port] = value.astype(kind) if value.dtype.kind == "f" else value
        return OPERATIONS[node.type](node, own, outputs)

    table = dict.fromkeys(OPERATIONS, stepwise)
    try:
        return compute_expected(graph, inputs, lambda g, a: run(g, a, table, keep=keep))
    except (TypeError, ValueError, BenchRunError):  # of formulas, about narrow arrays
        return None


def _fit_float(expected: Mapping[int, Array]) -> bool:
    """Return True if all expected values are numbers of float32."""
    return all(
        array.dtype.kind != "f"
        or (
            np.array_equal(array.ravel()[:LOOKED_AT].astype(np.float32), array.ravel()[:LOOKED_AT])
            and np.array_equal(array.astype(np.float32), array, equal_nan=True)
        )
        for array in expected.values()
    )


class _Moves:
    """One more computation, with moved operands."""

    def __init__(self, graph: Graph, mode: str, sign: float, seed: int) -> None:
        self._graph, self._mode, self._sign = graph, mode, sign
        self._lots = np.random.default_rng(seed)

    def evaluate(self, graph: Graph, inputs: Mapping[int, Array]) -> dict[int, Array]:
        self._graph = graph
        return run(graph, inputs, dict.fromkeys(OPERATIONS, self._operation), keep=True)

    def _operation(self, node: Node, inputs: Arrays, outputs: Outputs) -> dict[str, Array]:
        by_uid = self._graph.by_uid
        unit = DTYPES[node.compute_data_type].unit_roundoff or UNIT
        terms, bits = sum_length(self._graph, node), OPERAND_BITS[self._mode]
        kind = np.float32 if unit > DOUBLE else np.float64
        own = {port: _bits(by_uid[uid].data_type) for port, uid in node.inputs.items()}
        largest = max((value.size for value in inputs.values()), default=0)
        runs_over = {p for p, v in inputs.items() if v.size * SMALL >= largest}
        narrow = min((b for p, b in own.items() if b and p in runs_over), default=0)
        size = unit * math.sqrt(terms) * (APPROXIMATE if bits else 1.0)
        if node.custom is not None and narrow:  # steps in the tensors' type
            unit += 2.0**-narrow
            size += 2.0**-narrow * max(1.0, math.sqrt(terms) / 4)
        if self._mode == "fast" and narrow:  # sums in the operands' type
            size += 2.0**-narrow * math.sqrt(terms) / 2
        multiplies = node.type.startswith(PRODUCTS) or (node.custom is not None and terms > 1)
        given = {}
        for place, (port, value) in enumerate(inputs.items()):
            if value.dtype.kind != "f" or port in EXACT:
                given[port] = value.astype(kind) if value.dtype.kind == "f" else value
                continue
            by = size if port in runs_over else unit
            moved = self._moved(value, by * (1 + place / 4), kind)
            cuts = bits and multiplies and value.size > 1 and not 0 < own[port] <= bits
            given[port] = cut_off(moved, bits) if cuts else moved
        inside = min((b for b in (bits, narrow) if b), default=0)
        with inexact(inside, self._sign * unit * SHIFT):
            return OPERATIONS[node.type](node, given, outputs)

    def _moved(self, value: Array, size: float, kind: type) -> Array:
        """Move each element by `size` of itself in one direction or the other. Single numbers
        stay: all elements would share their error."""
        if value.size == 1:
            return value.astype(kind)
        lots = self._lots.integers(0, 2, min(value.size, PERIOD), np.int8)
        factors = 1 + self._sign * size * (2.0 * lots - 1)
        moved: Array = np.empty(value.shape, kind)
        given, made = value.reshape(-1), moved.reshape(-1)
        for start in range(0, made.size, PERIOD):
            piece = slice(start, start + PERIOD)
            part = made[piece]
            np.multiply(given[piece], factors[: part.size], out=part, casting="unsafe")
        return moved


PRODUCTS = ("Matmul", "Moe", "Convolution", "Sdpa")
EXACT = ("attn_mask",)
"""Ports that are read as they are: a large number in place of −∞ would move by more than scores."""
SMALL = 16
"""Operands of less than this part (1/16) of the largest move by u: sums do not run over them."""
PERIOD = 65_521
"""Moves repeat after as many elements: a prime, so that they never fit rows."""


def _bits(data_type: str) -> int:
    """Return the significand bits of a float type narrower than float; 0 for others."""
    row = DTYPES[data_type]
    is_narrow = row.kind == "float" and row.unit_roundoff > UNIT
    return round(-math.log2(row.unit_roundoff)) if is_narrow else 0


def sum_length(graph: Graph, node: Node) -> int:
    """Return the number of terms of a node's longest sum, 1 if it sums nothing."""
    if node.custom is not None:
        return max(1, node.custom.terms)
    given = {port: graph.by_uid[uid] for port, uid in node.inputs.items()}
    made = [graph.by_uid[uid] for uid in node.outputs.values()]
    kind = node.type.removesuffix("Attributes")
    if kind.startswith(("Matmul", "Moe")):
        first = next(iter(given.values()))
        return first.dims[-1] if kind != "MoeGroupedMatmulBwd" else max(first.dims)
    if kind == "ConvolutionWrw":
        dy = given["dy"]
        return max(1, dy.elements // dy.dims[1])
    if kind.startswith("Convolution"):
        w = given["w"]
        return max(1, w.elements // w.dims[0 if kind == "ConvolutionFwd" else 1])
    if kind.startswith("Sdpa"):
        return max(given["q"].dims[2:] + given["k"].dims[2:])
    if "norm" in kind.lower() and "Inference" not in kind:
        x = given["x"]
        rows = max(1, given["scale"].elements) if "scale" in given else 1
        return max(rows, x.elements // rows)
    if kind.startswith(("Reduction", "Resample")):
        longest = max(t.elements for t in [*given.values(), *made])
        return max(1, longest // max(1, min(t.elements for t in [*given.values(), *made])))
    return 1


def longest_sum(graph: Graph) -> int:
    """Return the length of the longest sum of all nodes."""
    parts = graph.places if isinstance(graph, ChainGraph) else ()
    graphs = [part.placed for part in parts] or [graph]
    return max((sum_length(g, node) for g in graphs for node in g.nodes), default=1)


def compute_unit(graph: Graph) -> float:
    """Return the largest unit roundoff of the types that the nodes compute in."""
    units = (DTYPES[node.compute_data_type].unit_roundoff for node in graph.nodes)
    return max(units, default=0.0) or UNIT


def _gap(found: Array, expected: Array, kind: type) -> Array:
    """Return the flat differences, 0 where one is not finite."""
    gap: Array = np.empty(expected.size, kind)
    flat, expected = found.ravel(), expected.ravel()
    for start in range(0, gap.size, PERIOD):
        piece = slice(start, start + PERIOD)
        np.subtract(
            flat[piece], expected[piece], out=gap[piece], dtype=np.float64, casting="unsafe"
        )
        if not np.isfinite(gap[piece].sum()):
            np.nan_to_num(gap[piece], copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return gap


def _within(expected: Array, gaps: list[Array], largest: float) -> Array:
    """Return flat expected values, 0 where they are not numbers of the type, of which `largest` is
    the largest; there the differences become 0."""
    flat = expected.ravel()
    if np.fmax.reduce(flat, initial=0) <= largest and np.fmin.reduce(flat, initial=0) >= -largest:
        return flat
    beyond = ~(np.abs(flat) <= largest)
    for gap in gaps:
        gap[beyond] = 0.0
    return np.where(beyond, 0.0, flat)


def _noise(gaps: list[Array], expected: Array, terms: int, unit: float) -> Noise:
    """Summarise the differences of one output: what is usual in a sample of the elements, and all
    elements beyond that."""
    largest = np.abs(gaps[0])
    for gap in gaps[1:]:
        np.maximum(largest, np.abs(gap), out=largest)
    if not largest.any():
        return Noise(0.0, 0.0, 0.0, 0.0, terms, unit)
    step = max(1, largest.size // LOOKED_AT) | 1  # odd: all columns of even rows
    some = largest[::step].astype(np.float64)
    wanted = np.nan_to_num(expected[::step].astype(np.float64), posinf=0.0, neginf=0.0)
    if not some.any():
        step, some = 1, largest.astype(np.float64)
        wanted = np.nan_to_num(expected.astype(np.float64), posinf=0.0, neginf=0.0)
    line = _line(some, np.abs(wanted))
    beyond = np.flatnonzero(largest > line.slope * np.abs(expected) + line.height)
    error, size = largest[beyond].astype(np.float64), np.abs(expected[beyond]).astype(np.float64)
    jumping = (error > line.usual) & (error > line.ratio * size)
    height = np.max((error - line.slope * size)[~jumping], initial=line.height)
    stays = (some <= line.usual) | (some <= line.ratio * np.abs(wanted))
    wanted = wanted[stays]
    parts = [gap[::step].astype(np.float64)[stays] for gap in gaps]
    shared = max(_shared(part, wanted) for part in parts)
    apart = max(float(part @ part) for part in parts) - shared**2 * float(wanted @ wanted)
    rms = float(np.sqrt(np.mean(wanted**2))) if wanted.size else 0.0
    jumps = zip(beyond[jumping].tolist(), error[jumping].tolist(), strict=True)
    rare = np.count_nonzero(jumping) <= max(2, largest.size / RARE)
    return Noise(
        line.slope,
        max(float(height), 2 * unit * rms),
        rms=math.sqrt(max(0.0, apart) / max(1, wanted.size)),
        shared=shared,
        terms=terms,
        unit=unit,
        jumps=tuple(jumps) if rare else (),
    )


def _whole_jumps(gaps: list[Array]) -> tuple[tuple[int, float], ...]:
    """Return the elements of whole numbers or truth values that differ, if they are rare."""
    largest = np.max([np.abs(gap) for gap in gaps], axis=0)
    places = np.flatnonzero(largest)
    if places.size > max(2, largest.size / RARE):
        return ()
    return tuple(zip(places.tolist(), largest[places].tolist(), strict=True))


class _Line(NamedTuple):
    """The lowest line, height + slope·size, above all errors but those that jump."""

    slope: float
    height: float
    usual: float
    """Largest error that is not a jump."""
    ratio: float
    """The same, relative to the size: a jump is beyond both."""


def _line(error: Array, size: Array) -> _Line:
    """Return the line of the smallest geometric mean."""
    concerned = (error > 0) | (size > 0)
    some, of = error[concerned], size[concerned]
    relative = some / np.maximum(of, TINY)
    usual, ratio = (
        JUMP * float(np.quantile(each, 0.99, method="lower")) for each in (some, relative)
    )
    stays = (some <= usual) | (some <= ratio * of)
    some, of, relative = some[stays], of[stays], relative[stays]
    steepest = float(relative.max(initial=0.0))

    def height(slope: float) -> float:
        return max(0.0, float(np.max(some - slope * of, initial=0.0)))

    slopes = (0.0, *(steepest * 4.0**-i for i in range(SLOPES)))
    best = min(slopes, key=lambda s: float(np.mean(np.log(height(s) + s * of + TINY))))
    return _Line(best, height(best), usual, ratio)


SLOPES, TINY = 10, 1e-300


CHANCE = 3.0
"""Standard deviations of a mean."""


def _shared(gap: Array, expected: Array) -> float:
    """Return the largest part of the differences that all elements share, relative to the root
    mean square of `expected`: a factor, or an offset, beyond what chance makes of errors apart."""
    square = float(expected @ expected)
    if not square:
        return 0.0
    factors = abs(float(gap @ expected)), abs(float(gap @ np.abs(expected)))
    offset = abs(float(gap.sum())) / math.sqrt(gap.size * square)
    apart = math.sqrt(float(gap @ gap) / square / gap.size)
    return max(0.0, max(*(factor / square for factor in factors), offset) - CHANCE * apart)


ASSUMED = 16.0
"""Factor where the length of sums may not be known."""


def _size(values: Array) -> float:
    """Return the root mean square of the finite ones."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite.astype(np.float64) ** 2))) if finite.size else 0.0


def assumed(graph: Graph, expected: Mapping[int, Array]) -> dict[int, Noise]:
    """Return a wider noise, from the graph alone: √K units of the coarsest type in it, relative
    to the root mean square of what is expected."""
    terms = longest_sum(graph)
    found = {}
    for tensor in graph.outputs:
        unit = max(compute_unit(graph), DTYPES[tensor.data_type].unit_roundoff / 2)
        size = _size(expected[tensor.uid])
        part = ASSUMED * unit * math.sqrt(terms)
        found[tensor.uid] = Noise(part, part * size, part * size, part, terms, unit)
    return found
