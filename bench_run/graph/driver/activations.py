"""activ, activfp16, and the activation numbers that other operations use."""

from __future__ import annotations

from typing import Any

from bench_run.graph.driver.ask import Answer, Ask, notes, refused, spec

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
    """The operation of an activation number, or why there is none."""
    number = ask.values[flag]
    if number == _POWER:
        return "a power of a sum is not a single node"
    if number not in _MODES:
        raise ask.error(flag, "choose from 0 to 10")
    if number == _TANH and not alpha == beta == 1:
        return "tanh with factors is not a single node"
    op, own = _MODES[number]
    return op, {key: {"alpha": alpha, "beta": beta}[name] for key, name in own.items()}


def convert(ask: Ask, data_type: str) -> Answer:
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
