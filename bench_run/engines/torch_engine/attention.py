"""Scaled dot-product attention, forward: PyTorch's fused kernels where they know all that is asked,
otherwise the formula in the compute type.

The fused call knows scale, additive bias, masks and grouped heads. Statistics, sinks, sequence
lengths, pages and fp8 factors take the formula. A row that sees no key gives 0.

On a processor many scores are never held as a whole: the formula goes by blocks of heads and query
rows, and takes large masks too. The fused call gets what its flash kernel takes, since PyTorch
holds all scores twice if that kernel does not serve.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.nn import functional

from bench_run.engines.torch_engine.op import NATIVE, BoundKernel, TorchOp, elementwise
from bench_run.engines.torch_engine.workspace import BLOCK_SCORES, MASK_SCORES
from bench_run.graph.operations.sdpa import band

if TYPE_CHECKING:
    from bench_run.graph.operations.sdpa import Band


T: TypeAlias = torch.Tensor

LAUNCHES = 40
FACTORS = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")


@dataclass(frozen=True)
class Scale:
    """Factor of q·kᵀ: a number, or a tensor that is read at run time."""

    value: float | None

    @classmethod
    def of(cls, op: TorchOp) -> Scale:
        if op.has("scale"):
            return cls(op.constant("scale"))
        value = op.attribute("attn_scale_value")
        return cls(1.0 / math.sqrt(op.dims("q")[3]) if value is None else float(value))

    @property
    def ports(self) -> tuple[str, ...]:
        return ("scale",) if self.value is None else ()

    def factor(self, given: Mapping[str, T], dtype: torch.dtype) -> T | float:
        if self.value is not None:
            return self.value
        return elementwise(given["scale"], dtype).reshape(())


def per_head(value: T, heads: int, dtype: torch.dtype) -> T:
    """Return a factor for all, or one for each (batch, head), to multiply [B, H, …] with."""
    value = elementwise(value, dtype)
    if value.numel() == 1:
        return value.reshape(())
    value = value.reshape(value.shape[0], -1, 1, 1)
    return value.repeat_interleave(heads // value.shape[1], dim=1)


def shared(value: T, heads: int) -> T:
    """Return key or value heads, each repeated for the query heads that share it."""
    times = heads // value.shape[1]
    return value if times == 1 else value.repeat_interleave(times, dim=1)


@dataclass(frozen=True)
class Visibility:
    """Keys that a row sees; lengths are [B] tensors, or None if all rows or keys are real."""

    band: Band
    queries: int
    keys: int

    def hidden(
        self, device: torch.device, rows: T | None, columns: T | None, seen: slice = slice(None)
    ) -> T | None:
        """Return a mask that is True for hidden keys, by [Sq, Skv] or [B, 1, Sq, Skv]; None if all
        are seen. `seen`: for these rows only."""
        i = torch.arange(self.queries, device=device)[seen, None]
        j = torch.arange(self.keys, device=device)[None, :]
        found = None if columns is None else (j >= _by_batch(columns))
        shift = self._shift(rows, columns)
        if self.band.right is not None:
            found = _either(found, j > i + shift + self.band.right)
        if self.band.left is not None:
            found = _either(found, j < i + shift - self.band.left)
        return found

    def _shift(self, rows: T | None, columns: T | None) -> T | int:
        if not self.band.bottom_right:
            return 0
        last_key = self.keys if columns is None else _by_batch(columns)
        last_row = self.queries if rows is None else _by_batch(rows)
        return last_key - last_row


@dataclass(frozen=True)
class Block:
    """Some query rows of some heads of some sequences."""

    batch: slice
    heads: slice
    rows: slice

    def of(self, value: T, *, by_keys: bool = False) -> T:
        """Return its part of a value with axes for sequences, heads and rows (`by_keys`: for keys
        in place of rows); an axis of length 1 is shared by all of these and kept whole."""
        missing = 4 - value.ndim
        value = value.reshape((1,) * missing + tuple(value.shape)) if missing else value
        wanted = (self.batch, self.heads, slice(None) if by_keys else self.rows)
        pairs = zip(value.shape, wanted, strict=False)
        return value[tuple(slice(None) if length == 1 else part for length, part in pairs)]


ALL = slice(None)
WHOLE = (Block(ALL, ALL, ALL),)


def blocks_of(dims: tuple[int, int, int, int], device: torch.device) -> tuple[Block, ...]:
    """Return the blocks of scores [B, H, Sq, Skv]. Their sizes follow from these alone, so that
    results are the same on every machine. One where the scores are few, on a device, whose kernels
    are launched for all at once, and while `torch.compile` looks, which would unroll them."""
    if math.prod(dims) <= BLOCK_SCORES or device.type != "cpu" or torch.compiler.is_compiling():
        return WHOLE
    steps, rest = [1, 1, 1], BLOCK_SCORES // max(1, dims[3])
    for axis in (2, 1, 0):
        steps[axis] = min(max(1, rest), dims[axis])
        rest //= dims[axis]
    cuts = (
        [slice(i, min(i + step, length)) for i in range(0, length, step)]
        for length, step in zip(dims[:3], steps, strict=True)
    )
    return tuple(Block(*parts) for parts in itertools.product(*cuts))


def add_up(
    blocks: tuple[Block, ...],
    compute: Callable[[Block], dict[str, T]],
    dims: Mapping[str, tuple[int, ...]],
    by_keys: tuple[str, ...] = (),
) -> dict[str, T]:
    """Add up the results of blocks in place: arrays of `dims`, [B, H, Sq, …], of [B, H, Skv, …] in
    `by_keys`; an axis of length 1 is shared."""
    if len(blocks) == 1:
        return compute(blocks[0])
    whole: dict[str, T] = {}
    for block in blocks:
        for name, value in compute(block).items():
            if name not in whole:
                whole[name] = value.new_zeros(dims[name])
            block.of(whole[name], by_keys=name in by_keys).add_(value)
    return whole


def rows_present(queries: int, rows: T) -> T:
    """Return a mask that is True for the rows within a sequence's length: [B, 1, Sq, 1]."""
    return torch.arange(queries, device=rows.device)[:, None] < _by_batch(rows)


