"""A MIOpenDriver command out of a line, and its flags as values.

Grammar: ``base word``, then flags with exactly one value each. Of a short flag the driver reads
the first letter and drops the rest of the token (``-n128 64`` is 64), and garbage numbers count as
0: both are refused here. The last of several occurrences wins, long and short form being one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bench_run.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Values = Mapping[str, Any]
"""Long flag name → value, defaults filled in."""

_LOG_TAG = re.compile(r"\[[^\]\s]*\]|MIOpen\(")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_HELP = ("-h", "-?", "--help")


@dataclass(frozen=True)
class Words:
    """A command's tokens."""

    base: str
    flags: tuple[str, ...]
    from_log: bool
    """Printed by MIOpen itself, which spells some things unlike a person."""


def find_words(line: str, bases: Sequence[str]) -> Words | None:
    """Return the command in a line, None if there is none."""
    tokens = line.split()
    # A comment begins at a token that begins with ``#``; the flag ``-#`` does not.
    end = next((i for i, token in enumerate(tokens) if token.startswith("#")), len(tokens))
    tokens = tokens[:end]
    for place, token in enumerate(tokens):
        if re.split(r"[/\\]", token)[-1] in ("MIOpenDriver", "MIOpenDriver.exe"):
            prefix, rest = tokens[:place], tokens[place + 1 :]
            from_log = _LOG_TAG.search(" ".join(prefix)) is not None
            return Words(rest[0], tuple(rest[1:]), from_log) if rest else Words("", (), from_log)
    while tokens and re.fullmatch(r"[A-Za-z_]\w*=.*", tokens[0]):
        tokens = tokens[1:]
    if not tokens:
        return None
    # A word and a flag are a command: a misspelt base word must not pass as chatter.
    is_word = re.fullmatch(r"[A-Za-z_]\w*", tokens[0]) is not None
    has_flag = len(tokens) > 2 and re.match(r"--?[A-Za-z]", tokens[1]) is not None
    if tokens[0] not in bases and not (is_word and has_flag):
        return None
    return Words(tokens[0], tuple(tokens[1:]), from_log=False)


def read_flags(words: Words, table: Sequence[Flag], where: str) -> tuple[dict[str, Any], set[str]]:
    """Return values by long name, defaults filled in, and the names of the flags that were
    given."""
    by_name = {f"-{flag.short}": flag for flag in table} | {
        f"--{flag.long}": flag for flag in table
    }
    values = {flag.long: flag.default for flag in table}
    given: set[str] = set()
    tokens = list(words.flags)
    while tokens:
        name = tokens.pop(0)
        if name in _HELP:
            raise GraphError(where, f"{name} asks {words.base} for help and describes no shape")
        if not name.startswith("-"):
            raise GraphError(where, f"{name!r} is found where {words.base} expects a flag")
        if name not in by_name and name[:2] in by_name and re.match(r"-[^-].", name):
            letter, rest = name[:2], name[2:]
            what = f"{name}: the driver drops what follows {letter}; write {letter} {rest}"
            raise GraphError(where, what)
        if name not in by_name:
            known = ", ".join(f"-{flag.short} --{flag.long}" for flag in table)
            raise GraphError(where, f"{words.base} has no flag {name}; it knows {known}")
        if not tokens:
            raise GraphError(where, f"{name} has no value")
        flag = by_name[name]
        values[flag.long] = _value(flag, name, tokens.pop(0), where)
        given.add(flag.long)
    return values, given


def _value(flag: Flag, name: str, text: str, where: str) -> Any:
    if flag.kind == "text":
        # Layouts are read in either case, though the driver takes lower case by long
        # names only.
        spelled = text.upper() if flag.long.endswith("layout") else text
        if flag.choices and spelled not in flag.choices:
            raise GraphError(where, f"{name} {text}: choose from {', '.join(flag.choices)}")
        return spelled
    if flag.kind == "float":
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise GraphError(where, f"{name} {text}: expected a finite number")
        return value
    if _WHOLE.fullmatch(text) is None or int(text) < flag.least:
        raise GraphError(where, f"{name} {text}: expected a whole number from {flag.least}")
    return int(text)


