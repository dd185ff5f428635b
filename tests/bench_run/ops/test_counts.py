"""Flops of operators against a count of the steps of their formulas, and bytes against hand counts.

The convention (bench_run/docs/operators.md): an arithmetic step, a comparison, a selection and one
evaluation of a special function are one each for every element; a fused multiply-add is two; work
on what was reduced is left out; moving data is none.
"""

from __future__ import annotations

import pytest

from bench_run.graph.make import make_graphs
from bench_run.graph.work import flops, moved_bytes

LARGEST = 40


class Counted:
    """An array of which only the length is known; each step on a whole one is counted."""

    steps = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def step(self, *others: object) -> Counted:
        size = max([self.size, *(x.size for x in others if isinstance(x, Counted))])
        if size >= LARGEST:
            Counted.steps += size
        return Counted(size)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = step
    __truediv__ = __rtruediv__ = __pow__ = __lt__ = __gt__ = __le__ = __ge__ = step
    __neg__ = step

    def __eq__(self, other: object) -> Counted:  # type: ignore[override]
        return self.step(other)

    __hash__ = None  # type: ignore[assignment]


def fn(x: Counted, *_: object) -> Counted:
    """One evaluation of a special function, a comparison or a selection."""
    return x.step(*_)


def total(x: Counted, length: int = 5) -> Counted:
    """Combine all of a row: a step for each element of it."""
    if x.size >= LARGEST:
        Counted.steps += x.size
    return Counted(x.size // length)


def select(mask: Counted, a: object, b: object) -> Counted:
    return mask.step(a, b)


ONE = [
    "cos",
    "sinh",
    "cosh",
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "degrees",
    "radians",
    "exp2",
    "expm1",
    "log2",
    "log10",
    "log1p",
    "square",
    "cbrt",
    "round",
    "rint",
    "fix",
    "trunc",
    "sign",
    "mod",
    "fmod",
    "pow",
    "iadd",
    "isub",
    "imul",
    "idiv",
    "imod",
    "sin",
    "tan",
    "exp",
    "log",
    "sqrt",
    "abs",
    "neg",
    "erf",
    "floor",
    "ceil",
    "add",
    "sub",
    "mul",
    "div",
    "max_op",
    "min_op",
    "cmp_eq",
    "cmp_gt",
    "where",
    "cumsum",
    "cumprod",
]
FORMULAS = {
    **dict.fromkeys(ONE, lambda x, *_: fn(x)),
    "rsqrt": lambda x: 1 / fn(x),
    "rcbrt": lambda x: 1 / fn(x),
    "reciprocal": lambda x: 1 / x,
    "clip": lambda x: fn(fn(x)),
    "selu": lambda x: 1.05 * select(x > 0, x, 1.67 * fn(x)),
    "hard_sigmoid": lambda x: fn(fn(0.2 * x + 0.5)),
    "softsign": lambda x: x / (1 + fn(x)),
    "log_sigmoid": lambda x: -fn(1 + fn(-x)),
    "mish": lambda x: x * fn(fn(1 + fn(x))),
    "hard_swish": lambda x: x * fn(fn(x / 6 + 0.5)),
    "sigmoid": lambda x: 1 / (1 + fn(-x)),
    "hypot": lambda x, b: fn(fn(x) + fn(b)),
    "sum": lambda x: total(x),
    "mean": lambda x: total(x) / 5,
    "prod": lambda x: total(x),
    "amax": lambda x: total(x),
    "argmax": lambda x: total(x),
    "nansum": lambda x: total(fn(x)),
    "norm": lambda x: fn(total(x * x)),
    "logsumexp": lambda x: fn(total(fn(x))),
    "var": lambda x: total(fn(x)) / 5 - fn(total(x) / 5),
    "softmax": lambda x: (e := fn(x)) / total(e),
    "softmin": lambda x: (e := fn(-x)) / total(e),
    "log_softmax": lambda x: x - fn(total(fn(x))),
    "sgd_update": lambda w, g: w - 0.1 * (g + 0.01 * w),
    "signsgd_update": lambda w, g: w - 0.1 * (fn(g) + 0.01 * w),
    "sgd_momentum_update": lambda w, g: w + (0.9 * w - 0.1 * (g + 0.01 * w)),
    "adagrad_update": lambda w, g: w - 0.1 * (g / fn((w + g * g) + 1e-7) + 0.01 * w),
    "sin_bwd": lambda x, dy: dy * fn(x),
    "cos_bwd": lambda x, dy: -dy * fn(x),
    "tan_bwd": lambda y, dy: dy * (1 + y * y),
    "arcsin_bwd": lambda x, dy: dy / fn(1 - x * x),
    "arctan_bwd": lambda x, dy: dy / (1 + x * x),
    "exp_bwd": lambda y, dy: dy * y,
    "log_bwd": lambda x, dy: dy / x,
    "sqrt_bwd": lambda y, dy: dy / (2 * y),
    "square_bwd": lambda x, dy: dy * 2 * x,
    "reciprocal_bwd": lambda y, dy: -dy * y * y,
    "abs_bwd": lambda x, dy: dy * fn(x),
    "erf_bwd": lambda x, dy: dy * 1.1 * fn(-x * x),
    "selu_bwd": lambda x, dy: dy * 1.05 * select(x > 0, 1, 1.67 * fn(x)),
    "softsign_bwd": lambda x, dy: dy / fn(1 + fn(x)),
    "mul_bwd": lambda x, dy: (dy * x, dy * x),
    "div_bwd": lambda x, dy: (dy / x, -dy * x / (x * x)),
    "softmax_bwd": lambda y, dy: y * (dy - total(dy * y)),
    "log_softmax_bwd": lambda y, dy: dy - fn(y) * total(dy),
    "logsumexp_bwd": lambda x, dy: Counted(8) * fn(x - 1),
    "var_bwd": lambda x, dy: Counted(8) * (x - total(x) / 5) / 4,
    "cumsum_bwd": lambda x, dy: fn(dy),
    "sum_bwd": lambda x, dy: dy,
}
BY_HAND = {
    # 2·n·c·k of the product, n·k of the bias
    "dense: n=4 c=16 k=8": 2 * 4 * 16 * 8 + 4 * 8,
    "matmul: m=3 n=4 k=5": 2 * 3 * 4 * 5,
    "matmul_bwd: m=3 n=4 k=5": 2 * 2 * 3 * 4 * 5,
    "rnn_cell: n=3 i=4 h=5": 2 * 3 * 5 * (4 + 5),
    "lstm_cell: n=3 i=4 h=5": 4 * 2 * 3 * 5 * (4 + 5),
    "gru: t=2 n=3 i=4 h=5": 2 * 3 * 2 * 3 * 5 * (4 + 5),
    "residual_cell: n=3 h=5": 2 * 3 * 5 * (5 + 5),
    "sequential_rnn_cell: n=3 h=5": 2 * 2 * 3 * 5 * (5 + 5),
    # x², four sums, alpha/size in two steps, bias, power, division
    "lrn: n=1 c=6 h=2 w=2 size=5": 24 * (1 + 4 + 2 + 1 + 1 + 1),
    # sum, square, sum of squares, subtract, two products, add: as of a batch norm in training
    "instance_norm: n=1 c=6 h=2 w=2": 24 * 7,
    "batchnorm_training: n=1 c=6 h=2 w=2": 24 * 7,
    "l1_loss: n=4 c=10": 40 * 3,
    "l2_loss: n=4 c=10": 40 * 3,
    "hinge_loss: n=4 c=10": 40 * 4,
    "softmax_cross_entropy_loss: n=4 c=10": 40 * 2,
    "norm: dims=10x10": 200,
    "take: n=7 c=4 k=5": 0,
    "take_bwd: n=7 c=4 k=5": 5 * 4,
    "softmax_fwd_bwd: dims=8x5": 40 * (3 + 4),
    "conv_fwd: n=1 c=2 h=4 w=4 k=3 r=3 s=3": 2 * 3 * 4 * 2 * 9,
    "nn.ConvTranspose2d: n=1 in_channels=3 out_channels=5 h=8 w=8 kernel_size=3 bias=0": 17_280,
}
BYTES = {
    # k rows of c numbers read and written, k indices read
    "take: n=7 c=4 k=5 index=int32": 2 * 5 * 4 * 4 + 5 * 4,
    "take: n=7 c=4 k=5 index=int64": 2 * 5 * 4 * 4 + 5 * 8,
    "embedding: n=7 c=4 k=5 index=int32 dtype=half": 2 * 5 * 4 * 2 + 5 * 4,
    "softmax: dims=8x5": 2 * 40 * 4,
    "sum: dims=8x5": 40 * 4 + 8 * 4,
    "slice_axis: dims=8x6": 2 * 8 * 3 * 4,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_flops_are_the_steps_of_the_formula(name):
    (graph,) = make_graphs(f"{name}: dims=8x5")
    whole = [Counted(40)] * (FORMULAS[name].__code__.co_argcount or 1)
    Counted.steps = 0
    FORMULAS[name](*whole)
    assert flops(graph) == Counted.steps


@pytest.mark.parametrize("spec", BY_HAND)
def test_flops_are_those_counted_by_hand(spec):
    assert flops(make_graphs(spec)[0]) == BY_HAND[spec]


@pytest.mark.parametrize("spec", BYTES)
def test_bytes_are_those_counted_by_hand(spec):
    assert moved_bytes(make_graphs(spec)[0]) == BYTES[spec]


def test_seventy_operations_and_more_are_counted():
    assert len(FORMULAS) + len(BY_HAND) >= 70