def _by_batch(lengths: T) -> T:
    return lengths.reshape(-1, 1, 1, 1)


def _either(first: T | None, second: T) -> T:
    return second if first is None else first | second


# Queries, keys and values of each sequence: dense, padded or paged.
#
# Padded: seq_len_q and seq_len_kv hold one real length a sequence. Paged: k and v are pages
# [pages, Hk, page size, D], named by page_table_k and page_table_v [sequences, pages of one]; a q
# with a batch of 1 then holds the sequences one after another, seq_len_q rows each.

Given = Mapping[str, T]


@dataclass(frozen=True)
class Sequences:
    ports: tuple[str, ...]
    count: int
    queries: int
    """Rows of the longest sequence."""
    keys: int
    packed: bool

    @classmethod
    def of(cls, op: TorchOp) -> Sequences:
        lengths = op.present("seq_len_q", "seq_len_kv")
        pages = op.present("page_table_k", "page_table_v")
        batch, _, rows, _ = op.dims("q")
        if not pages:
            return cls(lengths, batch, rows, op.dims("k")[2], False)
        count = op.dims("page_table_k")[0]
        keys = op.tensor("page_table_k").elements // count * op.dims("k")[2]
        return cls((*lengths, *pages), count, rows, keys, batch == 1 and count > 1)

    def lengths(self, given: Given) -> tuple[T | None, T | None]:
        """Return lengths of queries and of keys."""
        found = (given.get(port) for port in ("seq_len_q", "seq_len_kv"))
        rows, columns = (None if n is None else n.reshape(-1).to(torch.int64) for n in found)
        return rows, columns

    def keys_of(self, pool: T, table: T | None) -> T:
        """Return the keys as [sequences, heads, keys, size]."""
        if table is None:
            return pool
        pages = pool[table.reshape(self.count, -1).to(torch.int64)]
        return pages.transpose(1, 2).flatten(2, 3)

    def queries_of(self, q: T, rows: T | None) -> T:
        """Return the queries as [sequences, H, Sq, D]; packed rows are spread out."""
        if not self.packed or rows is None:
            return q
        first = (rows.cumsum(0) - rows)[:, None]
        places = first + torch.arange(self.queries, device=q.device)
        return q[0][:, places.clamp_max(self.queries - 1)].transpose(0, 1)

    def packed_again(self, value: T, rows: T | None, empty: float) -> T:
        """Return the inverse of `queries_of`; rows of q that belong to no sequence become
        `empty`."""
        if not self.packed or rows is None:
            return value
        ends = rows.cumsum(0)
        places = torch.arange(self.queries, device=value.device)
        owner = torch.searchsorted(ends, places, right=True)
        inside = owner < self.count
        owner = owner.clamp_max(self.count - 1)
        row = (places - (ends - rows)[owner]).clamp(0, self.queries - 1)
        found = value[owner, :, row].transpose(0, 1)
        return torch.where(inside[None, :, None], found, empty)[None]


