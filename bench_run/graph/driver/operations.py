"""Tensor descriptors: ``NxCxHxW``, with a layout (``,NHWC``) or explicit strides behind."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from bench_run.errors import GraphError
from bench_run.graph.driver.command import Answer, Ask, notes, refused, spec
from bench_run.graph.layouts import layout_name

_LIST = re.compile(r"\d{1,18}(x\d{1,18})*")
_LOGICAL = {3: "ncw", 4: "nchw", 5: "ncdhw"}


class Descriptor(NamedTuple):
    dims: tuple[int, ...]
    layout: str | None
    """Lower case; None: strides of no known layout."""


def read_descriptor(ask: Ask, flag: str) -> Descriptor:
    text: str = ask.values[flag]
    lengths, _, tail = text.partition(",")
    dims = _numbers(lengths)
    if dims is None or min(dims) < 1:
        raise ask.error(flag, "expected lengths joined by x, as 100x3x32x32 or 1x3x8x8,NHWC")
    axes = _LOGICAL.get(len(dims), "")
    if not tail:
        return Descriptor(dims, axes or None)
    if not tail[0].isdigit():
        layout = tail.lower()
        if not axes or sorted(layout) != sorted(axes):
            raise ask.error(flag, f"layout {layout.upper()} does not fit its lengths")
        return Descriptor(dims, layout)
    strides = _numbers(tail)
    if strides is None or len(strides) != len(dims):
        raise ask.error(flag, f"expected {len(dims)} strides joined by x")
    return Descriptor(dims, layout_name(dims, strides, axes) if axes else None)


def _numbers(text: str) -> tuple[int, ...] | None:
    return tuple(map(int, text.split("x"))) if _LIST.fullmatch(text) else None


Chosen = tuple[str, dict[str, Any]]
"""Name of the operation and the items of its op spec."""

_MODES: dict[int, tuple[str, dict[str, str]]] = {
    0: ("identity", {}),
    1: ("sigmoid", {}),
    2: ("tanh", {}),
    3: ("relu", {}),
    4: ("softplus", {}),
    5: ("abs", {}),
    7: ("relu", {"high": "alpha"}),
    8: ("relu", {"slope": "alpha"}),
    9: ("elu", {"alpha": "alpha"}),
    10: ("relu", {"low": "alpha", "high": "beta"}),
}
"""Activation number → its operation, and which of alpha and beta is which parameter of it."""

_POWER, _TANH = 6, 2

_NO_GRADIENT = ("identity", "abs")


def activation(ask: Ask, flag: str, alpha: float, beta: float) -> Chosen | str:
    """Return the operation of an activation number, or why there is none."""
    number = ask.values[flag]
    if number == _POWER:
        return "a power of a sum is not a single node"
    if number not in _MODES:
        raise ask.error(flag, "choose from 0 to 10")
    if number == _TANH and not alpha == beta == 1:
        return "tanh with factors is not a single node"
    op, own = _MODES[number]
    return op, {key: {"alpha": alpha, "beta": beta}[name] for key, name in own.items()}


def convert_activation(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    chosen = activation(ask, "mode", values["alpha"], values["beta"])
    if isinstance(chosen, str):
        return refused(f"activation {values['mode']}: {chosen}")
    op, own = chosen
    lengths = {key: values[flag] for key, flag in _LENGTHS.items()}
    items = {**lengths, **own, "dtype": data_type, "layout": "nchw"}
    wanted = {"0": ("fwd", "bwd"), "1": ("fwd",), "2": ("bwd",)}[values["forw"]]
    lacking = "bwd" in wanted and op in _NO_GRADIENT
    if lacking and wanted == ("bwd",):
        return refused(f"{op} has no backward node in hipDNN")
    specs = [spec(op, items)] if "fwd" in wanted else []
    if "bwd" in wanted and not lacking:
        specs.append(spec(f"{op}_bwd", items))
    half = ask.from_log and data_type == "float"
    rows = (
        (lacking, f"forward only: {op} has no backward node in hipDNN"),
        (half, "the log calls bfloat16 float, and drops the last axis of 5-D tensors"),
    )
    return Answer(tuple(specs), notes(rows))


_LENGTHS = {"n": "batchsize", "c": "in_channels", "h": "in_h", "w": "in_w"}


AXES = ("d", "h", "w")
_KEYS = ("fil", "pad", "conv_stride", "dilation")

DIRECTIONS = {1: "conv_fwd", 2: "conv_dgrad", 4: "conv_wgrad"}
"""Bit of ``-F`` → operation; of a transposed convolution, see `TRANSPOSED`."""

TRANSPOSED = {1: "conv_dgrad", 2: "conv_fwd", 4: "conv_wgrad"}
"""The driver's forward is the data gradient of the convolution that goes the other way."""


