"""The base words of MIOpenDriver: which operation and type each one is, and how it is converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import bench_run.graph.driver.activations as activations
import bench_run.graph.driver.conv as conv
import bench_run.graph.driver.flags as flags
import bench_run.graph.driver.fused as fused
import bench_run.graph.driver.norms as norms
import bench_run.graph.driver.others as others

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.graph.driver.ask import Answer, Ask


class Base(NamedTuple):
    data_type: str
    flags: tuple[flags.Flag, ...]
    convert: Callable[[Ask, str], Answer]


def _typed(
    word: str, table: tuple[flags.Flag, ...], convert: Callable[[Ask, str], Answer], endings: str
) -> dict[str, Base]:
    """Rows ``word + ending``; ``-`` is the bare word."""
    types = {
        "-": "float", "fp32": "float", "fp16": "half", "bfp16": "bfloat16", "int8": "int8",
        "fp64": "double", "fp16fp32": "half", "bfp16fp32": "bfloat16",
    }  # fmt: skip
    return {
        word + ending.strip("-"): Base(types[ending], table, convert) for ending in endings.split()
    }


BASES: dict[str, Base] = {
    **_typed("conv", flags.CONV, conv.convert, "- fp32 fp16 bfp16 int8"),
    **_typed("bnorm", flags.BNORM, norms.convert_bnorm, "- fp16 fp16fp32 bfp16 bfp16fp32"),
    **_typed("pool", flags.POOL, others.convert_pool, "- fp16 bfp16"),
    **_typed("activ", flags.ACTIV, activations.convert, "- fp16"),
    **_typed("CBAInfer", flags.CBA, fused.convert, "- fp16 bfp16"),
    **_typed("gemm", flags.GEMM, others.convert_gemm, "- fp16"),
    **_typed("layernorm", flags.LAYERNORM, norms.convert_layernorm, "- fp16 bfp16"),
    **_typed("addlayernorm", flags.LAYERNORM, norms.convert_layernorm, "- fp16 bfp16"),
    **_typed("t5layernorm", flags.T5LAYERNORM, norms.convert_t5layernorm, "- fp16 bfp16"),
    **_typed("reduce", flags.REDUCE, others.convert_reduce, "- fp16 fp64"),
    **_typed("tensorop", flags.TENSOROP, others.convert_tensorop, "- fp16"),
}
"""Base word → its type, flags and converter."""

_NO_NODE = "has no hipDNN node"
WITHOUT: dict[str, str] = {
    "softmax": "has no node of its own in hipDNN, only inside of attention",
    "groupnorm": _NO_NODE,
    "CAInfer": "is not documented well enough to be converted",
    **dict.fromkeys(
        ("lrn", "dropout", "rnn", "rnn_seq", "ctc", "cat", "getitem", "rope", "prelu", "glu",
         "kthvalue", "adam", "reduceextreme", "reducecalculation", "softmarginloss",
         "multimarginloss", "sum"),
        _NO_NODE,
    ),
    "convfp8": "is refused by the driver itself",
    "convbfp8": "is refused by the driver itself",
    "???": "is how the log names a type that it does not know",
}  # fmt: skip
"""Base words that are known and have no graph, with the reason; also with a type behind."""

_ENDINGS = ("fp16", "bfp16", "fp32", "fp64")


def reason_without(word: str) -> str | None:
    """Why a base word has no graph; None for one that is not known."""
    for stem in (word, *(word.removesuffix(ending) for ending in reversed(_ENDINGS))):
        if stem in WITHOUT:
            return f"{word} {WITHOUT[stem]}"
    return f"{word} {_NO_NODE}" if word.startswith(("adam", "transformersadam")) else None
