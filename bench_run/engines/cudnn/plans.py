"""Which of cuDNN's execution plans runs: the choice as a value, and the search for it.

A plan is an engine with its knobs; its name says both (``eng62_k2=0_k13=1``). Ids and knobs mean
something only together with the backend's version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.knobs import (
    checked,
    is_nameless,
    knob_name,
    knobs_of,
    settings,
)
from bench_run.engines.cudnn.library import foreign, reason, refusals
from bench_run.errors import UnsupportedGraphError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_TRIED = 12
"""Plans of the heuristic's list that are tried until one builds."""
DESELECTED = "Deselecting execution plan"
"""What the frontend says of a plan that the wanted arithmetic leaves out."""
LESS_EXACT = "all requested plans round more than --math allows; tf32 and fast allow more"
_ENGINE = re.compile(r"(?:eng)?(\d+)")


@dataclass(frozen=True)
class Choice:
    """What the spec asks for; everything None: the heuristic's first plan that builds."""

    engine: int | None = None
    name: str | None = None
    index: int | None = None
    every: bool = False
    knobs: Mapping[str, int] = field(default_factory=dict)
    """Knob (`knob_name`) → value; the others of the engine stay at its defaults."""


@dataclass(frozen=True)
class Chosen:
    index: int
    name: str
    workspace_bytes: int
    notes: tuple[str, ...]


def read_choice(identifier: str | None, knobs: Mapping[str, str]) -> Choice:
    """Raises `UsageError` for an id or a knob that means nothing."""
    values = read_knobs(knobs)
    matched = None if identifier is None else _ENGINE.fullmatch(identifier)
    if values and matched is None:
        raise UsageError("--knob goes with an engine's id: --engine cudnn:ENGINE_ID")
    if identifier is None or identifier == "all":
        return Choice(every=identifier == "all")
    key, equals, value = identifier.partition("=")
    if equals and key == "plan" and value:
        return Choice(name=value)
    if equals and key == "index":
        return Choice(index=_whole("cudnn:index", value))
    if matched is None:
        forms = "a number, plan=NAME, index=N or all"
        raise UsageError(f"engine 'cudnn:{identifier}': expected {forms} after the colon")
    return Choice(engine=int(matched[1]), knobs=values)


def read_knobs(knobs: Mapping[str, str]) -> dict[str, int]:
    """Raises `UsageError` for a knob that there is none of, and a value that is no number."""
    return {knob_name(key): _whole(f"--knob {key}", value) for key, value in knobs.items()}


def _whole(what: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{what}: expected a whole number, got {text!r}")
    return int(text)


def engine_of(name: str) -> int | None:
    """The engine's id in a plan's name."""
    matched = re.match(r"eng(\d+)", name)
    return None if matched is None else int(matched[1])


def described_by(name: str) -> Choice | None:
    """The choice of engine and knobs that a plan's name is; None where the frontend cannot set one
    of the knobs."""
    engine, knobs = engine_of(name), knobs_of(name)
    if engine is None or any(map(is_nameless, knobs)):
        return None
    return Choice(engine=engine, knobs=knobs)


def prepare(cudnn: Any, pygraph: Any, choice: Choice, what: str, *, explicit: bool) -> None:
    """Has the frontend list plans, or make the one that an engine's id and knobs describe."""
    modes = [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK]
    if choice != Choice():
        modes.insert(1, cudnn.heur_mode.B)
    with refusals(what):
        pygraph.validate()
        pygraph.build_operation_graph()
        if not explicit:
            pygraph.create_execution_plans(modes)
    if explicit:
        _explicit(cudnn, pygraph, choice, what)


def _explicit(cudnn: Any, pygraph: Any, choice: Choice, what: str) -> None:
    asked = f"{what}: engine {choice.engine}"
    with refusals(asked):
        offered = pygraph.get_knobs_for_engine(choice.engine)
    checked(choice.knobs, offered, asked)
    text = " ".join(f"{name}={value}" for name, value in choice.knobs.items())
    with refusals(f"{asked} with {text or 'its defaults'}"):
        pygraph.create_execution_plan(choice.engine, settings(cudnn, choice.knobs))


def names(pygraph: Any) -> list[str]:
    count = pygraph.get_execution_plan_count()
    return [str(pygraph.get_plan_name_at_index(i)) for i in range(count)]


def candidates(found: list[str], choice: Choice) -> list[int]:
    """Places in the list that fit the choice, in its order. Raises `UnsupportedGraphError`."""
    places = matching(found, choice)
    if not places:
        listed = ", ".join(found[:8]) + (" …" if len(found) > 8 else "")
        raise UnsupportedGraphError(f"cudnn: no such plan for this graph; it lists {listed}")
    return places


def matching(found: list[str], choice: Choice) -> list[int]:
    return [
        place
        for place, name in enumerate(found)
        if choice.name in (None, name)
        and choice.index in (None, place)
        and choice.engine in (None, engine_of(name))
        and (not choice.knobs or choice.knobs == knobs_of(name))
    ]


def build(pygraph: Any, places: list[int], found: list[str], what: str) -> Chosen:
    """Builds the first of `places` that builds. Raises `UnsupportedGraphError` with the reason of
    the first that did not."""
    refused: str | None = None
    tried = 0
    for place in places:
        try:
            pygraph.build_plan_at_index(place)
        except foreign() as error:
            text = str(error)
            tried += DESELECTED not in text
            refused = text if refused is None or DESELECTED in refused else refused
            if tried > MOST_TRIED:
                break
            continue
        size = int(pygraph.get_workspace_size_plan_at_index(place))
        notes = pygraph.get_behavior_notes_for_plan_at_index(place)
        return Chosen(place, found[place], size, tuple(str(n).rpartition(".")[2] for n in notes))
    why = "no plan was listed" if refused is None else reason(refused)
    why = LESS_EXACT if refused is not None and DESELECTED in refused else why
    raise UnsupportedGraphError(f"cudnn: {what}: no plan builds: {why}")
