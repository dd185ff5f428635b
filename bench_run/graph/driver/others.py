"""pool, gemm, reduce, tensorop."""

from __future__ import annotations

import re
from typing import Any

from bench_run.graph.driver.ask import Answer, Ask, notes, refused, spec
from bench_run.graph.driver.conv import AXES
from bench_run.graph.driver.descriptor import read_descriptor

_POOLS = {"max": "maxpool", "avg": "avgpool", "avg_in": "avgpool_padded"}
_REDUCTIONS = ("add", "mul", "min", "max", "amax", "avg", "norm1", "norm2")
_TENSOROPS = {"2": "add", "3": "mul", "4": "min_op", "5": "max_op"}


def convert_pool(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    if values["input"].isdigit():
        return refused("-W with a bare number is an older dialect whose strides are not documented")
    for flag in ("dinput", "output", "doutput"):
        if values[flag] is not None:
            return refused(f"a descriptor of its own for --{flag} is not converted")
    x = read_descriptor(ask, "input")
    if x.layout is None or len(x.dims) not in (4, 5):
        return refused("strides of no known layout are not converted")
    axes = AXES[-(len(x.dims) - 2) :]
    items = {
        **dict(zip(("n", "c", *axes), x.dims, strict=True)),
        **_windows(ask, x.dims[2:], axes),
        "spatial": len(axes),
        "layout": x.layout,
        "dtype": data_type,
    }
    ways = ("fwd",) if values["forw"] == "1" else ("bwd",) if ask.from_log else ("fwd", "bwd")
    op = _POOLS[values["mode"]]
    index = {"index": True} if op == "maxpool" and "bwd" in ways else {}
    made = {"fwd": spec(op, {**items, **index}), "bwd": spec(f"{op}_bwd", items)}
    lost = ask.from_log and "pad_mode" not in ask.given
    return Answer(
        tuple(made[way] for way in ways), notes(((lost, "the log does not hold the padding mode"),))
    )


def _windows(ask: Ask, lengths: tuple[int, ...], axes: tuple[str, ...]) -> dict[str, Any]:
    """Window, stride and padding; ``same`` may pad more after than before."""
    values = ask.values
    window, stride, pad = (
        tuple(values[f"{name}_{axis}"] for axis in axes) for name in ("win", "pool_stride", "pad")
    )
    post = pad
    if values["pad_mode"] == "valid":
        pad = post = tuple(0 for _ in axes)
    if values["pad_mode"] == "same":
        rows = zip(lengths, window, stride, strict=True)
        total = tuple(max(0, (-(-i // s) - 1) * s + k - i) for i, k, s in rows)
        pad = tuple(t // 2 for t in total)
        post = tuple(t - t // 2 for t in total)
    for axis, length, k, before, after in zip(axes, lengths, window, pad, post, strict=True):
        if k > length + before + after:
            raise ask.error(f"win_{axis}", "is larger than the padded input")
    return {"window": window, "stride": stride, "pad": pad, "pad_post": post}


def convert_gemm(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    column = values["isColMajor"] == "1"
    letters = ("t" if column != (values[flag] == "1") else "n" for flag in ("transA", "transB"))
    items = {
        "batch": values["batch_count"] if values["batch_count"] > 1 else None,
        "m": values["a_h"],
        "n": values["b_w"],
        "k": values["a_w"],
        "layout": "".join(letters),
        "c_layout": "col" if column else "row",
        "dtype": data_type,
    }
    scaled = values["alpha"] != 1 or values["beta"] != 0
    return Answer(
        (spec("matmul", items),), notes(((scaled, "alpha and beta left out: C = A·B is run"),))
    )


def convert_reduce(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    if values["alpha"] != 1 or values["beta"] != 0:
        return refused("alpha and beta of a reduction have no hipDNN node")
    dims, axes = _commas(ask, "DimLengths", 1), _commas(ask, "DimsToReduce", 0)
    if max(axes) >= len(dims):
        raise ask.error("DimsToReduce", f"choose from 0 to {len(dims) - 1}")
    items = {"dims": dims, "axes": axes, "dtype": data_type}
    return Answer((spec(f"reduce_{_REDUCTIONS[int(values['ReduceOp'])]}", items),))


def _commas(ask: Ask, flag: str, least: int) -> tuple[int, ...]:
    text: str = ask.values[flag]
    if not re.fullmatch(r"\d{1,18}(,\d{1,18})*", text) or min(map(int, text.split(","))) < least:
        raise ask.error(flag, f"expected whole numbers from {least} with commas between")
    return tuple(map(int, text.split(",")))


def convert_tensorop(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    op = _TENSOROPS.get(values["tensor_op"])
    if op is None:
        return refused("setting and scaling a tensor have no hipDNN node")
    if (values["alpha"], values["beta"], values["gamma"]) != (1, 1, 0):
        return refused("factors of a tensor operation have no single hipDNN node")
    flags = {"n": "batchsize", "c": "in_channels", "h": "in_h", "w": "in_w"}
    lengths = {key: values[flag] for key, flag in flags.items()}
    return Answer((spec(op, {**lengths, "dtype": data_type, "layout": "nchw"}),))
