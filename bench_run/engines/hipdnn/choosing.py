"""Choice of hipDNN's engine for a graph, and the proof that it is the requested one.

A preference is soft: hipDNN silently takes another engine if the preferred one declines. So the
hard selection is used, the plan's engine is read back, and a time is never given to an engine that
did not run.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import failure, first_line, meaning
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bench_run.engines.hipdnn.loading import Library


Value = int | float | str


def whole_number(text: str) -> int:
    return int(text, 0)


def real_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


TYPES: dict[str, tuple[str, Callable[[str], Value]]] = {
    "INT64": ("a whole number", whole_number),
    "FLOAT64": ("a finite number", real_number),
    "STRING": ("a text", str),
}
"""Types by the name of hipDNN's ``KnobValueType``: the type in words, and its parser."""


OFFERS = "Graph.get_knobs_for_engine"


def offered(library: Library, native: Any, engine: int) -> dict[str, Any]:
    """Return hipDNN's `Knob` values of an engine for this graph, by their id; none of an engine
    that does not take the graph."""
    try:
        return {knob.knob_id: knob for knob in native.get_knobs_for_engine(engine)}
    except RuntimeError:
        return {}
    except Exception as error:  # foreign: see `errors`
        raise failure(OFFERS, error, library.version) from error


def settings(
    library: Library, native: Any, engine: int, wanted: Mapping[str, str]
) -> tuple[list[Any], dict[str, str]]:
    """Return hipDNN's `KnobSetting` values for the wanted knobs, and what to record.

    hipDNN only warns of a knob that an engine does not have: here that refuses the graph.
    """
    if not wanted:
        return [], {}
    knobs, made = offered(library, native, engine), []
    for name, text in wanted.items():
        if name not in knobs:
            known = ", ".join(sorted(knobs)) or "none"
            raise UnsupportedGraphError(f"hipdnn: the engine has no knob {name!r}; it has {known}")
        value = value_of(name, knobs[name], text)
        with library.calling(f"Knob.validate of {name}"):
            made.append(library.module.KnobSetting(name, value))
            error = knobs[name].validate(made[-1])
            if not error.is_good():
                raise EngineError(
                    f"hipdnn: --knob {name}={text}: {first_line(error.get_message())}; "
                    f"it takes {_description(knobs[name])}"
                )
    return made, dict(wanted)


def value_of(name: str, knob: Any, text: str) -> Value:
    """Return the text in the knob's type; only hipDNN knows if the knob takes the value."""
    words, read = TYPES.get(knob.value_type.name, ("", str))
    if not words:
        raise EngineError(f"hipdnn: knob {name}: no value of type {knob.value_type.name} is known")
    try:
        return read(text)
    except ValueError:
        raise EngineError(f"hipdnn: --knob {name}={text}: expected {words}") from None


def descriptions(knobs: Mapping[str, Any]) -> dict[str, str]:
    """Return the type, default and limits of each knob in a few words, by its id."""
    return {name: _description(knob) for name, knob in knobs.items()}


def _description(knob: Any) -> str:
    kind = knob.value_type.name
    parts = [TYPES[kind][0] if kind in TYPES else kind, f"default {knob.default_value}"]
    low, high, step = _range(knob.constraint)
    listed = _listed(knob.constraint)
    if listed:
        parts.append("one of " + " ".join(map(str, listed)))
    elif low is not None or high is not None:
        parts.append(f"{low} to {high}")
        parts += [f"steps of {step}"] if step and step > 1 else []
    if knob.is_deprecated:
        parts.append("deprecated")
    return ", ".join(parts) + (f": {knob.description}" if knob.description else "")


def _listed(constraint: Any) -> list[Any]:
    """Return the only legal values, in order; they overrule bounds. An empty list: the bounds
    hold."""
    return sorted(getattr(constraint, "valid_values", None) or ())


def _range(constraint: Any) -> tuple[Any, Any, Any]:
    """Return the least and the greatest value, and the step; each is None if the knob does not have
    it."""
    names = ("min_value", "max_value", "step")
    return tuple(getattr(constraint, name, None) for name in names)  # type: ignore[return-value]


