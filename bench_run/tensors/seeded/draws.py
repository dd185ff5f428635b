"""Distributions: from the raw stream of a bit generator to the elements of a storage.

Only the raw 64-bit words are NumPy's (PCG64, whose stream NumPy guarantees); what follows is exact
integer arithmetic and single IEEE operations, so the same words give the same values everywhere,
whatever the version of NumPy and the vector unit of the machine.

Floats are odd multiples of a power of two, coarse enough for the type: never zero, and never
denormal unless a range is asked for that holds little else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_run.errors import UnsupportedGraphError, UsageError
from bench_run.graph.dtypes import DTYPES, DataType
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.tensors.seeded.init_plan import Init

Values = npt.NDArray[Any]
Draw = Callable[[np.random.BitGenerator, int], Values]
"""The next ``count`` values of a stream: float32, float64 or int64."""

CHUNK = 1 << 16
"""Elements at a time; even, and small enough that a step's arrays stay in the cache."""
MIXED_IN = {"zeros": (0.0,), "nan": (math.nan,), "special": (math.nan, math.inf, -math.inf)}
"""Values that kinds of ``--init`` have among uniform numbers."""
BINS = 64
"""Steps of the normal distribution for each standard deviation."""
NORMAL_REACH = 6.5
"""Standard deviations that a draw never goes beyond: a normal number does once in 12 billion."""
_MASK = (1 << 64) - 1


def bit_stream(seed: int, uid: int) -> np.random.PCG64:
    """Return the stream of a tensor; a function of seed and uid alone."""
    return np.random.PCG64(np.random.SeedSequence([seed & _MASK, uid & _MASK]))


def fill(storage: Values, draw: Draw, stream: np.random.BitGenerator) -> None:
    """Fill an array of one axis: element i is value i of the stream."""
    for start in range(0, storage.size, CHUNK):
        part = storage[start : start + CHUNK]
        part[...] = draw(stream, part.size)


def draw_of(init: Init, row: DataType) -> Draw:
    """Return the draw of a distribution for a data type. Raises `UsageError` if the type cannot
    hold it."""
    low, high = init.low, init.high
    if init.kind == "constant":
        high = low
    elif init.kind == "normal":
        low, high = low - NORMAL_REACH * high, low + NORMAL_REACH * high
    whole = row.kind in ("integer", "boolean")
    inside = row.lowest <= low and high <= row.largest and not (whole and high >= 2**63)
    fits = inside if whole else inside or not math.isfinite(low)
    fits = fits and (init.kind not in MIXED_IN or _holds(row, *MIXED_IN[init.kind]))
    if init.kind == "constant" and whole:
        fits = fits and low.is_integer()
    if init.kind == "integers":
        fits = fits and high - low < 2**32
    if not fits:
        numbers = f"{init.low:g}" if init.kind == "constant" else f"{init.low:g} {init.high:g}"
        raise UsageError(f"--init: {init.kind} {numbers} does not fit {row.name}")
    if whole:
        return INTEGER_DRAWS[init.kind](init)
    return FLOAT_DRAWS[init.kind](init, row)


def _holds(row: DataType, *values: float) -> bool:
    """Return True if a type has these values."""
    held = np.asarray(values).astype(row.array_type) if row.array_type else np.zeros(0)
    return np.array_equal(held.astype(np.float64), values, equal_nan=True)


