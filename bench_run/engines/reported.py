"""The border between engines and the rest: what engines, plans and streams report is converted.

Everything here is foreign: a value may have any type, and reading it may raise anything. `ROWS` has
the type and range of each field, and says if a measurement needs it. A field that is not needed is
left out with a note, and the case goes on; one that is needed is an `EngineError`, which costs the
case. Behind this border values have Python's own types, fit for the document.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bench_run.engines.base import EngineFacts, PlanFacts
from bench_run.errors import EngineError, message_of
from bench_run.text import plain_text

if TYPE_CHECKING:
    from bench_run.engines.base import Engine, EngineAbilities
    from bench_run.graph.model import Graph

MOST_BYTES = (1 << 63) - 1
MOST_COUNT = (1 << 31) - 1
MOST_CHARACTERS = 10_000
MOST_ENTRIES = 1_000
MOST_SHOWN = 40


class UnfitError(ValueError):
    """A value that no row can read. Never shown."""


def plain(value: Any, *, texts: bool = False) -> Any:
    """Return the value in Python's own types: numbers, texts without surrogates, lists and dicts.
    `texts`: numbers become texts. Raises `UnfitError`, and whatever the methods of the value
    raise."""
    kind = type(value)
    if value is None or kind is bool:
        return str(value) if texts and value is not None else value
    if issubclass(kind, str):
        exact = str.__str__(value)  # the method of a subclass may raise
        return plain_text(exact) if len(exact) <= MOST_CHARACTERS else _unfit()
    if issubclass(kind, (bytes, bytearray)):
        return _unfit()
    if issubclass(kind, Mapping):
        pairs = islice(value.items(), MOST_ENTRIES + 1)
        return {plain(name): plain(each, texts=texts) for name, each in pairs}
    if hasattr(kind, "__iter__"):
        return [plain(each, texts=texts) for each in islice(iter(value), MOST_ENTRIES + 1)]
    if hasattr(kind, "__index__"):
        number: float = int(operator.index(value))
    else:
        number = float(value)
        if not texts and not math.isfinite(number):
            return _unfit()
    return str(number) if texts else number


def _unfit() -> Any:
    raise UnfitError


Text = Annotated[str, Meta(max_length=MOST_CHARACTERS)]
SomeText = Annotated[str, Meta(min_length=1, max_length=MOST_CHARACTERS)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
Nanoseconds = Annotated[float, Meta(ge=0)]
FEW = Meta(max_length=MOST_ENTRIES)
Words = Annotated[dict[Text, Text], FEW]


@dataclass(frozen=True)
class Row:
    """The type of one field."""

    kind: Any
    """Target of `msgspec.convert`, or a class that the value must be an instance of."""
    wanted: str
    """The type in words."""
    is_needed: bool = False
    """True if a case without it is lost."""
    otherwise: Any = None
    """Stands for a value that was left out."""
    texts: bool = False
    """True if numbers are read as texts."""

    def read(self, value: object) -> Any:
        """Return the value, converted. Raises any exception if it does not fit."""
        if self.kind in (EngineFacts, PlanFacts):
            return value if issubclass(type(value), self.kind) else _unfit()
        return msgspec.convert(plain(value, texts=self.texts), self.kind)


BYTES = Row(Bytes | None, "a whole number of bytes from 0")
NAME = Row(Text | None, f"a text of at most {MOST_CHARACTERS:,} characters")
WORDS = Row(Words, "a mapping of texts to texts", otherwise={}, texts=True)
VARIANTS = Row(
    Annotated[tuple[Words, ...], FEW],
    "a list of mappings of texts to texts",
    is_needed=True,
    texts=True,
)
DURATION = Row(Nanoseconds, "a number of nanoseconds from 0", is_needed=True)

ROWS: Mapping[str, Row] = {
    "facts": Row(EngineFacts, "EngineFacts", is_needed=True),
    "facts.id": NAME,
    "facts.libraries": WORDS,
    "facts.device": Row(SomeText, "the name of a device, or cpu", is_needed=True),
    "facts.device_kind": Row(SomeText, "the name of a product", otherwise="unknown"),
    "facts.plugin_path": NAME,
    "facts.plugin_sha256": Row(Sha256 | None, "64 hexadecimal digits"),
    "facts.knobs": WORDS,
    "facts.device_index": Row(Count | None, "a whole number from 0"),
    "facts.abilities": Row(Words | None, WORDS.wanted, texts=True),
    "abilities.devices": Row(Count | None, "a number of devices"),
    "stream.clock": Row(
        Literal["host", "events", "cupti"], "host, events or cupti", is_needed=True
    ),
    "stream.gate_depth": Row(Count, "a whole number from 0", is_needed=True),
    "stream.elapsed_ns()": DURATION,
    "stream.correction_ns()": DURATION,
    "variants()": VARIANTS,
    "plans()": VARIANTS,
    "choices()": VARIANTS,
    "knob_values()": Row(
        Annotated[dict[Text, tuple[Text, ...]], FEW],
        "a mapping of texts to lists of texts",
        is_needed=True,
        texts=True,
    ),
    "plan.facts": Row(PlanFacts, "PlanFacts", otherwise=PlanFacts()),
    "plan.facts.chosen": WORDS,
    "plan.facts.workspace_bytes": BYTES,
    "plan.facts.buffer_bytes": BYTES,
    "peak_bytes()": BYTES,
    "witness()": WORDS,
    "changed_inputs()": Row(Annotated[tuple[Bytes, ...], FEW], "a list of uids", is_needed=True),
}

UNKNOWN = EngineFacts(id=None, libraries={}, device="unknown", device_kind="unknown")
"""Facts of an engine whose own facts cannot be used."""


class Reports:
    """Reads what one engine reports; `notes` say what was left out, and why."""

    def __init__(self, engine: str) -> None:
        """`engine`: what it is called in messages."""
        self._engine = engine
        self.notes: list[str] = []

    def read(self, name: str, ask: Callable[[], object]) -> Any:
        """Return the value by the row of this name. Raises `EngineError` if a required value cannot
        be read."""
        row, value = ROWS[name], None
        try:
            value = ask()
        except Exception as error:  # foreign: a property may raise anything
            problem = f"raises {describe_error(error)}"
        else:
            try:
                return row.read(value)
            except Exception:  # foreign: so may the methods of a value
                problem = f"is {describe(value)}, not {row.wanted}"
        sentence = f"{self._engine}: {name} {problem}"
        if row.is_needed:
            raise EngineError(sentence)
        self.notes.append(f"{sentence}: left out")
        return row.otherwise

    def engine_facts(self, ask: Callable[[], object]) -> EngineFacts:
        """Return the engine's facts. Raises `EngineError` if required ones are missing."""
        found = self.read("facts", ask)
        return EngineFacts(**self._fields(EngineFacts, "facts", found))

    def plan_facts(self, ask: Callable[[], object]) -> PlanFacts:
        found = self.read("plan.facts", ask)
        return PlanFacts(**self._fields(PlanFacts, "plan.facts", found))

    def _fields(self, kind: Any, part: str, found: object) -> dict[str, Any]:
        names = (each.name for each in fields(kind))
        # foreign: not even the type is known
        return {n: self.read(f"{part}.{n}", partial(getattr, found, n)) for n in names}


