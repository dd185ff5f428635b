"""Triton: a product with knobs, softmax over rows, and attention.

    bench-run --op 'matmul: m=4096 n=4096 k=4096 dtype=half' --a torch:cuda --b kernel@in_triton.py
    bench-run tune --op 'matmul: m=4096 n=4096 k=4096 dtype=half' --engine kernel@in_triton.py
    bench-run suite:operators --a torch:cuda --b kernel@in_triton.py

Attention follows Dao, Fu, Ermon, Rudra and Ré, FlashAttention, 2022: the softmax is computed block
by block with a running maximum and sum.
"""

import triton
import triton.language as tl

from bench_run import kernel

FLOATS = ("half", "bfloat16")


@triton.jit
def _matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    # Tiles are numbered so that GROUP rows of tiles share the columns of b in the L2 cache.
    tile = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    m = first + tile % (GROUP * columns) % height
    n = tile % (GROUP * columns) // height
    rm, rn, rk = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] + k < K), other=0.0)
        right = tl.load(pb, mask=(rk[:, None] + k < K) & (rn[None, :] < N), other=0.0)
        total = tl.dot(left, right, total)
        pa += BK * sak
        pb += BK * sbk
    pc = c + rm[:, None] * scm + rn[None, :] * scn
    tl.store(pc, total.to(c.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@kernel(
    "matmul",
    dtypes=FLOATS,
    where=lambda p: len(p["a"].dims) == 2,
    knobs={"BM": (128, 64), "BN": (256, 128), "BK": (64, 32), "STAGES": (3, 4), "WARPS": (8, 4)},
)
def matmul(p):
    (M, K), N = p["a"].dims, p["b"].dims[1]
    strides = (*p["a"].strides, *p["b"].strides, *p["c"].strides)
    knobs = p.knobs
    grid = (triton.cdiv(M, knobs["BM"]) * triton.cdiv(N, knobs["BN"]),)

    def run(a, b, c):
        _matmul[grid](
            a,
            b,
            c,
            M,
            N,
            K,
            *strides,
            BM=knobs["BM"],
            BN=knobs["BN"],
            BK=knobs["BK"],
            GROUP=8,
            num_stages=knobs["STAGES"],
            num_warps=knobs["WARPS"],
        )

    return run


@triton.jit
def _softmax(x, y, stride, cols, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    row = tl.program_id(0) * stride
    value = tl.load(x + row + place, mask=place < cols, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=0))
    value = value / tl.sum(value, axis=0)
    tl.store(y + row + place, value.to(y.dtype.element_ty), mask=place < cols)


@kernel("softmax")
def softmax(x, y):
    rows, cols = x.shape
    _softmax[(rows,)](x, y, x.stride(0), cols, BLOCK=triton.next_power_of_2(cols))


@triton.jit
def _attention(
    q,
    k,
    v,
    o,
    scale,
    S,
    T,
    sq,
    sk,
    sv,
    so,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head * S * D + rows[:, None] * sq + d[None, :], mask=rows[:, None] < S)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    end = min(T, (tl.program_id(0) + 1) * BM) if CAUSAL else T
    for begin in range(0, end, BN):
        keys = begin + tl.arange(0, BN)
        inside = keys < T
        key = tl.load(k + head * T * D + keys[None, :] * sk + d[:, None], mask=inside[None, :])
        scores = tl.dot(query, key) * (scale * 1.4426950408889634)
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        share, factor = tl.exp2(scores - now[:, None]), tl.exp2(largest - now)
        weight = weight * factor + tl.sum(share, axis=1)
        value = tl.load(
            v + head * T * D + keys[:, None] * sv + d[None, :], mask=inside[:, None], other=0.0
        )
        total = tl.dot(share.to(value.dtype), value, total * factor[:, None])
        largest = now
    result = (total / weight[:, None]).to(o.dtype.element_ty)
    tl.store(o + head * S * D + rows[:, None] * so + d[None, :], result, mask=rows[:, None] < S)


@kernel(
    "sdpa",
    dtypes=FLOATS,
    where=lambda p: p["q"].dims[-1] in (32, 64, 128) and p["q"].dims[1] == p["k"].dims[1],
    knobs={"BM": (128, 64), "BN": (64, 32), "STAGES": (3, 2), "WARPS": (4, 8)},
)
def sdpa(p):
    (B, H, S, D), T = p["q"].dims, p["k"].dims[2]
    for name in "qkvo":
        if p[name].strides != (
            H * (S if name in "qo" else T) * D,
            (S if name in "qo" else T) * D,
            D,
            1,
        ):
            raise NotImplementedError(f"{name} is not packed")
    scale, causal, knobs = p.attributes["attn_scale"], p.attributes["causal"], p.knobs
    grid = (triton.cdiv(S, knobs["BM"]), B * H)

    def run(q, k, v, o):
        _attention[grid](
            q,
            k,
            v,
            o,
            scale,
            S,
            T,
            D,
            D,
            D,
            D,
            D=D,
            BM=knobs["BM"],
            BN=knobs["BN"],
            CAUSAL=causal,
            num_stages=knobs["STAGES"],
            num_warps=knobs["WARPS"],
        )

    return run