STATISTICS = ("stats", "max", "sum_exp")
OUTPUTS = ("o", *STATISTICS, "amax_s", "amax_o")
LENGTHS = ("seq_len_q", "seq_len_kv", "page_table_k", "page_table_v")


def attention(op: TorchOp) -> BoundKernel:
    same_heads = op.dims("k")[1] == op.dims("v")[1]
    native = len({op.dtype(port) for port in ("q", "k", "v")}) == 1 and op.dtype("q") in NATIVE
    is_small = op.device.type != "cpu" or _mask_scores(op) <= MASK_SCORES
    more = op.present(*FACTORS, *LENGTHS, *OUTPUTS[1:], "sink_token")
    if native and same_heads and is_small and not more:
        return _fused(op)
    where, scale = Sequences.of(op), Scale.of(op)
    mask = Visibility(band(op.node.attributes), where.queries, where.keys)
    formula = Formula(where, scale, mask, op.compute, op.dims("q")[1])
    optional = op.present("attn_mask", "sink_token", *FACTORS)
    ports = ("q", "k", "v", *scale.ports, *where.ports, *optional)
    outputs = op.present(*OUTPUTS)
    shapes = [op.dims(port) for port in outputs]

    def function(*tensors: T) -> tuple[T, ...]:
        found = formula.run(dict(zip(ports, tensors, strict=True)))
        return tuple(found[port].reshape(dims) for port, dims in zip(outputs, shapes, strict=True))

    return BoundKernel(ports, outputs, function, 2 * LAUNCHES)


def _is_causal(op: TorchOp) -> bool:
    """Return True if the fused call masks by itself."""
    mask = band(op.node.attributes)
    square = op.dims("q")[2] == op.dims("k")[2] or not mask.bottom_right
    return mask.left is None and mask.right == 0 and not op.has("attn_mask") and square


def _mask_scores(op: TorchOp) -> int:
    """Return the number of elements of the mask that the fused call would need."""
    mask = band(op.node.attributes)
    unmasked = _is_causal(op) or (mask.left is None and mask.right is None)
    return 0 if unmasked else op.dims("q")[2] * op.dims("k")[2]


def _fused(op: TorchOp) -> BoundKernel:
    dtype = op.working_type("q", "k", "v", result="o")
    scale, mask = Scale.of(op), band(op.node.attributes)
    queries, keys = op.dims("q")[2], op.dims("k")[2]
    biases = op.present("attn_mask")
    causal = _is_causal(op)
    on_processor = op.device.type == "cpu"
    hidden = None if causal else Visibility(mask, queries, keys).hidden(op.device, None, None)
    blind = None if hidden is None else hidden.all(dim=-1, keepdim=True)
    if blind is not None and not bool(blind.any()):
        blind = None
    grouped = op.dims("q")[1] != op.dims("k")[1]
    attend = _attend_on_processor if on_processor else functional.scaled_dot_product_attention

    def function(q: T, k: T, v: T, *rest: T) -> T:
        q, k, v = (elementwise(value, dtype) for value in (q, k, v))
        if scale.value is None:
            q = q * elementwise(rest[-1], dtype)
        bias = elementwise(rest[0], dtype) if biases else None
        o = attend(
            q,
            k,
            v,
            _mask(bias, hidden),
            is_causal=causal,
            scale=1.0 if scale.value is None else scale.value,
            enable_gqa=grouped,
        )
        return o if blind is None else torch.where(blind, 0.0, o)

    return BoundKernel(("q", "k", "v", *biases, *scale.ports), ("o",), function, LAUNCHES)


def _attend_on_processor(q: T, k: T, v: T, mask: T | None, **options: Any) -> T:
    """Call fused attention in a form for PyTorch's flash kernel (2.13: one head size, contiguous
    elements, masks of two or four dims): zeros next to a head change nothing."""
    size, size_v = q.shape[3], v.shape[3]
    if size != size_v:
        q, k, v = (functional.pad(x, (0, max(size, size_v) - x.shape[3])) for x in (q, k, v))
    q, k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v))
    if mask is not None and mask.ndim not in (2, 4):
        mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    return functional.scaled_dot_product_attention(q, k, v, mask, **options)[..., :size_v]


