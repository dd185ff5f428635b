"""conv, convfp16, convbfp16, convint8: ordinary and transposed convolutions."""

from __future__ import annotations

from typing import Any

from bench_run.errors import GraphError
from bench_run.graph.driver.ask import Answer, Ask, notes, refused, spec

AXES = ("d", "h", "w")
_KEYS = ("fil", "pad", "conv_stride", "dilation")

DIRECTIONS = {1: "conv_fwd", 2: "conv_dgrad", 4: "conv_wgrad"}
"""Bit of ``-F`` → operation; of a transposed convolution, see `TRANSPOSED`."""

TRANSPOSED = {1: "conv_dgrad", 2: "conv_fwd", 4: "conv_wgrad"}
"""The driver's forward is the data gradient of the convolution that goes the other way."""


def convert(ask: Ask, data_type: str) -> Answer:
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
    return Answer(specs, _notes(ask))


def shape_items(ask: Ask) -> dict[str, Any]:
    """Items of a convolution's op spec, as the line gives them."""
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
    """``same`` and ``valid`` overwrite the pads, but not with dilation, nor when transposed."""
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
    """The driver makes an output of length 1 where the filter is larger than the padded input."""
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
    """The convolution whose data gradient the driver's forward is: its x is the driver's y."""
    axes = tuple(axis for axis in AXES if axis in items)
    lengths = tuple(items[axis] for axis in axes)
    extra = tuple(ask.values[f"trans_output_pad_{axis}"] for axis in axes)
    rows = zip(
        axes, lengths, items["stride"], _taps(items), items["dilation"], items["pad"], extra,
        strict=True,
    )  # fmt: skip
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


def _notes(ask: Ask) -> tuple[str, ...]:
    lost = ask.from_log and ask.values["mode"] == "trans"
    return notes(
        (
            (bool(ask.values["bias"]), "bias left out: the driver adds it in a separate operation"),
            (lost, "the log does not hold the output padding of a transposed convolution"),
        )
    )
