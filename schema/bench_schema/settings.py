"""The table of settings: one field of a class is one row, and both commands read it.

A row says how a setting is given (flag, type, choices, help), and what it means elsewhere: whether
two documents that differ in it can be compared, a run can be resumed or its shards be merged.
`RecordedSettings` has the rows of what a result document keeps; `bench_run.settings` has the rest
of a run's. A new setting of the document also needs its place in the schema (`schema/README.md`).

Help shows these rows, so nothing here imports `typing` or `dataclasses`: that would double its
time. A class of rows becomes the frozen dataclass that a type checker sees when `as_dataclass`
makes it one.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as rows
    from typing import Any, Generic, Literal, NoReturn, TypeAlias, TypeVar

    Agreement: TypeAlias = Literal["must", "should", "free"]
    Resuming: TypeAlias = Literal["same", "same if known", "same on one host"]
    Merging: TypeAlias = Literal["one value", "listed"]

    T = TypeVar("T")
    Unknown = TypeVar("Unknown", bound=None)
else:

    class Generic:
        def __class_getitem__(cls, _unknown):
            return cls

    def rows(**_how):
        return lambda cls: cls

    Unknown = NoReturn = None

__all__ = ["RecordedSettings", "Setting", "as_dataclass", "rows", "rows_of", "setting"]

_ROWS: dict[type, dict[str, Setting]] = {}
"""Class → the rows that it adds to those of its base."""

TIMERS = ("auto", "events", "cupti", "host")
CACHES = ("hot", "cold", "rotate", "weights-cold", "pass")
DUTIES = ("cool", "sustained")
INTERLEAVES = ("blocks", "visits")
MATHS = ("fp32", "tf32", "fast")
TOLERANCES = ("default", "hipdnn")
LEAST_ROUNDS = 3
"""Below it the spread of rounds is a guess."""


class Setting:
    """A row; its field's name is set where the class of rows is made."""

    name = ""
    section = ""
    """Under which heading help lists it."""
    help = ""
    kind = ""
    """Kind of value; selects the parser in `bench_run.options.read.READERS`."""
    choices: tuple[str, ...] = ()
    least = 1
    """Smallest whole number."""
    most = 10_000_000
    """Largest: that of samples which memory and documents can hold."""
    unit = ""
    common = False
    """True if the first page of help shows it."""
    rare = False
    """True if help lists it as a key of ``--config`` only; the flag is accepted all the same."""
    tune = False
    """True if `bench-run tune` reads it."""
    word = ""
    """Word for it in sentences; its name unless the row sets another."""
    absent: str | None = None
    """Word for None where that is a value; where it is None itself, None is not known."""
    agree: Agreement = "must"
    """*must*: where two documents differ in it their numbers do not mean the same; *should*:
    a comparison says how they differ."""
    resume: Resuming = "same"
    """*same if known*: older documents do not have it; *same on one host*: those of a fleet
    may differ."""
    separates_series = False
    """True if a history keeps a separate series for each of its values."""
    merge: Merging = "one value"
    """*one value*: parts that differ in it stay apart; *listed*: they can be merged, and the
    document lists the difference."""

    def __init__(self, default: object, *, flag: str = "", **row: Any) -> None:
        """`row`: the fields above that differ from what they usually are."""
        unknown = row.keys() - vars(Setting)
        if unknown:
            raise TypeError(f"a setting has no {', '.join(sorted(unknown))}")
        vars(self).update(row)
        self.default = default
        *short, named = flag.split(", ")
        self.short = short[0] if short else None
        self.flag, _, self.metavar = named.partition(" ")
        """Flag and placeholder, as in ``--iters`` and ``N``; a switch does not have a
        placeholder."""
        self.many = isinstance(default, (tuple, dict)) and self.kind != "devices"
        """True if the flag may be repeated."""
        if self.choices:
            self.kind = self.kind or "choice"
        elif not self.kind:
            whole = "switch" if isinstance(default, bool) else "whole"
            self.kind = whole if isinstance(default, int) else "text"

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.word = self.word or name.replace("_", " ")
        _ROWS.setdefault(owner, {})[name] = self

    def text(self, value: object) -> str | None:
        """Return a value as sentences show it; None: not known."""
        if value is None:
            return self.absent
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, Mapping):
            return ", ".join(f"{key} {item}" for key, item in sorted(value.items())) or "none"
        if isinstance(value, tuple):
            return ", ".join(value) or "none"
        return f"{value:g} {self.unit}" if self.unit else str(value)


def setting(default: T, **row: Any) -> T:
    """Return a field with its row: the keywords of `Setting`."""
    field: T = Setting(default, **row)  # type: ignore[assignment]  # the row, until `as_dataclass`
    return field