def convert_convolution(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    if values["tensor_vect"] or values["vector_length"] != 1:
        return refused("vectorised layouts (-Z, -L) have no hipDNN graph")
    for flag in ("in_cast_type", "wei_cast_type", "out_cast_type"):
        if values[flag] != "-1":
            return refused(f"casts inside of the kernel (--{flag}) have no hipDNN graph")
    directions = int(values["forw"]) or 7
    if data_type == "int8":
        if not directions & 1 or values["mode"] == "trans":
            return refused("int8 convolutions are forward only")
        directions = 1
    items = shape_items(ask)
    table = DIRECTIONS
    if values["mode"] == "trans":
        items, table = transposed(ask, items), TRANSPOSED
    else:
        check_window(ask, items)
    items["dtype"] = data_type
    specs = tuple(spec(op, items) for bit, op in table.items() if directions & bit)
    lost = ask.from_log and ask.values["mode"] == "trans"
    return Answer(
        specs,
        notes(
            (
                (
                    bool(ask.values["bias"]),
                    "bias left out: the driver adds it in a separate operation",
                ),
                (lost, "the log does not hold the output padding of a transposed convolution"),
            )
        ),
    )


def shape_items(ask: Ask) -> dict[str, Any]:
    """Return items of a convolution's op spec, as the line gives them."""
    values = ask.values
    rank = int(values["spatial_dim"])
    axes = AXES[-rank:]
    sizes = {key: tuple(values[f"{key}_{axis}"] for axis in axes) for key in _KEYS}
    groups = max(1, values["group_count"])
    items: dict[str, Any] = {
        "spatial": rank,
        "n": values["batchsize"],
        "c": values["in_channels"],
        "k": values["out_channels"],
        **{axis: values[f"in_{axis}"] for axis in axes},
        **dict(zip(("t", "r", "s")[-rank:], sizes["fil"], strict=True)),
        "pad": sizes["pad"],
        "stride": sizes["conv_stride"],
        "dilation": sizes["dilation"],
        "groups": groups,
        **_layouts(ask, rank),
    }
    if ask.from_log and values.get("mode") == "trans":
        items["k"] *= groups  # the logger writes K/g
    for key, flag in (("c", "in_channels"), ("k", "out_channels")):
        if items[key] % groups:
            raise ask.error("group_count", f"does not divide --{flag} {items[key]}")
    items["pad"] = _padding(ask, items, axes)
    return items


def _layouts(ask: Ask, rank: int) -> dict[str, str]:
    usual = "ncdhw" if rank == 3 else "nchw"
    found = {}
    for key, flag in (
        ("layout", "in_layout"),
        ("wlayout", "fil_layout"),
        ("ylayout", "out_layout"),
    ):
        layout = ask.values[flag]
        found[key] = usual if layout is None else layout.lower()
        if len(found[key]) != rank + 2:
            raise ask.error(flag, f"does not fit --spatial_dim {rank}")
    return found


def _padding(ask: Ask, items: dict[str, Any], axes: tuple[str, ...]) -> tuple[int, ...]:
    """Return the pads. ``same`` and ``valid`` overwrite them, but not with dilation, nor when
    transposed."""
    mode, given = ask.values["pad_mode"], items["pad"]
    lengths, taps = tuple(items[axis] for axis in axes), _taps(items)
    plain = set(items["dilation"]) == {1} or set(taps) == {1}
    if ask.values.get("mode") == "trans" or not plain or mode not in ("same", "valid"):
        return tuple(given)
    if mode == "valid":
        return tuple(0 for _ in axes)
    rows = zip(lengths, taps, items["stride"], strict=True)
    return tuple(max(0, tap - (length % step or step)) // 2 for length, tap, step in rows)


def _taps(items: dict[str, Any]) -> tuple[int, ...]:
    return tuple(items[key] for key in ("t", "r", "s") if key in items)


def check_window(ask: Ask, items: dict[str, Any]) -> None:
    """Refuse a filter larger than the padded input, for which the driver makes an output of length
    1."""
    lengths = tuple(items[axis] for axis in AXES if axis in items)
    rows = zip(lengths, _taps(items), items["pad"], items["dilation"], strict=True)
    for length, tap, pad, dilation in rows:
        reach = 1 + dilation * (tap - 1)
        if reach > length + 2 * pad:
            what = (
                f"a filter that reaches {reach} is larger than the padded input, {length + 2 * pad}"
            )
            raise GraphError(ask.where, f"{ask.base}: {what}")


def transposed(ask: Ask, items: dict[str, Any]) -> dict[str, Any]:
    """Return the convolution whose data gradient is the driver's forward: its x is the driver's
    y."""
    axes = tuple(axis for axis in AXES if axis in items)
    lengths = tuple(items[axis] for axis in axes)
    extra = tuple(ask.values[f"trans_output_pad_{axis}"] for axis in axes)
    rows = zip(
        axes,
        lengths,
        items["stride"],
        _taps(items),
        items["dilation"],
        items["pad"],
        extra,
        strict=True,
    )
    outputs = {}
    for axis, length, step, tap, dilation, pad, more in rows:
        if more >= step:
            raise ask.error(f"trans_output_pad_{axis}", f"must be below the stride, {step}")
        outputs[axis] = step * (length - 1) + 1 + dilation * (tap - 1) - 2 * pad + more
        if outputs[axis] < 1:
            raise ask.error(f"pad_{axis}", "is wider than the output")
    swapped = {"c": items["k"], "k": items["c"], **outputs}
    turned = {"layout": items["ylayout"], "ylayout": items["layout"]}
    return {**items, **swapped, **turned}


STATISTICS = {"bnormfp16": "half", "bnormbfp16": "bfloat16"}
"""Base words whose statistics have the type of x; float for all the others."""

_CHOSEN = ("epsilon 1e-5 and momentum 0.1: the driver's own differ between versions",)
_NO_ESTIMATES = (
    "inference without running statistics (-r 1): MIOpen is given no estimates and runs its"
    " training kernel, so this is training that keeps no statistics"
)


def convert_bnorm(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    if values["mode"] == "0":
        return refused(
            "batch norm per activation (-m 0, the default) has no hipDNN graph: its statistics are"
            " one value per channel; -m 1 is"
        )
    forward = {"0": "none", "1": "training", "2": "inference"}[values["forw"]]
    backward = values["back"] == "1" and forward == "none"
    dropped = values["back"] == "1" and forward != "none"
    kind = "backward" if backward else "training" if forward == "none" else forward
    untrained = kind == "inference" and not _flags(ask)[1]
    op, own = _operation(ask, "training" if untrained else kind)
    if values["activ_mode"]:
        if backward:
            return refused("batch norm backward with an activation (-f) has no single graph")
        chosen = activation(ask, "activ_mode", values["activ_alpha"], values["activ_beta"])
        if isinstance(chosen, str):
            return refused(f"activation {values['activ_mode']}: {chosen}")
        op, own = f"{op}+{chosen[0]}", {**own, **chosen[1]}
    items = {
        **_shape(ask),
        **own,
        "dtype": data_type,
        "stats": STATISTICS.get(ask.base, "float"),
        "affine": data_type,
    }
    rows = (
        (kind != "backward" and "inverse" not in op, _CHOSEN[0]),
        (untrained, _NO_ESTIMATES),
        (dropped, "backward dropped, as the driver does when both directions are requested"),
    )
    return Answer((spec(op, items),), notes(rows))


def _operation(ask: Ask, kind: str) -> tuple[str, dict[str, Any]]:
    save, run = _flags(ask)
    if kind == "training":
        return "batchnorm_training", {"saved": save, "running": run}
    if kind == "backward":
        return "batchnorm_bwd", {"saved": save}
    inverse = ask.values["inverse_variance"] == "1"
    return ("batchnorm_inference" if inverse else "batchnorm_inference_variance"), {}


def _flags(ask: Ask) -> tuple[bool, bool]:
    """Return two booleans: whether statistics of the batch are saved, and whether running ones are
    used. The log has the two flags in the opposite order."""
    save, run = ask.values["save"] == "1", ask.values["run"] == "1"
    return (run, save) if ask.from_log else (save, run)


def _shape(ask: Ask) -> dict[str, Any]:
    values, layout = ask.values, ask.values["layout"]
    depth = values["in_d"] or None
    rank = 2 if depth is None else 3
    if layout is not None and len(layout) != rank + 2:
        raise ask.error("layout", f"does not fit {rank} spatial axes")
    return {
        "spatial": rank,
        "n": values["batchsize"],
        "c": values["in_channels"],
        "d": depth,
        "h": values["in_h"],
        "w": values["in_w"],
        "layout": None if layout is None else layout.lower(),
    }


def convert_layernorm(ask: Ask, data_type: str) -> Answer:
    values = ask.values
    dims = read_descriptor(ask, "input").dims
    last = len(dims) - values["normalized_dim"]
    if last < 1:
        raise ask.error("normalized_dim", f"must be below the rank, {len(dims)}")
    if last == len(dims):
        return refused("layer norm over every axis (-o 0) leaves no row")
    items = {"dims": dims, "last": last, "eps": values["eps"], "dtype": data_type}
    plain = values["mode"] in (0, 2)
    made = notes(((plain, "scale and bias are there, the driver lacks them: feed ones and zeros"),))
    gradient = {**items, "eps": None}
    return Answer(_both(ask, "layernorm", items, gradient), made)


def convert_t5layernorm(ask: Ask, data_type: str) -> Answer:
    dims = read_descriptor(ask, "input").dims
    if len(dims) < 2:
        raise ask.error("input", "needs two axes or more")
    items = {"dims": dims, "last": 1, "dtype": data_type}
    forward = {**items, "eps": ask.values["eps"], "phase": "training"}
    plain = ask.values["mode"] == "5"
    made = notes(((plain, "a scale is there, the driver lacks it: feed ones"),))
    return Answer(_both(ask, "rmsnorm", forward, items), made)


def _both(ask: Ask, op: str, forward: dict[str, Any], gradient: dict[str, Any]) -> tuple[str, ...]:
    """Convert ``-F``: 0 both directions, 1 forward, 2 backward."""
    specs = {"1": spec(op, forward), "2": spec(f"{op}_bwd", gradient)}
    return tuple(text for way, text in specs.items() if ask.values["forw"] in ("0", way))


_POOLS = {"max": "maxpool", "avg": "avgpool", "avg_in": "avgpool_padded"}


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
    """Return window, stride and padding; ``same`` may pad more after than before."""
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


def convert_softmax(ask: Ask, data_type: str) -> Answer:
    """Convert a softmax: mode 0 is over all values of an image, mode 1 over the channels."""
    values = ask.values
    n, c, h, w = (values[flag] for flag in _LENGTHS.values())
    dims, axis = ((n, c * h * w), 1) if values["mode"] == "0" else ((n, c, h, w), 1)
    if values["mode"] == "1" and values["layout"] == "NHWC":
        dims, axis = (n, h, w, c), 3
    op = "log_softmax" if values["algorithm"] == "2" else "softmax"
    items = {"dims": dims, "axis": axis, "dtype": data_type}
    ways = ("", "_bwd") if values["forw"] == "0" else ("",)
    scaled = values["alpha"] != 1 or values["beta"] != 0
    return Answer(
        tuple(spec(f"{op}{way}", items) for way in ways),
        notes(((scaled, "alpha and beta left out: y = softmax(x) is run"),)),
    )
