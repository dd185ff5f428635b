"""Which engine of hipDNN runs a graph, and the proof that it is the requested one.

A preference is soft: hipDNN silently takes another engine where the preferred one declines. So the
hard selection is used where it exists, the plan's engine is read back where that is possible, and a
time is never given to an engine that did not run.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.abilities import member_of
from bench_run.engines.hipdnn.errors import check, is_good, meaning
from bench_run.errors import EngineError, UnsupportedGraphError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bench_run.engines.hipdnn.loading import Library


# Knobs: what an engine offers for a graph, and the user's settings in the types it wants.

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
"""By the name of hipDNN's `KnobValueType`: the type in words, and how its text is read."""


BY_TYPE: dict[type, str] = {int: "INT64", float: "FLOAT64", str: "STRING"}
"""A knob's type by its default, for releases that do not bind `KnobValueType`."""
OFFERS = "Graph.get_knobs_for_engine"


def offered(library: Library, native: Any, engine: int) -> dict[str, Any]:
    """hipDNN's `Knob` values of an engine for this graph, by their id."""
    if not library.can.has(OFFERS):
        return {}
    with library.calling(OFFERS):
        knobs = tuple(native.get_knobs_for_engine(engine))
    found = {member_of(knob, "knob_id"): knob for knob in knobs}
    if None in found:
        raise EngineError(f"hipdnn: {library.version} has no Knob.knob_id, which --knob needs")
    return found


def settings(
    library: Library, native: Any, engine: int, wanted: Mapping[str, str]
) -> tuple[list[Any], dict[str, str]]:
    """hipDNN's `KnobSetting` values for the wanted knobs, and what to record.

    hipDNN only warns of a knob that an engine does not have: here that refuses the graph.
    """
    if not wanted:
        return [], {}
    make = library.need("KnobSetting", "--knob")
    if not library.can.has(OFFERS):
        raise EngineError(f"hipdnn: {library.version} has no {OFFERS}, which --knob needs")
    knobs = offered(library, native, engine)
    made = []
    for name, text in wanted.items():
        if name not in knobs:
            known = ", ".join(sorted(knobs)) or "none"
            raise UnsupportedGraphError(f"hipdnn: the engine has no knob {name!r}; it has {known}")
        value = value_of(name, knobs[name], text)
        with library.calling(f"KnobSetting {name}"):
            made.append(make(name, value))
    return made, dict(wanted)


def value_of(name: str, knob: Any, text: str) -> Value:
    """The text in the knob's type, within its constraint."""
    kind = _type_name(knob)
    if kind not in TYPES:
        raise EngineError(
            f"hipdnn: knob {name}: its type is {kind}: Knob.value_type and Knob.default_value tell "
            "no other, so it cannot be set"
        )
    words, read = TYPES[kind]
    try:
        value = read(text)
    except ValueError:
        raise EngineError(f"hipdnn: --knob {name}={text}: expected {words}") from None
    problem = broken_constraint(member_of(knob, "constraint"), value)
    if problem is not None:
        raise EngineError(f"hipdnn: --knob {name}={text}: {problem}")
    return value


def broken_constraint(constraint: Any, value: Value) -> str | None:
    """What of a constraint a value breaks, in words. Bounds that are absent hold nothing."""
    valid = list(member_of(constraint, "valid_values") or ())
    if valid and value not in valid:
        return f"choose from {', '.join(map(str, valid))}"
    if isinstance(value, str):
        longest = member_of(constraint, "max_length")
        if longest and len(value) > longest:
            return f"at most {longest} characters"
        return None
    low, high = (member_of(constraint, name) for name in ("min_value", "max_value"))
    if (low is not None and value < low) or (high is not None and value > high):
        return f"expected {low} to {high}"
    step = member_of(constraint, "step")
    if step and step > 1 and isinstance(value, int) and (value - (low or 0)) % step:
        return f"expected steps of {step} from {low or 0}"
    return None


def descriptions(knobs: Mapping[str, Any]) -> dict[str, str]:
    """Type, default and limits of each knob in a few words, by its id."""
    return {name: _description(knob) for name, knob in knobs.items()}


def _description(knob: Any) -> str:
    kind, constraint = _type_name(knob), member_of(knob, "constraint")
    parts = [TYPES[kind][0] if kind in TYPES else kind]
    parts.append(f"default {member_of(knob, 'default_value', 'unknown')}")
    valid = list(member_of(constraint, "valid_values") or ())
    low, high = (member_of(constraint, name) for name in ("min_value", "max_value"))
    if valid:
        parts.append("one of " + " ".join(map(str, valid)))
    elif low is not None or high is not None:
        parts.append(f"{low} to {high}")
    if member_of(knob, "is_deprecated", False):
        parts.append("deprecated")
    words = member_of(knob, "description", "")
    return ", ".join(parts) + (f": {words}" if words else "")