MOST_VALUES = 64
"""Values of a range that are listed; a knob with more has no list."""


def all_values(knobs: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return every value that a knob takes, by its id; knobs that are deprecated or that take
    anything are left out."""
    current = {name: knob for name, knob in knobs.items() if not knob.is_deprecated}
    values = {name: _values(knob.constraint) for name, knob in current.items()}
    return {name: found for name, found in values.items() if found}


def _values(constraint: Any) -> tuple[str, ...]:
    listed = _listed(constraint)
    if listed:
        return tuple(map(str, listed))
    low, high, step = _range(constraint)
    if not isinstance(low, int) or not isinstance(high, int):
        return ()
    span = range(low, high + 1, max(1, step or 1))
    return tuple(map(str, span)) if len(span) <= MOST_VALUES else ()


# Engine ids of hipDNN: a name's hash, or a number of the plugin's own.
#
# The id of a name is FNV-1a, 64 bit, of its UTF-8 bytes, read as a signed number; the empty name is
# 0. Numbers pass through as they are.

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x100000001B3

ALL, TUNED = "all", "autotune"
FORMS = "a name, a decimal or hexadecimal number, 'all' or 'autotune'"
_NUMBER = re.compile(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")


@dataclass(frozen=True)
class EngineChoice:
    """The engine that a spec asks for. Without an id hipDNN chooses."""

    id: int | None = None
    name: str | None = None
    """Original name; None for a number."""
    every: bool = False
    """Each engine that accepts the graph, as variants."""
    tuned: bool = False
    """The one that hipDNN's own tuner finds fastest."""


def engine_id(name: str) -> int:
    """Return the signed id that hipDNN gives to an engine of this name."""
    if not name:
        return 0
    value = OFFSET_BASIS
    for byte in name.encode():
        value = (value ^ byte) * PRIME % 2**64
    return signed(value)


def signed(value: int) -> int:
    """Return an unsigned 64-bit number as the signed one of the same bits; signed ones as they
    are."""
    return value - 2**64 if value >= 2**63 else value


def parse_choice(text: str | None) -> EngineChoice:
    """Parse ``MIOPEN_ENGINE``, ``1``, ``-6748551569128940061``, ``0x15b46865c717a122``, ``all``."""
    if text is None:
        return EngineChoice()
    if text in (ALL, TUNED):
        return EngineChoice(every=text == ALL, tuned=text == TUNED)
    if _NUMBER.fullmatch(text):
        value = int(text, 16 if text[:2].lower() == "0x" else 10)
        if not -(2**63) <= value < 2**64:
            raise UsageError(f"engine 'hipdnn:{text}': the number does not fit into 64 bits")
        return EngineChoice(id=signed(value))
    if _NAME.fullmatch(text):
        return EngineChoice(id=engine_id(text), name=text)
    raise UsageError(f"engine 'hipdnn:{text}': no engine has this id; give {FORMS}")


HARD = "Graph.create_execution_plan_ext"


@dataclass(frozen=True)
class Selection:
    """Request to hipDNN, and its kind."""

    wanted: int | None
    how: str
    """``hipDNN's own choice``, or the function that chose."""
    knobs: Mapping[str, str] = field(default_factory=dict)


MIOPEN, MIOPEN_BEFORE = "MIOPEN_ENGINE", 1
"""MIOpen's engine, and its number in dnn-benchmarking; ids of hipDNN follow from names."""


class Chooser:
    """Engines of one open library; `handle` tells the names that plugins invented."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library, self._handle = library, handle
        self.why_none = ""
        """hipDNN's words when it last ranked no engine."""

    def info(self, engine: int) -> Any:
        """Return hipDNN's `EngineInfo`; None if no loaded plugin has the engine."""
        try:
            return self._handle.get_engine_info(engine)
        except IndexError:
            return None
        except Exception as error:  # foreign: see `errors`
            raise failure("Handle.get_engine_info", error, self._library.version) from error

    def name_of(self, engine: int) -> str:
        """Return the engine's name, or its number where that is what chooses it."""
        name = getattr(self.info(engine), "engine_name", None)
        return name if name and engine_id(name) == engine else str(engine)

    def lie_of(self, engine: int) -> str | None:
        """Return what is wrong with the name that the plugin gives its engine; None if it is
        right."""
        name = getattr(self.info(engine), "engine_name", None)
        if name is not None and not name:
            return f"its plugin gives it none; choose it by hipdnn:{engine}"
        if name and engine_id(name) != engine:
            return f"its plugin says {name}, the name of another id; choose it by hipdnn:{engine}"
        return None

    def notes(self, native: Any, engine: int) -> tuple[str, ...]:
        """Return behaviour notes of the engine for this graph: what explains a result or a first
        call. Empty where hipDNN raises: that is not a reason not to measure."""
        with self._library.calling("Graph.get_behavior_notes_for_engine"):
            try:
                return tuple(note.name for note in native.get_behavior_notes_for_engine(engine))
            except RuntimeError:
                return ()

    def names(self, engines: Iterable[int]) -> str:
        return ", ".join(self.name_of(engine) for engine in engines)

    def ranked(self, native: Any) -> tuple[int, ...]:
        """Return the ids of hipDNN's engines that accept the graph, best first; empty if hipDNN
        raises, as it does if there are none. Call it after `build_operation_graph`."""
        with self._library.calling("Graph.get_ranked_engine_ids"):
            try:
                return tuple(native.get_ranked_engine_ids(self._library.modes))
            except RuntimeError as error:  # without a code: declined and failed look alike
                self.why_none = first_line(str(error))
                return ()

    def select(self, native: Any, choice: EngineChoice, knobs: Mapping[str, str]) -> Selection:
        """Make the plans. Raises `UnsupportedGraphError` if the wanted engine declines."""
        if choice.id is None:
            self._library.step(native, "create_execution_plans", self._library.modes)
            return Selection(None, "hipDNN's own choice")
        if knobs and choice.id not in self.ranked(native):
            raise self._declined(native, choice)
        made, recorded = settings(self._library, native, choice.id, knobs)
        with self._library.calling(HARD):
            error = native.create_execution_plan_ext(choice.id, made)
            if not error.is_good():
                raise self._declined(native, choice, meaning(HARD, error))
        return Selection(choice.id, HARD.rpartition(".")[2], recorded)

    def _declined(
        self, native: Any, choice: EngineChoice, cause: Exception | None = None
    ) -> Exception:
        """Return the refusal, with the engines that would run the graph."""
        assert choice.id is not None
        others = self.names(self.ranked(native)) or f"none ({self.why_none})"
        name = choice.name or self.name_of(choice.id)
        if self.info(choice.id) is None:
            meant = ""
            if choice.id == MIOPEN_BEFORE:
                own = engine_id(MIOPEN)
                meant = f" (MIOpen's is {own}: --engine-id {own}, or by name hipdnn:{MIOPEN})"
            return UnsupportedGraphError(
                f"hipdnn: no loaded plugin has the engine {name}{meant}; "
                f"engines that run this graph: {others}"
            )
        return UnsupportedGraphError(
            f"hipdnn: {name} does not run this graph; engines that do: {others}"
            + ("" if cause is None else f" ({cause})")
        )

    def confirm(self, native: Any, selection: Selection) -> int:
        """Return the engine of the finished plan.

        Raises `UnsupportedGraphError` if hipDNN replaced the requested engine.
        """
        with self._library.calling("Graph.get_execution_plan_engine_id"):
            actual = int(native.get_execution_plan_engine_id())
        if selection.wanted is not None and actual != selection.wanted:
            raise UnsupportedGraphError(
                f"hipdnn: preference ignored: {self.name_of(selection.wanted)} was requested and "
                f"hipDNN chose {self.name_of(actual)}; not measured under the wrong name"
            )
        return actual

    def plan_name(self, native: Any) -> str:
        """Return hipDNN's name of the plan, or the reason for its absence, which does not prevent
        measuring."""
        try:
            with self._library.calling("Graph.get_plan_name"):
                return str(native.get_plan_name(self._handle))
        except EngineError as error:
            return f"not told: {error}"
