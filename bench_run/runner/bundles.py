"""Demands of the files beside a graph, held against the devices of this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.engines.hipdnn.choosing import engine_id, parse_choice
from bench_run.machine.devices import device_named, devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench_schema.document import Case

    from bench_run.graph.sources.bundle import Bundle
    from bench_run.graph.sources.load import LoadedGraph
    from bench_run.plan.cases import PlannedCase

ENGINE = "hipdnn"
"""Claims name engines of hipDNN."""


def chip_of(device: str) -> str | None:
    """Return the chip, such as ``gfx942``; None if the device does not report it."""
    found = device_named(device)
    return None if found is None else found.arch


def too_small(bundle: Bundle, device: str) -> str | None:
    """Return the reason why a case is skipped on a device; None if it has the memory, or does not
    report it."""
    if not bundle.least_memory_bytes or (found := device_named(device)) is None:
        return None
    if found.memory_bytes is None or found.memory_bytes >= bundle.least_memory_bytes:
        return None
    wanted, there = bundle.least_memory_bytes >> 20, found.memory_bytes >> 20
    return f"its metadata asks for a device of {wanted} MiB (minimum_vram_mb); this has {there}"


def with_own_golden(graphs: Sequence[LoadedGraph]) -> tuple[tuple[LoadedGraph, ...], list[str]]:
    """Leave out golden data of another chip; return the graphs, and a note for each chip."""
    if all(graph.bundle.golden_of is None for graph in graphs):
        return tuple(graphs), []
    chips = {device.arch for device in devices()}
    kept: list[LoadedGraph] = []
    other: dict[str, list[str]] = {}
    for graph in graphs:
        chip = graph.bundle.golden_of
        if graph.golden is not None and chip is not None and chip not in chips:
            other.setdefault(chip, []).append(graph.path)
            graph = replace(graph, golden=None)
        kept.append(graph)
    notes = [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: golden data of "
        f"{chip}, which no device here is (gpu_architecture): not compared with"
        for chip, paths in other.items()
    ]
    return tuple(kept), notes


def claimed_variants(
    bundle: Bundle, offered: Iterable[str], device: str
) -> list[Mapping[str, str]]:
    """Return a variant for each engine that is claimed to run a graph here, among those that run
    some graph of this run."""
    chip = chip_of(device)
    names = [name for name in bundle.claims if name in set(offered)]
    return [{"engine": name} for name in names if bundle.breach(name, chip, "build")]


def unheld_claims(graphs: Iterable[LoadedGraph], devices: Iterable[str]) -> list[str]:
    """Return a note where claims cannot be held, since a device of hipDNN's does not say its
    chip."""
    silent = [device for device in devices if chip_of(device) is None]
    if not silent or not any(graph.bundle.claims for graph in graphs):
        return []
    return [f"support claims are not held: amdsmi does not tell the chip of {silent[0]}"]


def enforced(case: Case, planned: PlannedCase, device: str) -> Case:
    """Return the case, failed where the engine declines what is claimed of it."""
    bundle, outcome = planned.graph.loaded.bundle, case.outcome
    if outcome.status != "unsupported" or not bundle.claims or planned.engine.spec.name != ENGINE:
        return case
    asked = parse_choice(planned.variant.get("engine", planned.engine.spec.id)).id
    name = next((name for name in bundle.claims if engine_id(name) == asked), "")
    sentence = bundle.breach(name, chip_of(device), outcome.phase)
    if sentence is None:
        return case
    broken = replace(outcome, status="failed", reason=f"{sentence}: {outcome.reason}")
    return replace(case, outcome=broken)
