"""What a person can choose from: every plan with its engine, knobs, notes and workspace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.knobs import knob_text, offered_text
from bench_run.engines.cudnn.library import foreign, reason, refusals
from bench_run.engines.cudnn.plans import engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUILD_LIMIT_S = 30.0
"""Plans are built, to know their workspace, until this is over; a single one can take ten."""


def choices(pygraph: Any, listed: Sequence[str], places: Sequence[int]) -> Iterator[dict[str, str]]:
    """One row for each of these places in the list, in the heuristic's order."""
    begun = time.monotonic()
    for place in places:
        name = listed[place]
        row = {"index": str(place), "plan": name, "engine": str(engine_of(name))}
        row["knobs"] = knob_text(name)
        notes = pygraph.get_behavior_notes_for_plan_at_index(place)
        row["notes"] = " ".join(str(note).rpartition(".")[2] for note in notes) or "none"
        in_time = time.monotonic() - begun < BUILD_LIMIT_S
        yield {**row, "workspace": _workspace(pygraph, place) if in_time else "not asked for"}


def knobs_taken(pygraph: Any, engine: int) -> dict[str, str]:
    """A row that says which knobs an engine takes for the graph."""
    try:
        offered = pygraph.get_knobs_for_engine(engine)
    except foreign() as error:
        return {"engine": str(engine), "does not fit:": reason(str(error))}
    return {"engine": str(engine), "takes": offered_text(offered)}


def knob_values(pygraph: Any, engine: int) -> dict[str, tuple[str, ...]]:
    """Every value of every knob that can be set, by the knob's name."""
    with refusals(f"engine {engine}"):
        offered = list(pygraph.get_knobs_for_engine(engine))
    return {
        knob.type.name: tuple(
            str(value)
            for value in range(knob.min_value, knob.max_value + 1, max(1, int(knob.stride)))
        )
        for knob in offered
        if knob.type.name != "NOT_SET"
    }


def _workspace(pygraph: Any, place: int) -> str:
    try:
        pygraph.build_plan_at_index(place)
        return f"{pygraph.get_workspace_size_plan_at_index(place)} bytes"
    except foreign() as error:
        return f"does not build ({reason(str(error))[:60]})"
