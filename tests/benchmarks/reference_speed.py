"""Time of the float64 reference beside PyTorch's float64 on the same CPU, measured in one run.

    python tests/benchmarks/reference_speed.py [BATCH]

BATCH (default 1) is that of the convolutions: all distinct ones of ResNet-50, in three directions.
The two sides take turns and each row is the best of its repetitions; the ratio is reference over
PyTorch, so below 1 the reference is the faster.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F

from bench_run.graph.model import Node, Tensor
from bench_run.reference import OPERATIONS

Row = tuple[str, Callable[[], object], Callable[[], object]]

RESNET50 = (
    # channels in, size, channels out, window, stride
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1),
    (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2),
    (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
)


def normal(*dims: int) -> np.ndarray:
    return np.random.default_rng(dims).standard_normal(dims)


def reference(kind: str, inputs: dict, outputs: dict, **attributes: object) -> Callable:
    node = Node(kind, "", "float", {}, {}, attributes)
    tensors = {p: Tensor(0, p, "double", d, (1,) * len(d)) for p, d in outputs.items()}
    return lambda: OPERATIONS[kind](node, inputs, tensors)


def convolutions(batch: int) -> Iterator[Row]:
    for channels, size, filters, window, stride in RESNET50:
        pad = window // 2
        out = (size + 2 * pad - window) // stride + 1
        x = normal(batch, channels, size, size)
        w = normal(filters, channels, window, window)
        dy = normal(batch, filters, out, out)
        tx, tw, tdy = map(torch.from_numpy, (x, w, dy))
        more = {"pre_padding": (pad, pad), "post_padding": (pad, pad), "stride": (stride, stride)}
        more |= {"dilation": (1, 1), "conv_mode": "cross_correlation"}
        yield (
            "conv forward",
            reference("ConvolutionFwdAttributes", {"x": x, "w": w}, {"y": dy.shape}, **more),
            lambda a=tx, b=tw, s=stride, p=pad: torch.conv2d(a, b, None, s, p),
        )
        yield (
            "conv data gradient",
            reference("ConvolutionBwdAttributes", {"dy": dy, "w": w}, {"dx": x.shape}, **more),
            lambda a=tx, b=tw, d=tdy, s=stride, p=pad: torch.nn.grad.conv2d_input(
                a.shape, b, d, s, p
            ),
        )
        yield (
            "conv weight gradient",
            reference("ConvolutionWrwAttributes", {"x": x, "dy": dy}, {"dw": w.shape}, **more),
            lambda a=tx, b=tw, d=tdy, s=stride, p=pad: torch.nn.grad.conv2d_weight(
                a, b.shape, d, s, p
            ),
        )


def attention() -> Iterator[Row]:
    q, k, v = (normal(1, 1, 2048, n) for n in (64, 64, 64))
    tensors = [torch.from_numpy(a) for a in (q, k, v)]
    for causal in (False, True):
        yield (
            f"sdpa 2048 x 64{' causal' * causal}",
            reference(
                "SdpaAttributes", {"q": q, "k": k, "v": v}, {"o": q.shape}, causal_mask=causal
            ),
            lambda c=causal: F.scaled_dot_product_attention(*tensors, is_causal=c),
        )


def batchnorm() -> Iterator[Row]:
    x, channel = normal(32, 64, 56, 56), normal(64)
    flat = torch.from_numpy(channel)
    per_channel = channel.reshape(1, 64, 1, 1)
    inputs = {"x": x, **dict.fromkeys(("mean", "scale", "bias"), per_channel)}
    inputs |= {"inv_variance": np.abs(per_channel), "epsilon": np.array([1e-5])}
    tx = torch.from_numpy(x)
    yield (
        "batchnorm inference",
        reference("BatchnormInferenceAttributes", inputs, {"y": x.shape}),
        lambda: F.batch_norm(tx, flat, flat.abs(), flat, flat),
    )
    yield (
        "batchnorm training",
        reference("BatchnormAttributes", inputs, {"y": x.shape}),
        lambda: F.batch_norm(tx, None, None, flat, flat, training=True),
    )


def others() -> Iterator[Row]:
    a, b = normal(1024, 1024), normal(1024, 1023)
    ta, tb = map(torch.from_numpy, (a, b))
    yield (
        "matmul 1024",
        reference("MatmulAttributes", {"a": a, "b": b}, {"c": b.shape}),
        lambda: ta @ tb,
    )
    row = normal(768)
    y, trow = normal(4096, 768), torch.from_numpy(row)
    ty = torch.from_numpy(y)
    yield (
        "layernorm 4096 x 768",
        reference(
            "LayernormAttributes",
            {"x": y, "scale": row, "bias": row, "epsilon": np.array([1e-5])},
            {"y": y.shape},
            normalized_dim_count=1,
        ),
        lambda: F.layer_norm(ty, (768,), trow, trow),
    )
    yield (
        "gelu 4096 x 768",
        reference("PointwiseAttributes", {"in_0": y}, {"out_0": y.shape}, operation="gelu_fwd"),
        lambda: F.gelu(ty),
    )


def best_ms(sides: tuple[Callable, Callable], seconds: float = 0.3) -> list[float]:
    """The fastest repetition of each side, in turns, at least three of each."""
    best, rounds, end = [float("inf")] * 2, 0, time.perf_counter() + seconds
    while rounds < 3 or time.perf_counter() < end:
        for side, run in enumerate(sides):
            start = time.perf_counter()
            run()
            best[side] = min(best[side], (time.perf_counter() - start) * 1e3)
        rounds += 1
    return best


def main() -> None:
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    totals: dict[str, np.ndarray] = {}
    for rows in (convolutions(batch), attention(), batchnorm(), others()):
        for name, *sides in rows:
            totals[name] = totals.get(name, np.zeros(2)) + best_ms(tuple(sides))
    print(f"{'operation':24}{'reference':>12}{'torch':>12}{'ratio':>8}")
    for name, (ours, theirs) in totals.items():
        print(f"{name:24}{ours:9.1f} ms{theirs:9.1f} ms{ours / theirs:8.2f}")


if __name__ == "__main__":
    main()