def _type_name(knob: Any) -> str:
    """``INT64``, ``FLOAT64``, ``STRING``: as hipDNN says it, else by the type of the default."""
    kind = member_of(knob, "value_type")
    if kind is None:
        return BY_TYPE.get(type(member_of(knob, "default_value")), "unknown")
    return str(member_of(kind, "name", kind)).rpartition(".")[2]


MOST_VALUES = 64
"""Values of a range that are listed; a knob with more has no list."""


def all_values(knobs: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Every value that a knob takes, by its id; knobs that are deprecated or that take anything are
    left out."""
    current = {name: k for name, k in knobs.items() if not member_of(k, "is_deprecated", False)}
    values = {name: _values(member_of(knob, "constraint")) for name, knob in current.items()}
    return {name: found for name, found in values.items() if found}


def _values(constraint: Any) -> tuple[str, ...]:
    valid = list(member_of(constraint, "valid_values") or ())
    if valid:
        return tuple(map(str, valid))
    low, high = (member_of(constraint, name) for name in ("min_value", "max_value"))
    if not isinstance(low, int) or not isinstance(high, int):
        return ()
    span = range(low, high + 1, max(1, int(member_of(constraint, "step") or 1)))
    return tuple(map(str, span)) if len(span) <= MOST_VALUES else ()


# Engine ids of hipDNN: a name's hash, or the number that old releases used.
#
# The id of a name is FNV-1a, 64 bit, of its UTF-8 bytes, read as a signed number; the empty name is
# 0. Ids before that scheme are small numbers (1 was MIOpen) and pass through as they are.

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x100000001B3

KNOWN_NAMES = (
    "MIOPEN_ENGINE",
    "MIOPEN_ENGINE_DETERMINISTIC",
    "HIPBLASLT_ENGINE",
    "HIP_MLOPS_ENGINE",
    "ASM_SDPA_ENGINE",
    "ROCKE_ENGINE",
    "HIP_KERNEL_ENGINE",
    "HIP_FLASH2_ENGINE",
    "hipkernel:Gfx950AttentionDense",
    "FUSILLI_ENGINE",
    "MIOPEN_PLUGIN",
)
"""Names for ids that the installed hipDNN does not name itself; any other name is taken too."""

ALL, TUNED = "all", "autotune"
FORMS = "a name, a decimal or hexadecimal number, 'all' or 'autotune'"
_NUMBER = re.compile(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")


@dataclass(frozen=True)
class EngineChoice:
    """The engine that a spec asks for. Without an id hipDNN chooses."""

    id: int | None = None
    name: str | None = None
    """As it was given; None for a number."""
    every: bool = False
    """Each engine that accepts the graph, as variants."""
    tuned: bool = False
    """The one that hipDNN's own tuner finds fastest."""


def engine_id(name: str) -> int:
    """The signed id that hipDNN gives to an engine of this name."""
    if not name:
        return 0
    value = OFFSET_BASIS
    for byte in name.encode():
        value = (value ^ byte) * PRIME % 2**64
    return signed(value)


def signed(value: int) -> int:
    """An unsigned 64-bit number as the signed one of the same bits; signed ones as they are."""
    return value - 2**64 if value >= 2**63 else value


def parse_choice(text: str | None) -> EngineChoice:
    """``MIOPEN_ENGINE``, ``1``, ``-6748551569128940061``, ``0x15b46865c717a122``, ``all``."""
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


NAMES_BY_ID = {engine_id(name): name for name in KNOWN_NAMES}


HARD = "Graph.create_execution_plan_ext"
SOFT = "Graph.set_preferred_engine_id_ext"
FREE = "Graph.create_execution_plans"
RANKED = "Graph.get_ranked_engine_ids"


@dataclass(frozen=True)
class Selection:
    """What was asked of hipDNN, and how."""

    wanted: int | None
    how: str
    """``hipDNN's own choice``, or the function that chose."""
    knobs: Mapping[str, str] = field(default_factory=dict)


class Chooser:
    """Engines of one open library; `handle` tells the names that plugins invented."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library, self._handle = library, handle

    def name_of(self, engine: int) -> str:
        """The engine's name, or its number where no name maps back to it."""
        names = [self._library_name(engine), NAMES_BY_ID.get(engine, "")]
        info = self.info(engine)
        if info is not None:
            names.append(str(member_of(info, "engine_name", "")))
        return next((name for name in names if name and engine_id(name) == engine), str(engine))

    def _library_name(self, engine: int) -> str:
        if not self._library.can.has("engine_id_to_name"):
            return ""
        try:
            return str(self._library.module.engine_id_to_name(engine) or "")
        except Exception:  # foreign: some raise for ids of plugins; a number is a name too
            return ""

    def info(self, engine: int) -> Any:
        """hipDNN's `EngineInfo`; None where no loaded plugin has the engine, or none can tell."""
        if not self._library.can.has("Handle.get_engine_info"):
            return None
        try:
            return self._handle.get_engine_info(engine)
        except Exception:  # foreign: IndexError today where no plugin has it
            return None

    def names(self, engines: Iterable[int]) -> str:
        return ", ".join(self.name_of(engine) for engine in engines)

    def ranked(self, native: Any) -> tuple[int, ...]:
        """Engines that accept the graph, best first; none where hipDNN raises, which is its way
        to say so. Only after `build_operation_graph`."""
        with self._library.calling(RANKED):
            try:
                accepting = native.get_ranked_engine_ids(*self._library.modes())
                return tuple(dict.fromkeys(signed(int(engine)) for engine in accepting))
            except RuntimeError:
                return ()

    def select(self, native: Any, choice: EngineChoice, knobs: Mapping[str, str]) -> Selection:
        """Make the plans. Raises `UnsupportedGraphError` where the wanted engine declines."""
        if choice.id is None:
            self._plan_freely(native)
            return Selection(None, "hipDNN's own choice")
        if self._library.can.has(HARD):
            made, recorded = settings(self._library, native, choice.id, knobs)
            with self._library.calling(HARD):
                error = native.create_execution_plan_ext(choice.id, *([made] if made else []))
                if is_good(error) is None:
                    check(HARD, error)
                if not is_good(error):
                    raise self._declined(native, choice.id, meaning(HARD, error))
            return Selection(choice.id, HARD.rpartition(".")[2], recorded)
        version = self._library.version
        if knobs:
            raise EngineError(f"hipdnn: {version} has no {HARD}, which --knob needs")
        if not self._library.can.has(SOFT):
            raise EngineError(
                f"hipdnn: {version} has neither {HARD} nor {SOFT}: no engine can be chosen"
            )
        if self._library.cannot_rank is None and choice.id not in self.ranked(native):
            raise self._declined(native, choice.id, None)
        with self._library.calling(SOFT):
            native.set_preferred_engine_id_ext(choice.id)
        self._plan_freely(native)
        return Selection(choice.id, SOFT.rpartition(".")[2])

    def _plan_freely(self, native: Any) -> None:
        self._library.step(native, "create_execution_plans", *self._library.modes())

    def _declined(self, native: Any, wanted: int, cause: Exception | None) -> Exception:
        """The refusal, with the engines that would run the graph."""
        others = self.ranked(native) if self._library.cannot_rank is None else None
        text = f"hipdnn: {self.name_of(wanted)} does not run this graph"
        if others is not None:
            text += f"; engines that do: {self.names(others) or 'none'}"
        return UnsupportedGraphError(text + ("" if cause is None else f" ({cause})"))

    def confirm(self, native: Any, selection: Selection) -> tuple[int | None, str]:
        """The engine that the finished plan really has, and how sure that is.

        Raises `UnsupportedGraphError` where hipDNN replaced the wanted engine.
        """
        if not self._library.can.confirms_engine:
            return selection.wanted, "requested, not confirmed"
        with self._library.calling("Graph.get_execution_plan_engine_id"):
            actual = signed(int(native.get_execution_plan_engine_id()))
        if selection.wanted is not None and actual != selection.wanted:
            raise UnsupportedGraphError(
                f"hipdnn: preference ignored: {self.name_of(selection.wanted)} was requested and "
                f"hipDNN chose {self.name_of(actual)}; not measured under the wrong name"
            )
        return actual, "confirmed"

    def plan_name(self, native: Any) -> str:
        """hipDNN's name of the plan, or why it does not tell. The handle names a plugin's engine,
        where it is taken."""
        if not self._library.can.has("Graph.get_plan_name"):
            return ""
        try:
            with self._library.calling("Graph.get_plan_name"):
                try:
                    return str(native.get_plan_name(self._handle))
                except TypeError:  # a release that takes no handle yet
                    return str(native.get_plan_name())
        except EngineError as error:  # a name is no reason not to measure
            return f"not told: {error}"
