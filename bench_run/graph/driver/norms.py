"""bnorm and its types; layernorm, addlayernorm, t5layernorm."""

from __future__ import annotations

from typing import Any

from bench_run.graph.driver.activations import activation
from bench_run.graph.driver.ask import Answer, Ask, notes, refused, spec
from bench_run.graph.driver.descriptor import read_descriptor

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
    items = {**_shape(ask), **own, "dtype": data_type, **_types(ask, data_type)}
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
    """Whether statistics of the batch are saved, and running ones are used. The log has the two
    flags the other way round."""
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


def _types(ask: Ask, data_type: str) -> dict[str, str]:
    """Statistics, and apart from them scale and bias, which share the type of x."""
    return {"stats": STATISTICS.get(ask.base, "float"), "affine": data_type}


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
    made = notes(((plain, "scale and bias are there, the driver has none: feed ones and zeros"),))
    if ask.base.startswith("add"):
        if values["forw"] != "1":
            return refused("an addition before layer norm is converted forward only")
        return Answer((spec("add+layernorm", items),), made)
    gradient = {**items, "eps": None}
    return Answer(_both(ask, "layernorm", items, gradient), made)


def convert_t5layernorm(ask: Ask, data_type: str) -> Answer:
    dims = read_descriptor(ask, "input").dims
    if len(dims) < 2:
        raise ask.error("input", "needs two axes or more")
    items = {"dims": dims, "last": 1, "dtype": data_type}
    forward = {**items, "eps": ask.values["eps"], "phase": "training"}
    plain = ask.values["mode"] == "5"
    made = notes(((plain, "a scale is there, the driver has none: feed ones"),))
    return Answer(_both(ask, "rmsnorm", forward, items), made)


def _both(ask: Ask, op: str, forward: dict[str, Any], gradient: dict[str, Any]) -> tuple[str, ...]:
    """``-F``: 0 both directions, 1 forward, 2 backward."""
    specs = {"1": spec(op, forward), "2": spec(f"{op}_bwd", gradient)}
    return tuple(text for way, text in specs.items() if ask.values["forw"] in ("0", way))