def canonical(words: Words, values: Values, table: Sequence[Flag]) -> str:
    """Return the command with every shape flag written out, long names, in the order of the
    table."""
    shape = (flag.long for flag in table if not flag.control and values[flag.long] is not None)
    shown = ((name, values[name]) for name in shape)
    flags = (
        f"--{name} {int(value) if isinstance(value, float) and value.is_integer() else value}"
        for name, value in shown
    )
    return " ".join(("MIOpenDriver", words.base, *flags))


@dataclass(frozen=True)
class Ask:
    base: str
    values: Mapping[str, Any]
    """Long flag name → value."""
    given: frozenset[str]
    """Flags that the line itself has."""
    from_log: bool
    where: str

    def error(self, flag: str, what: str) -> GraphError:
        return GraphError(self.where, f"--{flag} {self.values[flag]}: {what}")


@dataclass(frozen=True)
class Answer:
    specs: tuple[str, ...] = ()
    """Op specs of `bench_run.graph.make`, one graph each."""
    notes: tuple[str, ...] = ()
    """Differences in kind from what the driver runs."""
    reason: str | None = None
    """Reason for a line without a graph."""


def refused(reason: str) -> Answer:
    return Answer(reason=reason)


def spec(ops: str, items: Mapping[str, Any]) -> str:
    """Return the op spec; items that are None are left out, tuples are joined by x."""
    shown = (f"{key}={_ask_show(value)}" for key, value in items.items() if value is not None)
    return f"{ops}: {' '.join(shown)}"