class ReportedEngine:
    """An engine as it is behind the border. Its plans are its own, as they know each other."""

    def __init__(self, engine: Engine, reports: Reports) -> None:
        """Wrap an engine. Raises `EngineError` if it lacks methods that every case needs."""
        self._engine, self._reports = engine, reports
        self.facts = reports.engine_facts(lambda: engine.facts)
        self.stream = engine.stream
        for name in ("clock", "gate_depth"):
            reports.read(f"stream.{name}", partial(getattr, engine.stream, name))
        self.devices: int | None = reports.read(
            "abilities.devices", lambda: engine.abilities.devices
        )
        self.plan, self.close, self.peak_bytes = engine.plan, engine.close, engine.peak_bytes
        self.build = engine.build

    @property
    def abilities(self) -> EngineAbilities:
        return self._engine.abilities

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        return self._listed("variants()", self._engine.variants(graph))

    def plans(self, graph: Graph) -> tuple[Mapping[str, str], ...] | None:
        """Return the plans; None if the engine lists none."""
        plans = self.abilities.plans
        return None if plans is None else self._listed("plans()", plans(graph))

    def choices(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Return the choices; the variants if the engine lacks a list."""
        choices = self.abilities.choices
        if choices is None:
            return self.variants(graph)
        return self._listed("choices()", choices(graph))

    def knob_values(
        self, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the values of knobs; empty if the engine lists none."""
        knob_values = self.abilities.knob_values
        if knob_values is None:
            return {}
        values = knob_values(graph, variant)
        found: Mapping[str, tuple[str, ...]] = self._reports.read("knob_values()", lambda: values)
        return found

    def _listed(self, name: str, found: object) -> tuple[Mapping[str, str], ...]:
        listed: tuple[Mapping[str, str], ...] = self._reports.read(name, lambda: found)
        return listed


def describe(value: object) -> str:
    """Return a value in a few words, none of them its own: its methods may do anything."""
    kind = type(value)
    if kind is int:
        bits = int.bit_length(value)  # type: ignore[arg-type]
        return repr(value) if bits <= 128 else f"an integer of {bits} bits"
    if kind in (float, bool, type(None)):
        return repr(value)
    if kind is str or kind is bytes:
        exact: Any = value
        if len(exact) <= MOST_SHOWN:
            return plain_text(repr(exact))
        return f"{plain_text(repr(exact[:MOST_SHOWN]))} and {len(exact) - MOST_SHOWN:,} more"
    return f"of type {name_of(kind)}"


def name_of(kind: type) -> str:
    """Return the name of a class, whose metaclass may have a say in ``__name__``."""
    return plain_text(type.__dict__["__name__"].__get__(kind))


def describe_error(error: BaseException) -> str:
    """Return its type and its words, if any."""
    words = message_of(error)
    return f"{name_of(type(error))}: {words}" if words else name_of(type(error))
