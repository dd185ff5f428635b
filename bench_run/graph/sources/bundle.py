"""Demands of the files beside a graph: hipDNN's bundle metadata and support claims.

``NAME.meta.json`` says how much device memory its case takes and of which chip its golden data are;
a field of another type counts as absent. ``NAME.support.json`` says which engine runs the graph on
which chip; a sweep has one file for all of its cases.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench_run.errors import GraphError
from bench_run.graph.format import fields

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS = ("applicability", "buildable", "full")
"""Promises of a claim: an engine accepts the graph, has a plan for it, runs it right."""
CLAIMED = "support is claimed"
"""Beginning of the reason where an engine does not do what is claimed of it."""
PLATFORM = "windows" if sys.platform == "win32" else "linux"


@dataclass(frozen=True)
class Bundle:
    """Demands of one graph; empty without such files."""

    least_memory_bytes: int = 0
    """Memory that the device has at least; 0: any device."""
    golden_of: str | None = None
    """The only chip on which the golden data hold, such as ``gfx942``; None: on every one."""
    level: str = "full"
    claims: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Platforms by engine's name and chip."""
    where: str = ""
    """The file with the claims."""

    def breach(self, engine: str, chip: str | None, phase: str | None) -> str | None:
        """Return the sentence on an engine that does not support the graph despite a claim; None if
        it was not claimed, or not to this extent."""
        stage = {"build": 0, "plan": 1}.get(phase or "", 2)
        platforms = self.claims.get(engine, {}).get(chip or "", ())
        if PLATFORM not in platforms or stage > LEVELS.index(self.level):
            return None
        return f"{CLAIMED} for {engine} on {chip}, {PLATFORM} ({self.where})"


def read_bundle(
    metadata: Mapping[str, Any], where: str, claims: Any = None, claims_at: str = "", case: str = ""
) -> Bundle:
    """`claims`: the value of the support file, None without one; `case`: the id of a sweep's.
    Raises `GraphError` for another version or level, and for claims that are none."""
    version = metadata.get("format_version", 1)
    if version != 1:
        raise fields.error(f"{where}:", "format_version", version, "1")
    level = metadata.get("enforcement_level")
    if isinstance(level, str) and level not in LEVELS:
        raise fields.error(f"{where}:", "enforcement_level", level, " or ".join(LEVELS))
    memory_mb, chip = metadata.get("minimum_vram_mb"), metadata.get("gpu_architecture")
    counts = isinstance(memory_mb, int) and not isinstance(memory_mb, bool)
    return Bundle(
        least_memory_bytes=max(0, memory_mb) << 20 if counts and memory_mb else 0,
        golden_of=(chip.partition(":")[0] or None) if isinstance(chip, str) else None,
        level=level if isinstance(level, str) else "full",
        claims={} if claims is None else _read_claims(claims, claims_at, case),
        where=claims_at,
    )


def _read_claims(value: Any, where: str, case: str) -> dict[str, dict[str, tuple[str, ...]]]:
    data = fields.as_object(value, f"{where}:")
    if data.get("version") != 1:
        raise fields.error(f"{where}:", "version", data.get("version"), "1")
    found = {}
    for engine, told in fields.as_object(data.get("claims"), f"{where}:", "claims").items():
        place = f"{where}: claims.{engine}"
        chips = _of_case(told, place, case) if case else fields.as_object(told, place)
        found[engine] = {chip: _platforms(p, f"{place}.{chip}") for chip, p in chips.items()}
    return found


def _of_case(told: Any, place: str, case: str) -> Mapping[str, Any]:
    """Return the claims of a sweep's file for one case, which is listed once for an engine or not
    at all."""
    rows = [fields.as_object(row, place) for row in fields.as_list(told, place, "")]
    mine = [row for row in rows if case in fields.as_list(row.get("cases"), place, "cases")]
    if len(mine) > 1:
        raise GraphError(place, f"lists the case {case!r} twice")
    return fields.as_object(mine[0].get("support"), place, "support") if mine else {}


def _platforms(value: Any, place: str) -> tuple[str, ...]:
    found = tuple(fields.as_list(value, place, ""))
    for platform in found:
        if platform not in ("linux", "windows"):
            raise fields.error(place, "platform", platform, "linux or windows")
    return found
