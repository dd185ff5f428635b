"""Matrix product with batches. See graphs/FORMAT.md.

C[…, M, N] = Σ_k A[…, M, k]·B[…, k, N]; a transposed operand is a matter of its strides.
Flops: 2·batch·M·N·K.
"""

from __future__ import annotations

from bench_run.graph.operations.base import NodeView, Operation, Port, expect_dims, expect_rank


def check(view: NodeView) -> None:
    rank = len(view["a"].dims)
    expect_rank(view, "a", 2, 8)
    for port in ("b", "c"):
        expect_rank(view, port, rank, rank)
    a, b, c = (view[port].dims for port in ("a", "b", "c"))
    if b[-2] != a[-1]:
        what = f"has dims {list(b)}, expected {a[-1]} rows, the columns of a"
        raise view.port_error("b", what)
    for port, dims in (("a", a), ("b", b)):
        if any(whole % part for part, whole in zip(dims[:-2], c[:-2], strict=True)):
            what = f"has batch dims {list(dims[:-2])}, expected divisors of c's {list(c[:-2])}"
            raise view.port_error(port, what)
    expect_dims(view, "c", (*c[:-2], a[-2], b[-1]), "rows of a, columns of b")


ROWS = (
    Operation(
        type="MatmulAttributes",
        name="matmul",
        family="matmul",
        inputs=(Port("a"), Port("b")),
        outputs=(Port("c"),),
        check=check,
        flops=lambda view: 2 * view["c"].elements * view["a"].dims[-1],
    ),
)