def _ask_show(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(str(item) for item in value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def notes(rows: Iterable[tuple[bool, str]]) -> tuple[str, ...]:
    """Return the remarks whose condition holds."""
    return tuple(text for holds, text in rows if holds)


# The flags of MIOpenDriver, one table for each operation: a letter means another thing in each.
#
# Shape flags decide the graph. Control flags (iterations, verification, tuning, printing) do not;
# they are listed, so that they differ from typing errors, and are not checked further.

Kind = Literal["int", "float", "text"]


@dataclass(frozen=True)
class Flag:
    short: str
    long: str
    default: Any = None
    kind: Kind = "int"
    least: int = 1
    """Smallest int."""
    choices: tuple[str, ...] = ()
    control: bool = False


def _lengths(rows: str) -> tuple[Flag, ...]:
    """Return parameters of type int from 1, written ``short long default``."""
    return tuple(Flag(s, long, int(d)) for s, long, d in (row.split() for row in rows.split(";")))


def _from_zero(rows: str) -> tuple[Flag, ...]:
    return tuple(
        Flag(s, long, int(d), least=0) for s, long, d in (row.split() for row in rows.split(";"))
    )


def _control(rows: str) -> tuple[Flag, ...]:
    pairs = (row.split() for row in rows.split(";"))
    return tuple(Flag(s, long, kind="text", control=True) for s, long in pairs)


def _reals(rows: str) -> tuple[Flag, ...]:
    split = (row.split() for row in rows.split(";"))
    return tuple(Flag(s, long, float(d), "float") for s, long, d in split)


def _text(short: str, long: str, default: str | None, *choices: str) -> Flag:
    return Flag(short, long, default, "text", choices=choices)


IMAGE_LAYOUTS = ("NCHW", "NHWC", "CHWN", "NCDHW", "NDHWC")

_COMMON = "i iter;t time;w wall;V verify"

_CONV_SHAPE = (
    *_lengths("n batchsize 100;c in_channels 3;! in_d 32;H in_h 32;W in_w 32;k out_channels 32"),
    *_lengths(
        "@ fil_d 3;y fil_h 3;x fil_w 3;# conv_stride_d 1;u conv_stride_h 1;v conv_stride_w 1"
    ),
    *_from_zero("$ pad_d 0;p pad_h 0;q pad_w 0"),
    *_lengths("^ dilation_d 1;l dilation_h 1;j dilation_w 1"),
    Flag("g", "group_count", 1, least=-(10**9)),
    _text("_", "spatial_dim", "2", "2", "3"),
)

CONV = (
    *_CONV_SHAPE,
    _text("m", "mode", "conv", "conv", "trans"),
    _text("z", "pad_mode", "default", "default", "same", "valid"),
    _text("F", "forw", "0", "0", "1", "2", "3", "4", "5", "6", "7"),
    *(
        _text(short, name, None, *IMAGE_LAYOUTS)
        for short, name in (("I", "in_layout"), ("f", "fil_layout"), ("O", "out_layout"))
    ),
    Flag("b", "bias", 0, least=0),
    *_from_zero("% trans_output_pad_d 0;Y trans_output_pad_h 0;X trans_output_pad_w 0"),
    Flag("Z", "tensor_vect", 0, least=0),
    Flag("L", "vector_length", 1),
    *(
        _text(short, name, "-1")
        for short, name in (("U", "in_cast_type"), ("R", "wei_cast_type"), ("T", "out_cast_type"))
    ),
    *_control(
        f"{_COMMON};r pad_val;s search;S solution;P printconv;o dump_output;d in_data;e weights;"
        "a in_bias;D dout_data;C verification_cache;G gpualloc;~ gpubuffer_check;"
        "N init_output_nan;& tuning_policy;M math_type;J use_hip_graph"
    ),
)

BNORM = (
    *_lengths("n batchsize 32;c in_channels 3;H in_h 32;W in_w 32"),
    Flag("D", "in_d", 0, least=0),
    _text("L", "layout", None, "NCHW", "NHWC", "NCDHW", "NDHWC"),
    _text("F", "forw", "0", "0", "1", "2"),
    _text("b", "back", "0", "0", "1"),
    _text("m", "mode", "0", "0", "1"),
    _text("s", "save", "0", "0", "1"),
    _text("r", "run", "0", "0", "1"),
    Flag("f", "activ_mode", 0, least=0),
    *_reals("x activ_alpha 1;y activ_beta 1"),
    _text("I", "inverse_variance", "0", "0", "1"),
    *_control(
        f"{_COMMON};P printconv;A alpha;B beta;~ gpubuffer_check;& tuning_policy;"
        "J use_hip_graph;Q ping_pong_buffers"
    ),
)

POOL = (
    _text("W", "input", "100x3x32x32,NCHW"),
    *(
        _text(short, name, None)
        for short, name in (("D", "dinput"), ("O", "output"), ("H", "doutput"))
    ),
    *_lengths(
        "Z win_d 3;y win_h 3;x win_w 3;s pool_stride_d 1;v pool_stride_h 1;u pool_stride_w 1"
    ),
    *_from_zero("o pad_d 0;p pad_h 0;q pad_w 0"),
    _text("m", "mode", "max", "max", "avg", "avg_in"),
    _text("z", "pad_mode", "default", "default", "same", "valid"),
    _text("F", "forw", "0", "0", "1"),
    *_control(
        f"{_COMMON};r pad_val;M index_position;I index_type;j in_data;k out_data;l dump_root;"
        "P print"
    ),
)

ACTIV = (
    *_lengths("n batchsize 100;c in_channels 3;H in_h 32;W in_w 32"),
    Flag("m", "mode", 3, least=0),
    *_reals("A alpha 1;B beta 1;G gamma 1"),
    _text("F", "forw", "0", "0", "1", "2"),
    *_control(f"{_COMMON};J use_hip_graph"),
)

GEMM = (
    *_lengths("m a_h 256;k a_w 256;n b_w 256;b batch_count 1"),
    _text("u", "transA", "0", "0", "1"),
    _text("v", "transB", "0", "0", "1"),
    _text("C", "isColMajor", "0", "0", "1"),
    *_reals("A alpha 1;B beta 0"),
    *_control(f"{_COMMON};F forw;p parallel"),
)

LAYERNORM = (
    _text("X", "input", "100x3x32x32"),
    Flag("o", "normalized_dim", 3, least=0),
    Flag("e", "eps", 1e-5, "float"),
    Flag("m", "mode", 0, least=0),
    _text("F", "forw", "1", "0", "1", "2"),
    *_control(_COMMON),
)

T5LAYERNORM = (
    _text("X", "input", "100x3x32x32"),
    Flag("e", "eps", 1e-5, "float"),
    _text("m", "mode", "5", "5", "6"),
    _text("F", "forw", "0", "0", "1", "2"),
    *_control(_COMMON),
)

SOFTMAX = (
    *_lengths("n batchsize 100;c in_channels 3;H in_h 32;W in_w 32"),
    _text("a", "algorithm", "1", "0", "1", "2"),
    _text("m", "mode", "1", "0", "1"),
    _text("L", "layout", None, "NCHW", "NHWC"),
    _text("F", "forw", "0", "0", "1"),
    *_reals("A alpha 1;B beta 0"),
    *_control(_COMMON),
)
