"""What a person can choose from: every plan with its engine, knobs, notes and workspace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.library import foreign, reason
from bench_run.engines.cudnn.plans import engine_of
from bench_run.engines.cudnn.tables import KNOBS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUILD_LIMIT_S = 30.0
"""Plans are built, to know their workspace, until this is over; a single one can take ten."""


def choices(pygraph: Any, listed: Sequence[str]) -> Iterator[dict[str, str]]:
    """One row a plan, in the heuristic's order."""
    begun = time.monotonic()
    for place, name in enumerate(listed):
        row = {"plan": name, "engine": str(engine_of(name)), "knobs": knob_text(name)}
        notes = pygraph.get_behavior_notes_for_plan_at_index(place)
        row["notes"] = " ".join(str(note).rpartition(".")[2] for note in notes) or "none"
        in_time = time.monotonic() - begun < BUILD_LIMIT_S
        yield {**row, "workspace": _workspace(pygraph, place) if in_time else "not asked for"}


def knob_text(name: str) -> str:
    """``TILE_SIZE=2 STAGES=3`` of a plan's name ``eng62_k2=2_k14=3``."""
    pairs = (part.partition("=") for part in name.split("_")[1:])
    found = [f"{_named(key)}={value}" for key, equals, value in pairs if equals]
    return " ".join(found) or "none"


def _named(key: str) -> str:
    number = key.removeprefix("k")
    return KNOBS.get(int(number), key) if number.isdecimal() else key


def _workspace(pygraph: Any, place: int) -> str:
    try:
        pygraph.build_plan_at_index(place)
        return f"{pygraph.get_workspace_size_plan_at_index(place)} bytes"
    except foreign() as error:
        return f"does not build ({reason(str(error))[:60]})"
