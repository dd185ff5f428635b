"""CBAInfer: convolution, bias, batch norm and activation in one."""

from __future__ import annotations

from typing import Any

from bench_run.graph.driver.activations import activation
from bench_run.graph.driver.ask import Answer, Ask, notes, refused, spec
from bench_run.graph.driver.conv import check_window, shape_items
from bench_run.graph.driver.flags import CBA

_FUSIONS = ("cbna", "cna", "na", "cn", "cba", "ca", "cb")
"""By fusion mode: convolution, bias, norm, activation."""

_NEW_FLAGS = frozenset(flag.long for flag in CBA if flag.newer)


def convert(ask: Ask, data_type: str) -> Answer:
    if ask.from_log:
        return refused("the log of a fusion lacks its activation, norm mode and true data type")
    values, new = ask.values, bool(ask.given & _NEW_FLAGS) or data_type == "bfloat16"
    fusion = _FUSIONS[int((values["fusion_mode"] or 0) if new else values["forw"])]
    if new and values["forw"] not in ("0", "1"):
        return refused("fusions run forward only")
    if "n" in fusion and values["bnMode"] == "0":
        return refused("batch norm per activation (-M 0) has no hipDNN graph")
    ops, own = ["conv_fwd"] if "c" in fusion else [], dict[str, Any]()
    ops += ["bias"] if "b" in fusion else []
    ops += ["batchnorm_inference_variance"] if "n" in fusion else []
    if "a" in fusion:
        chosen = activation(ask, "activMode", values["alpha"], values["beta"])
        if isinstance(chosen, str):
            return refused(f"activation {values['activMode']}: {chosen}")
        ops.append(chosen[0])
        own = chosen[1]
    ignored = not new and values["group_count"] > 1
    items = _items(ask, "c" in fusion, ignored)
    rows = (
        (True, f"read as the {'newer' if new else 'older'} dialect of {ask.base}"),
        (ignored, "-g left out: the older driver ignores it"),
    )
    return Answer((spec("+".join(ops), {**items, **own, "dtype": data_type}),), notes(rows))


def _items(ask: Ask, with_conv: bool, ungrouped: bool) -> dict[str, Any]:
    if ungrouped:
        ask = Ask(ask.base, {**ask.values, "group_count": 1}, ask.given, ask.from_log, ask.where)
    items = shape_items(ask)
    if with_conv:
        check_window(ask, items)
        return items
    return {
        key: items[key] for key in ("spatial", "n", "c", "d", "h", "w", "layout") if key in items
    }