def _mask(bias: T | None, hidden: T | None) -> T | None:
    """Return the mask of the fused call: a bias, or the keys that are seen."""
    if hidden is None:
        return bias
    return ~hidden if bias is None else bias.masked_fill(hidden, -math.inf)


@dataclass(frozen=True)
class Formula:
    """p = softmax(scale·(q·kᵀ) + bias) over the keys in sight, o = p·v, and statistics."""

    where: Sequences
    scale: Scale
    mask: Visibility
    dtype: torch.dtype
    heads: int

    def run(self, given: Mapping[str, T]) -> dict[str, T]:
        rows, columns = lengths = self.where.lengths(given)
        q = self.where.queries_of(elementwise(given["q"], self.dtype), rows)
        k = self.where.keys_of(elementwise(given["k"], self.dtype), given.get("page_table_k"))
        q = self._factored(q, given, ("descale_q", "descale_k"))
        q, k = q * self.scale.factor(given, self.dtype), shared(k, self.heads)
        # Keys past a sequence's length hold anything, and nothing times anything may be NaN.
        v = self.where.keys_of(elementwise(given["v"], self.dtype), given.get("page_table_v"))
        if columns is not None:
            v = torch.where(rows_present(self.mask.keys, columns), v, 0.0)
        v = shared(v, self.heads)
        given = {**given, "q": q, "k": k, "v": v}
        dims = dict.fromkeys((*STATISTICS, "amax_s"), (*q.shape[:3], 1))
        dims["o"] = (*q.shape[:3], v.shape[3])
        blocks = blocks_of((*q.shape[:3], k.shape[2]), q.device)
        found = add_up(blocks, lambda block: self._block(given, lengths, block), dims)
        amax_s = found.pop("amax_s").amax()
        if rows is not None:
            found = _real_rows(found, rows_present(self.mask.queries, rows))
        found["o"] = self._factored(found["o"], given, ("descale_v", "scale_s", "descale_s"))
        found["amax_s"], found["amax_o"] = amax_s, found["o"].abs().amax()
        found["o"] = self._factored(found["o"], given, ("scale_o",))
        for port, empty in EMPTY.items():
            found[port] = self.where.packed_again(found[port], rows, empty)
        return found

    def _block(
        self, given: Mapping[str, T], lengths: tuple[T | None, T | None], block: Block
    ) -> dict[str, T]:
        """Return results for scaled queries, and keys and values of each head: o, statistics, and
        the largest probability of each row."""
        q, k, v = (block.of(given[port], by_keys=port != "q") for port in "qkv")
        scores = _masked(given, q @ k.transpose(-1, -2), self.mask, lengths, block)
        sink = self._sink(given)
        sink = None if sink is None else block.of(sink)
        # Row maxima, row sums, and exp(s − maximum).
        top = scores.amax(dim=-1, keepdim=True)
        top = top if sink is None else torch.maximum(top, sink)
        weights = (scores - _finite(top)).exp_()
        total = weights.sum(dim=-1, keepdim=True)
        if sink is not None:
            total = total + torch.exp(sink - _finite(top))
        shares = weights / torch.where(total == 0, 1.0, total)
        found = {"o": shares @ v, "max": top, "sum_exp": total}
        found["stats"] = _finite(top) + total.log()
        found["amax_s"] = shares.amax(dim=-1, keepdim=True)
        return found

    def _sink(self, given: Mapping[str, T]) -> T | None:
        if "sink_token" not in given:
            return None
        return elementwise(given["sink_token"], self.dtype).reshape(1, -1, 1, 1)

    def _factored(self, value: T, given: Mapping[str, T], ports: tuple[str, ...]) -> T:
        for port in ports:
            if port in given:
                value = value * per_head(given[port], self.heads, self.dtype)
        return value


EMPTY = {"o": 0.0, "max": -math.inf, "sum_exp": 0.0, "stats": -math.inf}
"""Results of rows that belong to no sequence."""