def raw_words(stream: np.random.BitGenerator, count: int) -> npt.NDArray[np.int32]:
    words = stream.random_raw((count + 1) // 2)
    return np.asarray(words).astype("<u8", copy=False).view("<i4")[:count]


def whole_numbers(stream: np.random.BitGenerator, count: int, choices: int) -> Values:
    """Return integers in [0, choices), for up to 2^32 choices, in int64."""
    words = raw_words(stream, count).view(np.uint32).astype(np.uint64)
    return ((words * np.uint64(choices)) >> np.uint64(32)).astype(np.int64)


def _unit(stream: np.random.BitGenerator, count: int, bits: int) -> Values:
    """Return odd multiples of 2^-bits in (−1, 1), exact in float32 (bits <= 24)."""
    words = raw_words(stream, count) >> np.int32(31 - bits)
    return (words | np.int32(1)).astype(np.float32) * np.float32(2.0**-bits)


def _unit_double(stream: np.random.BitGenerator, count: int) -> Values:
    """Return odd multiples of 2^-53 in (−1, 1), exact in float64."""
    words = np.asarray(stream.random_raw(count)).view(np.int64) >> np.int64(10)
    return (words | np.int64(1)).astype(np.float64) * 2.0**-53


def uniform(init: Init, row: DataType) -> Draw:
    half, middle = (init.high - init.low) / 2, (init.high + init.low) / 2
    near_zero = middle != 0 and init.low <= 0 <= init.high
    # Fraction bits at which the smallest draw is still a normal number of the type.
    bits = max(1, min(24, math.floor(math.log2(half) - math.log2(row.smallest))))

    def draw(stream: np.random.BitGenerator, count: int) -> Values:
        double = row.name == "double"
        unit = _unit_double(stream, count) if double else _unit(stream, count, bits)
        values = unit if half == 1 else unit * unit.dtype.type(half)
        if middle != 0:
            values = values + values.dtype.type(middle)
        return _normal_numbers(values, row) if near_zero else values

    return draw


@cache
def normal_ends() -> npt.NDArray[np.uint32]:
    """Return for each step of 1/64 from 0 on the share of normal numbers whose size is at most its
    upper end, in units of 2^-32.

    2·exp(-z²/2)/sqrt(2·pi)·Σ z^(2n+1)/(1·3·…·(2n+1)) (Abramowitz and Stegun, 26.2.11), in decimal
    numbers, so that every machine has the same steps.
    """
    with localcontext(Context(prec=40)):
        twice_pi = Decimal("6.283185307179586476925286766559005768394338798750")
        ends = []
        for step in range(1, int(NORMAL_REACH * BINS) + 1):
            z = Decimal(step) / BINS
            term = total = z
            odd = 1
            while term > Decimal("1e-30"):
                odd += 2
                term = term * z * z / odd
                total += term
            share = 2 * (-z * z / 2).exp() / twice_pi.sqrt() * total
            ends.append(int(share * 2**32))
    return np.array(ends, np.uint32)


@cache
def _first_steps() -> npt.NDArray[np.int32]:
    """Return the step that the smallest word with these upper 16 bits falls in."""
    words = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return np.searchsorted(normal_ends(), words, side="right").astype(np.int32)


def normal_steps(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Return the step of each word: looked up by its upper half, then one on where the step ends;
    searched only far out, where several steps share an upper half."""
    ends, last = normal_ends(), len(normal_ends()) - 1
    steps: npt.NDArray[np.int32] = _first_steps()[words >> np.uint32(16)]
    steps += words >= ends[steps]
    np.minimum(steps, last, out=steps)
    further = (words >= ends[steps]) & (steps < last)
    if further.any():
        found = np.searchsorted(ends, words[further], side="right")
        steps[further] = np.minimum(found, last)
    return steps


def normal(init: Init, row: DataType) -> Draw:
    """Return the draw of normal numbers: a step of the distribution by one word, a place in it and
    the sign by another. Each is an odd multiple of 2^-21 of the standard deviation."""
    kind = np.float64 if row.name == "double" else np.float32

    def draw(stream: np.random.BitGenerator, count: int) -> Values:
        words = raw_words(stream, 2 * count).view(np.uint32).reshape(2, count)
        odd = (normal_steps(words[0]) << 15) + ((words[1] >> 17) | 1).view(np.int32)
        odd *= (words[1] & 1).view(np.int32) * 2 - 1
        values = odd.astype(kind)
        values *= kind(2.0**-21 * init.high)
        values += kind(init.low)
        return _normal_numbers(values, row)

    return draw


def _normal_numbers(values: Values, row: DataType) -> Values:
    """Replace numbers that are zero or denormal in the type with its smallest normal number."""
    small = np.abs(values) < row.smallest
    if small.any():
        values[small] = np.copysign(row.smallest, values[small])
    return values


def mixed(init: Init, row: DataType) -> Draw:
    """Return a draw of uniform numbers, of which one in eight is a value of `MIXED_IN`."""
    usual, values = uniform(init, row), np.asarray(MIXED_IN[init.kind])

    def draw(stream: np.random.BitGenerator, count: int) -> Values:
        numbers = usual(stream, count)
        place = whole_numbers(stream, count, 8 * len(values))
        chosen = place < len(values)
        numbers[chosen] = values[place[chosen]]
        return numbers

    return draw


def quarters(init: Init) -> Draw:
    """Return a draw of multiples of 1/4, both ends included."""
    low, high = math.ceil(init.low * 4), math.floor(init.high * 4)
    return lambda stream, count: (whole_numbers(stream, count, high - low + 1) + low) / 4


def whole_with_zeros(init: Init) -> Draw:
    low, high = math.ceil(init.low), math.floor(init.high)
    return lambda stream, count: whole_numbers(stream, count, high - low + 1) + low


def integers(init: Init) -> Draw:
    """Return a function that draws integers, both ends included. Zero is drawn only if it is an
    end: then it was requested."""
    low, high = int(init.low), int(init.high)
    skip = low < 0 < high
    choices = high - low + (0 if skip else 1)

    def draw(stream: np.random.BitGenerator, count: int) -> Values:
        values = whole_numbers(stream, count, choices) + low
        return values + (values >= 0) if skip else values

    return draw


def rounded_uniform(init: Init) -> Draw:
    """Return a function that draws uniform numbers of an integer tensor: the whole numbers of the
    range."""
    low, high = math.ceil(init.low), math.floor(init.high)
    return integers(Init("integers", low, max(low, high)))


def rounded_normal(init: Init) -> Draw:
    draw_real = normal(init, DTYPES["double"])

    def draw(stream: np.random.BitGenerator, count: int) -> Values:
        values = draw_real(stream, count)
        whole = np.rint(values)
        return np.where(whole == 0, np.copysign(1, values), whole).astype(np.int64)

    return draw


def constant(init: Init) -> Draw:
    return lambda _stream, count: np.full(count, init.low)


def powers_of_two(lowest: int, highest: int) -> Draw:
    """Return a draw of 2^k for whole k of the range, ends included."""

    def draw(stream: np.random.BitGenerator, count: int) -> Values:
        exponents = whole_numbers(stream, count, highest - lowest + 1) + lowest
        return np.ldexp(np.ones(count, np.float32), exponents.astype(np.int32))

    return draw


def _any_type(make: Callable[[Init], Draw]) -> Callable[[Init, DataType], Draw]:
    return lambda init, _row: make(init)


FLOAT_DRAWS: dict[str, Callable[[Init, DataType], Draw]] = {
    "uniform": uniform,
    "normal": normal,
    "integers": _any_type(integers),
    "constant": _any_type(constant),
    "quarters": _any_type(quarters),
    **dict.fromkeys(MIXED_IN, mixed),
}
INTEGER_DRAWS: dict[str, Callable[[Init], Draw]] = {
    "uniform": rounded_uniform,
    "normal": rounded_normal,
    "integers": integers,
    "constant": constant,
    "quarters": rounded_uniform,
    "zeros": whole_with_zeros,
}


# Inputs that are positions, lengths and page numbers: random, and always inside of their range.
#
# A wild index makes a GPU read outside of its memory, so nothing here is drawn before its range is
# known, and what graphs/FORMAT.md leaves open is refused.


Maker = Callable[[Graph, Node, Tensor, int], Values]
"""(graph, reading node, tensor, seed) → one value for each element of the tensor, in order."""


def _operand(graph: Graph, node: Node, port: str) -> Tensor | None:
    uid = node.inputs.get(port)
    return None if uid is None else graph.by_uid[uid]


def _needed(graph: Graph, node: Node, port: str) -> Tensor:
    tensor = _operand(graph, node, port)
    if tensor is None:
        raise UnsupportedGraphError(f"{node.label}: inputs cannot be made without port {port}")
    return tensor


def _lengths(node: Node, tensor: Tensor, sequences: int, longest: int, seed: int) -> Values:
    """Draw lengths between half and all of `longest`. The i-th query and key length share their
    random number, so that queries are not longer than their keys unless the tensors are."""
    if tensor.elements != sequences:
        raise UnsupportedGraphError(
            f"{node.label}: {tensor.elements} sequence lengths for {sequences} sequences; "
            "cumulative offsets are not supported"
        )
    shares = 1.0 - whole_numbers(bit_stream(seed, 0), sequences, 1 << 20) / (1 << 21)
    return np.maximum(1, np.floor(shares * longest)).astype(np.int64)


def _sequences(graph: Graph, node: Node) -> int:
    table = _operand(graph, node, "page_table_k")
    return (table or _needed(graph, node, "q")).dims[0]


def query_lengths(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    q = _needed(graph, node, "q")
    sequences = _sequences(graph, node)
    packed = q.dims[0] != sequences  # paged: all queries in one row of tokens
    longest = q.dims[2] // sequences if packed else q.dims[2]
    return _lengths(node, tensor, sequences, max(1, longest), seed)


def key_lengths(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    table, k = _operand(graph, node, "page_table_k"), _needed(graph, node, "k")
    longest = k.dims[2]
    if table is not None:
        capacity = math.prod(table.dims[1:]) * k.dims[2]
        longest = min(capacity, node.attributes.get("max_seq_len_kv") or capacity)
    return _lengths(node, tensor, _sequences(graph, node), longest, seed)


def page_numbers(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    """Draw each page once, in random order, as long as there are enough."""
    is_key = node.inputs.get("page_table_k") == tensor.uid
    pages = _needed(graph, node, "k" if is_key else "v").dims[0]
    stream = bit_stream(seed, tensor.uid)
    if tensor.elements > pages:
        return whole_numbers(stream, tensor.elements, pages)
    return _permutation(pages, stream)[: tensor.elements]


def _permutation(count: int, stream: np.random.BitGenerator) -> Values:
    return np.argsort(np.asarray(stream.random_raw(count)), kind="stable")


def first_rows(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    """Return row offsets, ascending from 0, over the rows that are computed: with an index as many
    as it has."""
    picked = _operand(graph, node, "token_index")
    rows = _needed(graph, node, "token").dims[-2] if picked is None else picked.elements
    cuts = np.sort(whole_numbers(bit_stream(seed, tensor.uid), tensor.elements, rows + 1))
    cuts[0] = 0
    return cuts


def _slots(graph: Graph, node: Node, seed: int) -> tuple[Values, int]:
    """Return a random order of the places (token, rank), and how many ranks a token has."""
    index = _needed(graph, node, "token_index")
    ranks = max(1, node.attributes.get("top_k") or 1)
    return _permutation(index.elements, bit_stream(seed, index.uid)), ranks


def token_rows(graph: Graph, node: Node, _tensor: Tensor, seed: int) -> Values:
    """Return the row numbers of tokens: a gather repeats each token top_k times; a scatter gives
    each row a place of its own."""
    order, ranks = _slots(graph, node, seed)
    if node.attributes.get("mode") == "gather":
        return order % _needed(graph, node, "token").dims[-2]
    return order // ranks


def token_ranks(graph: Graph, node: Node, _tensor: Tensor, seed: int) -> Values:
    order, ranks = _slots(graph, node, seed)
    return order % ranks


def window_winners(graph: Graph, node: Node, tensor: Tensor, seed: int) -> Values:
    """Draw, for each window, a position inside of the tensor, flattened over space."""
    target = graph.by_uid[node.outputs["dx"]].dims[2:]
    stream = bit_stream(seed, tensor.uid)
    flat = np.zeros(tensor.dims, np.int64)
    for axis, length in enumerate(target):
        pre, stride, window = (
            node.attributes[name][axis] for name in ("pre_padding", "stride", "window")
        )
        shape = [-1 if i == axis + 2 else 1 for i in range(len(tensor.dims))]
        start = np.arange(tensor.dims[axis + 2]).reshape(shape) * stride - pre
        first, last = np.maximum(start, 0), np.minimum(start + window, length) - 1
        draw = whole_numbers(stream, tensor.elements, 1 << 20).reshape(tensor.dims)
        place = first + draw * np.maximum(last - first + 1, 1) // (1 << 20)
        flat = flat * length + np.clip(place, 0, length - 1)
    return flat.reshape(-1)


MAKERS: dict[str, Maker] = {
    "seq_len_q": query_lengths,
    "seq_len_kv": key_lengths,
    "page_table": page_numbers,
    "token_offset": first_rows,
    "token_index": token_rows,
    "token_rank": token_ranks,
    "window_index": window_winners,
}
"""Generators by hint (`bench_run.graph.operations.HINTS`)."""