def rows_of(cls: type) -> dict[str, Setting]:
    """Return the rows of a class by field, those of its base first."""
    return {
        name: row for base in reversed(cls.__mro__) for name, row in _ROWS.get(base, {}).items()
    }


def as_dataclass(cls: type) -> None:
    """Make a class of rows, and its bases before it, the frozen dataclass that it declares."""
    from dataclasses import dataclass, field

    for base in reversed(cls.__mro__):
        if base not in _ROWS or "__dataclass_fields__" in vars(base):
            continue
        for name, row in _ROWS[base].items():
            if isinstance(row.default, dict):
                setattr(base, name, field(default_factory=row.default.copy))
            else:
                setattr(base, name, row.default)
        dataclass(frozen=True)(base)


@rows(frozen=True)
class RecordedSettings(Generic[Unknown]):
    """Settings that influence a run's samples: given on the command line, stored in the document,
    in its order.

    `Unknown` is the type of a setting that older versions or other tools do not record: None in
    documents, absent in the options of a run.
    """

    timer: str = setting(
        "auto",
        flag="--timer T",
        rare=True,
        section="Conditions",
        help="clock of device times:",
        choices=TIMERS,
        tune=True,
        separates_series=True,
    )
    cache: str = setting(
        "hot",
        flag="--cache C",
        section="Conditions",
        help="device caches before each iteration: hot, cold, rotate, weights-cold, which rotates "
        "weights only, or pass (with --seams), as a pass of the pipeline leaves them",
        choices=CACHES,
        common=True,
        tune=True,
        separates_series=True,
    )
    duty: str = setting(
        "cool",
        flag="--duty D",
        rare=True,
        section="Conditions",
        help="cool (pauses between blocks of iterations) or sustained",
        choices=DUTIES,
        tune=True,
        separates_series=True,
    )
    settle: str | None = setting(
        None,
        flag="--settle LOW..HIGH",
        rare=True,
        section="Conditions",
        help="before each case bring the device into this window of temperatures in degrees "
        "Celsius, as in 50..60, and wait until its clock stays within 1 % for 10 s; what cannot be "
        "reached in 2 minutes is noted",
        kind="window",
        resume="same if known",
        agree="should",
        absent="none",
    )
    math: str = setting(
        "fp32",
        flag="--math MODE",
        section="Engines",
        help="float32 arithmetic: fp32 (strict), tf32 or fast",
        choices=MATHS,
        tune=True,
        separates_series=True,
    )
    replay: bool = setting(
        False,
        flag="--replay",
        section="Conditions",
        help="capture the work once as a device graph and replay it",
    )
    warmup: int = setting(
        10,
        flag="-w, --warmup N",
        section="Sampling",
        help="untimed iterations at the start of each round",
        least=0,
        common=True,
        tune=True,
        word="warm-up",
        agree="should",
    )
    iterations: int | None = setting(
        None,
        flag="-i, --iters N",
        section="Sampling",
        help="exactly N timed iterations of a case, all rounds together (default: by time, as many "
        "as fit in 12 ms of each round, 30 to 360)",
        kind="whole",
        common=True,
        tune=True,
        agree="should",
        absent="by time",
    )
    rounds: int = setting(
        5,
        flag="--rounds N",
        section="Sampling",
        help="independent rounds, each in a fresh process and in a new order",
        common=True,
        tune=True,
        agree="should",
    )
    min_time_s: float | None = setting(
        None,
        flag="--min-time S",
        rare=True,
        section="Sampling",
        help="measure each case for at least S seconds of wall time, device and end-to-end samples "
        "each",
        kind="seconds",
        agree="should",
        word="min time",
        unit="s",
        absent="none",
    )
    max_time_s: float | None = setting(
        10.0,
        flag="--max-time S",
        section="Sampling",
        help="time limit per case in wall seconds, for device and for end-to-end samples each, "
        "including checks and flushes, or 'none' for no limit; warm-up takes at most half of "
        "it",
        kind="limit",
        tune=True,
        agree="should",
        word="max time",
        unit="s",
        absent="none",
    )
    precision_ratio: float | None = setting(
        None,
        flag="--precision P",
        section="Sampling",
        help="add rounds until the median is known to P, such as 1%",
        kind="ratio",
        common=True,
        agree="free",
    )
    """Half width of the median's interval at which no further round is added."""
    timeout_s: float | Unknown = setting(
        300.0,
        flag="--timeout S",
        section="Sampling",
        help="kill a worker that is silent for S seconds",
        kind="seconds",
        tune=True,
        agree="free",
        merge="listed",
    )
    seed: int = setting(
        0,
        flag="--seed N",
        section="Input data",
        help="seed of the inputs and of the order of cases",
        least=0,
        most=2**63 - 1,
        tune=True,
        agree="should",
    )
    reference: str = setting(
        "auto",
        flag="--reference R",
        section="Validation",
        help="what outputs are compared with: auto, numpy, torch, golden, none or an engine",
        common=True,
        tune=True,
        agree="should",
    )
    tolerance: str = setting(
        "default",
        flag="--tolerance T",
        rare=True,
        section="Validation",
        help="table of allowed errors:",
        choices=TOLERANCES,
        tune=True,
        agree="should",
    )
    rtol: float | None = setting(
        None,
        flag="--rtol X",
        section="Validation",
        help="allowed relative error of every output (default: measured, see --tolerance)",
        kind="number",
        common=True,
        tune=True,
        agree="should",
        absent="by --tolerance",
    )
    atol: float | None = setting(
        None,
        flag="--atol X",
        section="Validation",
        help="allowed absolute error of every output (default: measured as well)",
        kind="number",
        common=True,
        tune=True,
        agree="should",
        absent="by --tolerance",
    )
    matched: float | None = setting(
        None,
        flag="--matched R",
        rare=True,
        section="Validation",
        help="share of the elements of every output that has to be within the tolerance, such as "
        "0.99 (default: all)",
        kind="share",
        tune=True,
        agree="must",
        absent="1",
    )
    cosine: float | None = setting(
        None,
        flag="--cosine X",
        rare=True,
        section="Validation",
        help="least cosine of every output and what is expected, in place of a tolerance; both "
        "where a tolerance or a share is given",
        kind="share",
        tune=True,
        agree="must",
        absent="not asked for",
    )
    check_budget_s: float = setting(
        0.2,
        flag="--check-budget S",
        rare=True,
        section="Validation",
        help="seconds per round for validating timed iterations",
        kind="number",
        tune=True,
        word="check budget",
        unit="s",
    )
    init: tuple[str, ...] | Unknown = setting(
        (),
        flag="--init RULE",
        rare=True,
        section="Input data",
        help="how inputs are filled: [NAME=]normal|uniform|integers|constant:V|file:PATH",
        tune=True,
        resume="same if known",
    )
    interleave: str | Unknown = setting(
        "blocks",
        flag="--interleave HOW",
        rare=True,
        section="Sampling",
        help="how several engines of a graph take turns: blocks (of milliseconds, all of them "
        "prepared) or visits (one after the other)",
        choices=INTERLEAVES,
        agree="should",
        resume="same if known",
    )
    placements: int | Unknown = setting(
        6,
        flag="--placements N",
        rare=True,
        section="Sampling",
        help="places in memory where a case's buffers lie in each round, one after the other, if "
        "the engine can move them",
        agree="should",
        resume="same if known",
    )
    executions: int | Unknown = setting(
        1,
        flag="--executions N",
        rare=True,
        section="Sampling",
        help="executions per sample, for short kernels",
        resume="same if known",
    )
    knobs: Mapping[str, str] | Unknown = setting(
        {},
        flag="--knob KEY=VALUE",
        rare=True,
        section="Engines",
        help="set a tuning knob of the engine; for one engine only: ENGINE+knob:KEY=VALUE",
        kind="pair",
        tune=True,
        resume="same if known",
    )
    """Requested knobs; `EngineRecord.knobs` has those that an engine took."""
    threads: int | None = setting(
        1,
        flag="--threads N",
        section="Engines",
        help="threads of engines on the CPU: a number, which also holds them to as many cores, or "
        "all; for one engine only: ENGINE+threads=N",
        kind="threads",
        common=True,
        tune=True,
    )
    """None: as many as the engine's libraries start. The default is one, as in PyTorch's own
    benchmark utilities: threads that share a busy core wait for each other, and a small product
    becomes several times slower."""
    max_rounds: int | Unknown = setting(
        30,
        flag="--max-rounds N",
        rare=True,
        section="Sampling",
        help="upper limit of rounds for --precision and --until",
        agree="free",
        merge="listed",
    )
    until: str | None = setting(
        None,
        flag="--until decided",
        section="Sampling",
        help="add rounds until each pair of engines (--a/--b, or the first --engine and each other "
        "one) is faster, slower or the same, as bench-compare judges",
        choices=("decided",),
        common=True,
        agree="free",
    )
    """``decided``, or ``settled``: until a tuning's choice would not change any more."""
    threshold_ratio: float | Unknown = setting(
        0.01,
        flag="--threshold T",
        rare=True,
        section="Sampling",
        help="with --until decided: smallest change of interest",
        kind="ratio",
        agree="free",
        merge="listed",
    )
