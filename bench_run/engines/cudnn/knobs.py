"""Knobs of cuDNN's engines: names, accepted values, and errors in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.tables import KNOBS, UNNUMBERED_KNOBS
from bench_run.errors import UnsupportedGraphError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMELESS = re.compile(r"k\d{1,2}")


def knob_name(key: str) -> str:
    """``k2`` or ``TILE_SIZE`` → ``TILE_SIZE``; ``k5``, which has no name, stays."""
    name = named(key) if key[:1] == "k" else key.upper()
    if name not in (*KNOBS.values(), *UNNUMBERED_KNOBS) and not is_nameless(name):
        known = ", ".join(f"k{number} ({name})" for number, name in KNOBS.items())
        raise UsageError(f"--knob {key}: cuDNN has no such knob; it has {known}")
    return name


def is_nameless(name: str) -> bool:
    """Whether it is a number of the backend's that the frontend has no member for: it cannot set
    the knob, which then only chooses among the plans that the heuristics list."""
    return _NAMELESS.fullmatch(name) is not None


def named(key: str) -> str:
    """The name of a knob that a plan's name calls ``k2``; as it is where there is none."""
    number = key.removeprefix("k")
    return KNOBS.get(int(number), key) if number.isdecimal() else key


def knobs_of(plan: str) -> dict[str, int]:
    """``{"TILE_SIZE": 2, "k5": 3}`` of a plan's name ``eng62_k2=2_k5=3``."""
    pairs = (part.partition("=") for part in plan.split("_")[1:])
    return {named(key): int(value) for key, equals, value in pairs if equals}


def knob_text(plan: str) -> str:
    """``TILE_SIZE=2 k5=3`` of a plan's name ``eng62_k2=2_k5=3``."""
    return " ".join(f"{name}={value}" for name, value in knobs_of(plan).items()) or "none"


def offered_text(offered: Iterable[Any]) -> str:
    """What an engine takes: ``TILE_SIZE 0 to 8, STAGES 1 to 7 by 2``."""
    return ", ".join(_range(knob) for knob in _with_names(offered).values()) or "no knob"


def checked(wanted: Mapping[str, int], offered: Iterable[Any], asked: str) -> None:
    """Raises `UnsupportedGraphError` for a knob or a value that the engine does not take for the
    graph; the library would only say that the whole is not supported."""
    known = _with_names(offered)
    for name, value in wanted.items():
        if is_nameless(name):
            raise UnsupportedGraphError(
                f"cudnn: {asked}: {name} cannot be set, only found, and no listed plan has just "
                "the knobs that were given"
            )
        if name not in known:
            raise UnsupportedGraphError(
                f"cudnn: {asked}: it takes no {name}; it takes {offered_text(known.values())}"
            )
        knob = known[name]
        step = max(1, int(knob.stride))
        if not knob.min_value <= value <= knob.max_value or (value - knob.min_value) % step:
            raise UnsupportedGraphError(f"cudnn: {asked}: {name}={value}: it takes {_range(knob)}")


def settings(cudnn: Any, wanted: Mapping[str, int]) -> dict[Any, int]:
    """The knobs as `create_execution_plan` takes them; `checked` knows that each has a member."""
    return {cudnn.knob_type.__members__[name]: value for name, value in wanted.items()}


def _with_names(offered: Iterable[Any]) -> dict[str, Any]:
    """Knobs by name; those that the frontend has no member for cannot be set."""
    return {knob.type.name: knob for knob in offered if knob.type.name != "NOT_SET"}


def _range(knob: Any) -> str:
    step = f" by {knob.stride}" if knob.stride > 1 else ""
    return f"{knob.type.name} {knob.min_value} to {knob.max_value}{step}"
