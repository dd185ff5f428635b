"""Lines of MIOpenDriver, and of MIOpen's log, to graphs; duplicates are counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import bench_run.graph.driver.command as flags
import bench_run.graph.driver.operations as operations
from bench_run.errors import GraphError, UsageError
from bench_run.graph.driver.command import Answer, Ask, Words, canonical, find_words, read_flags
from bench_run.graph.make import make_graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench_run.graph.model import Graph


class Base(NamedTuple):
    data_type: str
    flags: tuple[flags.Flag, ...]
    convert: Callable[[Ask, str], Answer]


def _typed(
    word: str, table: tuple[flags.Flag, ...], convert: Callable[[Ask, str], Answer], endings: str
) -> dict[str, Base]:
    """Return rows by base word, ``word + ending``; ``-`` stands for the bare word."""
    types = {
        "-": "float",
        "fp32": "float",
        "fp16": "half",
        "bfp16": "bfloat16",
        "int8": "int8",
        "fp64": "double",
        "fp16fp32": "half",
        "bfp16fp32": "bfloat16",
    }
    return {
        word + ending.strip("-"): Base(types[ending], table, convert) for ending in endings.split()
    }


BASES: dict[str, Base] = {
    **_typed("conv", flags.CONV, operations.convert_convolution, "- fp32 fp16 bfp16 int8"),
    **_typed("bnorm", flags.BNORM, operations.convert_bnorm, "- fp16 fp16fp32 bfp16 bfp16fp32"),
    **_typed("pool", flags.POOL, operations.convert_pool, "- fp16 bfp16"),
    **_typed("activ", flags.ACTIV, operations.convert_activation, "- fp16"),
    **_typed("gemm", flags.GEMM, operations.convert_gemm, "- fp16"),
    **_typed("softmax", flags.SOFTMAX, operations.convert_softmax, "- fp16 bfp16"),
    **_typed("layernorm", flags.LAYERNORM, operations.convert_layernorm, "- fp16 bfp16"),
    **_typed("t5layernorm", flags.T5LAYERNORM, operations.convert_t5layernorm, "- fp16 bfp16"),
}
"""Base word → its type, flags and converter."""

_NO_NODE = "has no hipDNN node"
_AS_OP = "is not converted; write the operation, such as --op"
WITHOUT: dict[str, str] = {
    "CBAInfer": f"{_AS_OP} 'conv_fwd+bias+relu: n=2 c=16 h=14 w=14 k=16 r=3 s=3'",
    "CAInfer": f"{_AS_OP} 'conv_fwd+relu: n=2 c=16 h=14 w=14 k=16 r=3 s=3'",
    "addlayernorm": f"{_AS_OP} 'add+layernorm: dims=64x1024'",
    "reduce": f"{_AS_OP} 'reduce_add: dims=64x1024 axes=1'",
    "tensorop": f"{_AS_OP} 'add: dims=64x1024'",
    **dict.fromkeys(
        (
            *("groupnorm", "lrn", "dropout", "rnn", "rnn_seq", "ctc", "cat", "getitem", "rope"),
            *("prelu", "glu", "kthvalue", "adam", "reduceextreme", "reducecalculation"),
            *("softmarginloss", "multimarginloss", "sum"),
        ),
        _NO_NODE,
    ),
    **dict.fromkeys(("convfp8", "convbfp8"), "is refused by the driver itself"),
    "???": "is how the log names a type that it does not know",
}
"""Base words that are known and have no graph, with the reason; also with a type behind."""

_ENDINGS = ("fp16", "bfp16", "fp32", "fp64")


def reason_without(word: str) -> str | None:
    """Return the reason why a base word has no graph; None for one that is not known."""
    for stem in (word, *(word.removesuffix(ending) for ending in reversed(_ENDINGS))):
        if stem in WITHOUT:
            return f"{word} {WITHOUT[stem]}"
    return f"{word} {_NO_NODE}" if word.startswith(("adam", "transformersadam")) else None


@dataclass(frozen=True)
class Converted:
    """One command: its graphs, one for each direction, or a reason."""

    command: str
    """Canonical: every shape flag by its long name, in a fixed order; run flags left out."""
    where: str
    """Place of its first occurrence."""
    graphs: tuple[Graph, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()
    """Differences in kind from what the driver runs."""
    count: int = 1
    """Number of equal lines."""


@dataclass(frozen=True)
class Conversion:
    """Commands and errors of many lines."""

    commands: tuple[Converted, ...]
    errors: tuple[GraphError, ...]
    """Lines that are commands and make no sense, in order."""


def convert_line(line: str, where: str) -> Converted:
    """Return the graphs of one line. Raises `GraphError` that names the flag, its value and the
    choices, and for a line that holds no command."""
    words = find_words(line, _known_words())
    if words is None or not words.base:
        raise GraphError(where, f"no MIOpenDriver command in {line.strip()!r}")
    return _convert(words, where)


def convert_lines(text: str, where: str) -> Conversion:
    """Return the distinct commands of a text, in order of appearance, with how often each occurs.

    Lines without a command (blank ones, comments, other log lines) are skipped; lines that are
    wrong are collected. Raises `GraphError` for a text without commands.
    """
    found: dict[tuple[str, tuple[str, ...]], Converted] = {}
    errors: list[GraphError] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = find_words(line, _known_words())
        if words is None:
            continue
        try:
            made = _convert(words, f"{where}:{number}")
        except GraphError as error:
            errors.append(error)
            continue
        key = (made.command, tuple(graph.name for graph in made.graphs))
        known = found.get(key)
        found[key] = made if known is None else replace(known, count=known.count + 1)
    if not found and not errors:
        raise GraphError(where, "no MIOpenDriver command in any line")
    return Conversion(tuple(found.values()), tuple(errors))


def _known_words() -> tuple[str, ...]:
    return (*BASES, *WITHOUT)


def _convert(words: Words, where: str) -> Converted:
    if words.base not in BASES:
        reason = reason_without(words.base)
        if reason is None:
            known = ", ".join(BASES)
            raise GraphError(where, f"no base word {words.base!r}; choose from {known}")
        return Converted(" ".join((words.base, *words.flags)), where, reason=reason)
    base = BASES[words.base]
    values, given = read_flags(words, base.flags, where)
    ask = Ask(words.base, values, frozenset(given), words.from_log, where)
    answer = base.convert(ask, base.data_type)
    try:
        graphs = tuple(graph for spec in answer.specs for graph in make_graphs(spec))
    except UsageError as error:
        raise GraphError(where, str(error)) from error
    return Converted(
        canonical(words, values, base.flags),
        where,
        graphs=graphs,
        reason=answer.reason,
        notes=answer.notes,
    )


def graphs_of(commands: Iterable[Converted]) -> tuple[Graph, ...]:
    """Return all graphs of some commands, each once."""
    return tuple({graph.name: graph for made in commands for graph in made.graphs}.values())
