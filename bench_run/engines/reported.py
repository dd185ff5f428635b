"""What engines, their plans and their streams report, checked and made plain where it comes in.

Everything here is foreign: a value may be of any type, and asking for it may raise anything. `ROWS`
is the one table of what is read: the type and range of each field, and whether a measurement can do
without it. A field that it can do without is left out with a note, and the case goes on; one that
it needs is an `EngineError`, which costs the case. Behind this border values are of Python's own
types, fit for the document and for a journey between processes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from bench_run.engines.base import EngineFacts, PlanFacts
from bench_run.errors import EngineError, message_of
from bench_run.text import plain_text

if TYPE_CHECKING:
    from bench_run.engines.base import Engine, EngineAbilities
    from bench_run.graph.model import Graph

T = TypeVar("T")

MOST_BYTES = MOST_NS = (1 << 63) - 1
MOST_COUNT = (1 << 31) - 1
MOST_CHARACTERS = 10_000
MOST_ENTRIES = 1_000
MOST_SHOWN = 40


class UnfitError(ValueError):
    """A value that is not what is wanted. Never shown."""


def text(value: object) -> str:
    """Without surrogates, which UTF-8 does not have: they are spelled."""
    if not issubclass(type(value), str):
        raise UnfitError
    exact = str.__str__(value)  # of a subclass, its own may raise
    if len(exact) > MOST_CHARACTERS:
        raise UnfitError
    return plain_text(exact)


def some_text(value: object) -> str:
    return text(value) or _unfit()


def whole(most: int) -> Callable[[object], int]:
    """From 0 to `most`: of any type that Python takes for an integer, but no truth value."""

    def read(value: object) -> int:
        number = _integer(value)
        return number if 0 <= number <= most else _unfit()

    return read


def _integer(value: object) -> int:
    if type(value) is bool:
        raise UnfitError
    return int(operator.index(value))  # type: ignore[arg-type]  # raises for what is none


def number(value: object) -> float:
    """Finite, at least 0."""
    if issubclass(type(value), (str, bytes, bytearray, bool)):
        raise UnfitError
    found = float(value)  # type: ignore[arg-type]  # raises for what is none
    return found if math.isfinite(found) and found >= 0 else _unfit()


def word(value: object) -> str:
    """A text, or a number as text."""
    if type(value) in (bool, float):
        return str(value)
    if issubclass(type(value), str):
        return text(value)
    return str(_integer(value))


def by_name(entry: Callable[[object], T]) -> Callable[[object], dict[str, T]]:
    """A mapping of names to such entries."""

    def read(value: object) -> dict[str, T]:
        if not issubclass(type(value), Mapping):
            raise UnfitError
        pairs = listed(lambda pair: pair)(value.items())  # type: ignore[attr-defined]
        return {text(name): entry(each) for name, each in pairs}

    return read


def listed(entry: Callable[[Any], T]) -> Callable[[object], tuple[T, ...]]:
    """So many of such entries that a person could look at them."""

    def read(value: object) -> tuple[T, ...]:
        if issubclass(type(value), (str, bytes)):
            raise UnfitError
        found = list(islice(iter(value), MOST_ENTRIES + 1))  # type: ignore[call-overload]
        return tuple(entry(each) for each in found) if len(found) <= MOST_ENTRIES else _unfit()

    return read


def optional(read: Callable[[object], T]) -> Callable[[object], T | None]:
    return lambda value: None if value is None else read(value)


def one_of(*choices: str) -> Callable[[object], str]:
    return lambda value: found if (found := text(value)) in choices else _unfit()


def instance_of(kind: type) -> Callable[[object], object]:
    return lambda value: value if issubclass(type(value), kind) else _unfit()


def sha256(value: object) -> str:
    found = text(value)
    return found if len(found) == 64 and set(found) <= set("0123456789abcdef") else _unfit()


def _unfit() -> Any:
    raise UnfitError


@dataclass(frozen=True)
class Row:
    """How one field is read."""

    read: Callable[[object], Any]
    wanted: str
    """What it is read as, in words."""
    is_needed: bool = False
    """Whether a case without it is lost."""
    otherwise: Any = None
    """What stands for a value that was left out."""


BYTES = Row(optional(whole(MOST_BYTES)), "a whole number of bytes from 0")
NAME = Row(optional(text), f"a text of at most {MOST_CHARACTERS:,} characters")
WORDS = Row(by_name(word), "a mapping of texts to texts", otherwise={})
VARIANTS = Row(listed(by_name(word)), "a list of mappings of texts to texts", is_needed=True)
DURATION = Row(number, "a number of nanoseconds from 0", is_needed=True)

ROWS: Mapping[str, Row] = {
    "facts": Row(instance_of(EngineFacts), "EngineFacts", is_needed=True),
    "facts.id": NAME,
    "facts.libraries": WORDS,
    "facts.device": Row(some_text, "the name of a device, or cpu", is_needed=True),
    "facts.device_kind": Row(some_text, "the name of a product", otherwise="unknown"),
    "facts.plugin_path": NAME,
    "facts.plugin_sha256": Row(optional(sha256), "64 hexadecimal digits"),
    "facts.knobs": WORDS,
    "facts.device_index": Row(optional(whole(MOST_COUNT)), "a whole number from 0"),
    "facts.abilities": Row(optional(by_name(word)), WORDS.wanted),
    "abilities.devices": Row(optional(whole(MOST_COUNT)), "a number of devices"),
    "stream.clock": Row(one_of("host", "events", "cupti"), "host, events or cupti", is_needed=True),
    "stream.gate_depth": Row(whole(MOST_COUNT), "a whole number from 0", is_needed=True),
    "stream.elapsed_ns()": DURATION,
    "stream.correction_ns()": DURATION,
    "variants()": VARIANTS,
    "plans()": VARIANTS,
    "choices()": VARIANTS,
    "knob_values()": Row(
        by_name(listed(word)), "a mapping of texts to lists of texts", is_needed=True
    ),
    "plan.facts": Row(instance_of(PlanFacts), "PlanFacts", otherwise=PlanFacts()),
    "plan.facts.chosen": WORDS,
    "plan.facts.workspace_bytes": BYTES,
    "plan.facts.buffer_bytes": BYTES,
    "peak_bytes()": BYTES,
    "witness()": WORDS,
    "changed_inputs()": Row(listed(whole(MOST_BYTES)), "a list of uids", is_needed=True),
}

UNKNOWN = EngineFacts(id=None, libraries={}, device="unknown", device_kind="unknown")
"""Of an engine whose own facts cannot be used."""


class Reports:
    """Reads what one engine reports; `notes` say what was left out, and why."""

    def __init__(self, engine: str) -> None:
        """`engine`: what it is called in messages."""
        self._engine = engine
        self.notes: list[str] = []

    def read(self, name: str, ask: Callable[[], object]) -> Any:
        """What the row of this name makes of it. Raises `EngineError` where that is needed."""
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
        """Raises `EngineError` without those that are needed."""
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
        """Raises `EngineError` where it lacks what every case needs."""
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
        """None where it lists none."""
        plans = self.abilities.plans
        return None if plans is None else self._listed("plans()", plans(graph))

    def choices(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        """Its variants where it has no list of its own."""
        choices = self.abilities.choices
        if choices is None:
            return self.variants(graph)
        return self._listed("choices()", choices(graph))

    def knob_values(
        self, graph: Graph, variant: Mapping[str, str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Empty where it lists none."""
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
    """A value in a few words, none of them its own: its methods may do anything."""
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
    """The name of a class, whose metaclass may have a say in ``__name__``."""
    return plain_text(type.__dict__["__name__"].__get__(kind))


def describe_error(error: BaseException) -> str:
    """Its type and its words, where it has some."""
    words = message_of(error)
    return f"{name_of(type(error))}: {words}" if words else name_of(type(error))