def _masked(
    given: Mapping[str, T],
    scores: T,
    mask: Visibility,
    lengths: tuple[T | None, T | None],
    block: Block,
) -> T:
    """Return the scores of a block with their bias, −∞ where a key is out of sight."""
    if "attn_mask" in given:
        scores = scores + elementwise(block.of(given["attn_mask"]), scores.dtype)
    rows, columns = (None if n is None else n[block.batch] for n in lengths)
    hidden = mask.hidden(scores.device, rows, columns, block.rows)
    return scores if hidden is None else scores.masked_fill(hidden, -math.inf)


def _finite(top: T) -> T:
    """Replace −∞, the maximum of nothing, by 0."""
    return torch.where(top == -math.inf, 0.0, top)


def _real_rows(found: dict[str, T], present: T) -> dict[str, T]:
    return {port: torch.where(present, value, EMPTY[port]) for port, value in found.items()}


# Scaled dot-product attention, backward, from the forward's own statistics.
#
# P = exp(s − stats), Δ = Σ_d dO·O, dS = P∘(dO·Vᵀ − Δ); dQ = scale·dS·K, dK = scale·dSᵀ·Q and dV =
# Pᵀ·dO, summed over the query heads that share a head of k or v; dbias = dS summed to its dims.


def attention_backward(op: TorchOp) -> BoundKernel:
    where, scale, dtype = Sequences.of(op), Scale.of(op), op.compute
    mask = Visibility(band(op.node.attributes), where.queries, where.keys)
    ports = ("q", "k", "v", "o", "do", "stats", *op.present("attn_mask"), *scale.ports)
    ports = (*ports, *where.ports)
    outputs = op.present("dq", "dk", "dv", "dbias")
    shapes = {port: op.dims(port) for port in outputs}
    shapes_of_four = {"dbias": (1,) * (4 - len(shapes.get("dbias", ()))) + shapes.get("dbias", ())}
    heads = {port: op.dims(port)[1] for port in ("q", "k", "v")}

    def function(*tensors: T) -> tuple[T, ...]:
        given = dict(zip(ports, tensors, strict=True))
        rows, columns = lengths = where.lengths(given)
        q, k, v, o, do = (elementwise(given[port], dtype) for port in ("q", "k", "v", "o", "do"))
        k, v = shared(k, heads["q"]), shared(v, heads["q"])
        if columns is not None:
            k, v = (torch.where(rows_present(where.keys, columns), x, 0.0) for x in (k, v))
        factor = scale.factor(given, dtype)
        scaled, delta = q * factor, (do * o).sum(dim=-1, keepdim=True)
        stats = elementwise(given["stats"], dtype).reshape(delta.shape)

        def compute(block: Block) -> dict[str, T]:
            keys, values = (block.of(x, by_keys=True).transpose(-1, -2) for x in (k, v))
            scores = _masked(given, block.of(scaled) @ keys, mask, lengths, block)
            known = block.of(stats)
            p = torch.exp(scores - torch.where(known == -math.inf, 0.0, known))
            if rows is not None:  # 0 in rows past a sequence's length
                p = torch.where(block.of(rows_present(where.queries, rows)), p, 0.0)
            gradient = p * (block.of(do) @ values - block.of(delta))
            found = {
                "dq": factor * (gradient @ keys.transpose(-1, -2)),
                "dk": factor * (gradient.transpose(-1, -2) @ block.of(q)),
                "dv": p.transpose(-1, -2) @ block.of(do),
            }
            if "dbias" in outputs:
                dims = zip(shapes_of_four["dbias"], gradient.shape, strict=True)
                found["dbias"] = gradient.sum_to_size([min(pair) for pair in dims])
            return found

        blocks = blocks_of((*q.shape[:3], k.shape[2]), q.device)
        dims = {"dq": q.shape, "dk": k.shape, "dv": v.shape, **shapes_of_four}
        found = add_up(blocks, compute, dims, by_keys=("dk", "dv"))
        found["dk"], found["dv"] = (_summed(found[f"d{port}"], heads[port]) for port in "kv")
        return tuple(found[port].reshape(shapes[port]) for port in outputs)

    return BoundKernel(ports, outputs, function, 2 * LAUNCHES)


def _summed(value: T, heads: int) -> T:
    """Sum over the query heads that share a head."""
    if value.shape[1] == heads:
        return value
    batch, _, rows, size = value.shape
    return value.reshape(batch, heads, -1, rows, size).sum(dim=2)
